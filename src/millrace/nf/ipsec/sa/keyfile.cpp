#include <sys/stat.h>

#include <cstring>
#include <utility>

#include "millrace/base/files/private_file.hpp"
#include "millrace/base/text/yaml_reader.hpp"
#include "millrace/nf/ipsec/options.hpp"

namespace millrace::nf::ipsec {
namespace {

int digit(char c) {
    if (c >= '0' && c <= '9') return c - '0';
    if (c >= 'a' && c <= 'f') return c - 'a' + 10;
    if (c >= 'A' && c <= 'F') return c - 'A' + 10;
    return -1;
}

Secret read_hex(const Config& value, const std::string& field) {
    if (!value.is_scalar()) fail_secretly(value, "the hexadecimal digits of '" + field + "' are wanted here");
    const std::string text = value.text();
    size_t at = text.starts_with("0x") ? 2 : 0;
    if ((text.size() - at) % 2 != 0) fail_secretly(value, "'" + field + "' has an odd number of hexadecimal digits");
    std::vector<uint8_t> bytes;
    for (; at < text.size(); at += 2) {
        const int high = digit(text[at]), low = digit(text[at + 1]);
        if (high < 0 || low < 0)
            fail_secretly(value, "'" + field + "' holds something that is not a hexadecimal digit",
                          "write it as 00112233…");
        bytes.push_back(static_cast<uint8_t>(high * 16 + low));
    }
    return Secret(std::move(bytes));
}

/// Runs `f` and keeps any error that it throws from showing its line.
template <class F>
auto secretly(F&& f) {
    try {
        return f();
    } catch (const ConfigError& error) {
        std::vector<Diagnostic> diagnostics = error.diagnostics();
        for (Diagnostic& diagnostic : diagnostics) diagnostic.secret = true;
        throw ConfigError(std::move(diagnostics));
    }
}

}  // namespace

Secret::~Secret() {
    if (!bytes.empty()) explicit_bzero(bytes.data(), bytes.size());
}

void fail_secretly(const Config& place, const std::string& message, const std::string& hint) {
    Diagnostic diagnostic = place.diagnostic(message, hint);
    diagnostic.secret = true;
    throw ConfigError(std::move(diagnostic));
}

KeyFile::KeyFile(const Config& named) {
    const std::string path = named.path();
    keys_ = secretly([&] {
        Config keys = Config::parse(read_file(path, named.where(), kMaxYamlBytes, only_for_its_owner(path)), path);
        for (const auto& [name, fields] : keys.entries()) fields.only({"key", "nonce", "auth-key"});
        return keys;
    });
}

std::optional<Secret> KeyFile::find(const Config& sa, const std::string& sa_name, const std::string& field) const {
    const auto own = sa.find(field);
    std::optional<Config> other;
    if (keys_)
        if (const auto fields = keys_->find(sa_name)) other = fields->find(field);
    if (own && other)
        fail_secretly(*own, "'" + field + "' of SA '" + sa_name + "' stands here and in the file of keys",
                      "keep one of them");
    if (own) return read_hex(*own, field);
    if (other) return read_hex(*other, field);
    return std::nullopt;
}

void KeyFile::only_of(const std::vector<SaOptions>& sas) const {
    if (!keys_) return;
    std::vector<std::string> names;
    for (const SaOptions& sa : sas) names.push_back(sa.name);
    secretly([&] { keys_->only(names); });
}

}  // namespace millrace::nf::ipsec
