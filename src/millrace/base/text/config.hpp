// Reading YAML with the position of everything that was read.
#pragma once

#include <array>
#include <chrono>
#include <cstdint>
#include <limits>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/base/text/prefix.hpp"

namespace millrace {

/// One value of a YAML file. Every reader below throws ConfigError with the value's file, line and
/// column when the value is not what was asked for. Cheap to copy.
class Config {
public:
    /// Reads a file or a text (`file` then only names it in errors and anchors relative paths).
    static Config load(const std::string& path);
    static Config parse(const std::string& text, const std::string& file = "(text)");

    // What a short form stands for: mistakes in it are told where that is.
    /// A single value of this text, in this one's place.
    Config as(const std::string& text) const;
    /// A map, in this one's place. Keys and values keep their own.
    Config as(const std::vector<std::pair<Config, Config>>& entries) const;

    Location where() const;
    [[noreturn]] void fail(const std::string& message, const std::string& hint = {}) const;
    Diagnostic diagnostic(const std::string& message, const std::string& hint = {}) const;

    bool is_map() const;
    bool is_list() const;
    bool is_scalar() const;
    /// `key:` with nothing behind it.
    bool is_null() const;

    /// Written as YAML again, without comments: equal for equal values.
    std::string written() const;

    // --- maps ---
    bool has(const std::string& key) const;
    /// The value of `key`, which must be there.
    Config at(const std::string& key) const;
    std::optional<Config> find(const std::string& key) const;
    /// Keys and values in the order of the file. A key given twice is an error. Empty when null.
    std::vector<std::pair<Config, Config>> entries() const;
    /// Any other key than these is an error that names the closest one.
    void only(const std::vector<std::string>& known) const;

    // --- lists ---
    /// The elements; a scalar or map counts as a list of one, null as none.
    std::vector<Config> items() const;

    // --- scalars ---
    std::string text() const;
    bool boolean() const;
    int64_t integer(int64_t least = std::numeric_limits<int64_t>::min(),
                    int64_t most = std::numeric_limits<int64_t>::max()) const;
    double number() const;
    /// `100us`, `2 ms`, `1s`.
    std::chrono::nanoseconds duration() const;
    /// Bytes or a plain count with k, M, G (powers of 1000) or Ki, Mi, Gi.
    uint64_t size() const;
    /// One of `words`; its index.
    size_t choice(const std::vector<std::string>& words) const;
    Prefix prefix() const;
    std::array<uint8_t, 6> mac() const;
    /// A file name, taken from the folder of this YAML file.
    std::string path() const;

    // --- with a default ---
    std::string text_or(const std::string& key, const std::string& otherwise) const;
    bool boolean_or(const std::string& key, bool otherwise) const;
    int64_t integer_or(const std::string& key, int64_t otherwise, int64_t least = std::numeric_limits<int64_t>::min(),
                       int64_t most = std::numeric_limits<int64_t>::max()) const;

private:
    struct Value;
    /// A list's element; of a map, which has keys and values in turn, either.
    Config child(size_t index) const;
    explicit Config(std::shared_ptr<const Value> value) : value_(std::move(value)) {}
    std::shared_ptr<const Value> value_;
};

}  // namespace millrace
