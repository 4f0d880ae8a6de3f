// Network functions outside of this program: shared libraries, built with millrace_add_nf, that are loaded while it
// runs.
#pragma once

#include <memory>
#include <stdexcept>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/nf/nf.hpp"

namespace millrace::nf {

/// A plugin can't be used; `what()` names it and says why.
class PluginError : public std::runtime_error {
public:
    explicit PluginError(const std::string& message, std::string hint = {})
        : std::runtime_error(message), hint_(std::move(hint)) {}
    /// What would mend it; may be empty.
    const std::string& hint() const { return hint_; }

private:
    std::string hint_;
};

/// A shared library at work. It runs from a private copy of its file, so that the file may be written anew meanwhile,
/// and it stays loaded until the program ends: generations before, and state that they handed on, still call its code.
class Plugin {
public:
    /// The plugin with the content that the file has now: the one at hand if that content was loaded before, from
    /// whatever path. None of its code runs before its stamp was found to be this program's. Throws PluginError.
    static const Plugin& open(const std::string& path);
    /// Throws PluginError where `open` would without running any of the plugin's code: no file, no plugin, or one that
    /// was built against other headers.
    static void check(const std::string& path);

    const std::string& path() const { return path_; }  ///< that its content was first loaded from
    const std::vector<std::unique_ptr<const Type>>& types() const { return types_; }
    Plugin(const Plugin&) = delete;
    Plugin& operator=(const Plugin&) = delete;

private:
    Plugin() = default;
    void load(const std::string& content);
    void check_types();

    std::string path_;
    std::vector<std::unique_ptr<const Type>> types_;
    DeviceSources sources_;
};

/// What plugins must have been built against: a digest of the headers that they include, and the C++ library's variant.
std::string_view abi_stamp();
/// The stamp of a library's file content; empty when it is no ELF library or has none.
std::string_view abi_stamp_of(std::string_view library);

/// Makes the network functions of a plugin known to everyone: `millrace --nf`. Throws PluginError.
void load_plugin(const std::string& path);

/// The network functions that one configuration may name: those built in, those of `--nf` as their files are now, and
/// those of the plugins that it lists.
class Catalogue {
public:
    /// Throws PluginError.
    Catalogue();
    /// Throws PluginError, also when a name of its is taken already.
    void add(const std::string& path);
    const Type* find(std::string_view name) const;
    /// By name.
    const std::vector<const Type*>& all() const { return types_; }

private:
    std::vector<const Type*> types_;
    std::map<const Type*, std::string> paths_;  // that plugins' types were asked for by
};

}  // namespace millrace::nf
