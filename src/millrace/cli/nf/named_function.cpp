#include "millrace/cli/nf/named_function.hpp"

#include <filesystem>
#include <stdexcept>

#include "millrace/cli/process/run_guard.hpp"
#include "millrace/nf/plugin.hpp"

namespace millrace::cli {

const nf::Type& named_function(const std::string& name) {
    if (const nf::Type* type = nf::find_type(name)) return *type;
    if (!std::filesystem::exists(name))
        throw std::runtime_error("there is no plugin file and no network function '" + name +
                                 "'; 'millrace nf list' shows those that are known");
    const RunGuard guard;
    const nf::Plugin& plugin = nf::Plugin::open(name);
    if (plugin.types().size() == 1) return *plugin.types().front();
    std::string names;
    for (const auto& type : plugin.types()) names += (names.empty() ? "" : ", ") + type->name;
    throw std::runtime_error(name + " has several network functions: " + names + "; load it with 'millrace --nf " +
                             name + " nf …' and name one");
}

CLI::Validator architecture_check() {
    return {[](const std::string& text) {
                const bool good = text.size() > 4 && text.size() < 9 && text.starts_with("sm_") &&
                                  text.find_first_not_of("0123456789", 3) == std::string::npos;
                return good ? std::string() : "'" + text + "' is no architecture; one is sm_90";
            },
            ""};
}

}  // namespace millrace::cli
