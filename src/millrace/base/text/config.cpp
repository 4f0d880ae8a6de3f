#include "millrace/base/text/config.hpp"

#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "millrace/base/files/file.hpp"
#include "millrace/base/files/file_ledger.hpp"
#include "millrace/base/text/yaml_check.hpp"

namespace millrace {
namespace {

std::string join(const std::vector<std::string>& words) {
    std::string text;
    for (const std::string& word : words) text += (text.empty() ? "" : ", ") + word;
    return text;
}

/// Splits `12.5 ms` into 12.5 and "ms".
std::optional<std::pair<double, std::string>> number_and_unit(const std::string& text) {
    double value = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
    if (error != std::errc{} || !std::isfinite(value)) return std::nullopt;
    std::string unit(end, text.data() + text.size());
    unit.erase(0, unit.find_first_not_of(' '));
    return std::pair{value, unit};
}

}  // namespace

struct Config::Value {
    // A constructor of its own: clang 14, which builds the fuzzers on Debian 12, makes no aggregate in make_shared.
    Value(const YAML::Node& of, std::shared_ptr<const std::string> in, YAML::Mark at)
        : node(of), file(std::move(in)), mark(at) {}

    YAML::Node node;
    std::shared_ptr<const std::string> file;
    YAML::Mark mark;  ///< of the key when the value is null and has no place of its own
};

Config Config::load(const std::string& path) { return parse(read_beginning(path, kMaxYamlBytes + 1), path); }

Config Config::parse(const std::string& text, const std::string& file) {
    const auto name = std::make_shared<const std::string>(file);
    try {
        check_yaml(text, file);
        YAML::Node node = YAML::Load(text);
        return Config(std::make_shared<const Value>(node, name, node.Mark()));
    } catch (const YAML::Exception& e) {
        throw ConfigError(
            Diagnostic{{file, static_cast<uint32_t>(e.mark.line + 1), static_cast<uint32_t>(e.mark.column + 1)},
                       "this is not YAML: " + e.msg,
                       "look at the indentation, and quote values that hold ': ' or begin with a special sign"});
    }
}

Config Config::as(const std::string& text) const {
    const YAML::Mark own = value_->node.Mark();
    return Config(std::make_shared<const Value>(YAML::Node(text), value_->file, own.is_null() ? value_->mark : own));
}

Config Config::as(const std::vector<std::pair<Config, Config>>& entries) const {
    YAML::Node map(YAML::NodeType::Map);
    for (const auto& [key, value] : entries) map.force_insert(key.value_->node, value.value_->node);
    const YAML::Mark own = value_->node.Mark();
    return Config(std::make_shared<const Value>(map, value_->file, own.is_null() ? value_->mark : own));
}

Location Config::where() const {
    const YAML::Node& node = value_->node;
    const YAML::Mark own = node.IsDefined() ? node.Mark() : YAML::Mark::null_mark();
    const YAML::Mark& mark = own.is_null() || node.IsNull() ? value_->mark : own;
    if (mark.is_null()) return {*value_->file, 1, 1};
    return {*value_->file, static_cast<uint32_t>(mark.line + 1), static_cast<uint32_t>(mark.column + 1)};
}

Diagnostic Config::diagnostic(const std::string& message, const std::string& hint) const {
    return {where(), message, hint};
}
void Config::fail(const std::string& message, const std::string& hint) const {
    throw ConfigError(diagnostic(message, hint));
}

bool Config::is_map() const { return value_->node.IsMap(); }
bool Config::is_list() const { return value_->node.IsSequence(); }
bool Config::is_scalar() const { return value_->node.IsScalar(); }
bool Config::is_null() const { return value_->node.IsNull() || !value_->node.IsDefined(); }

/// Of a key; of one that was made (`as`), its map's.
template <class Node>
auto Config::place_of(const Node& key) const {
    const auto own = key.Mark();
    return own.is_null() ? value_->mark : own;
}

bool Config::has(const std::string& key) const { return find(key).has_value(); }

Config Config::at(const std::string& key) const {
    auto value = find(key);
    if (!value) fail("'" + key + "' is missing here", "add a line '" + key + ": …'");
    return *value;
}

std::optional<Config> Config::find(const std::string& key) const {
    if (is_null()) return std::nullopt;
    if (!is_map()) fail("a map ('key: value' lines) is wanted here");
    // Options are asked for one by one: no value is made of the others. What entries() refuses, it tells of.
    std::vector<std::string_view> names;
    std::optional<Config> found;
    for (const auto& entry : value_->node) {
        if (!entry.first.IsScalar() && !entry.first.IsNull()) entries();
        names.push_back(entry.first.IsNull() ? std::string_view("null") : entry.first.Scalar());
        if (names.back() == key)
            found = Config(std::make_shared<const Value>(entry.second, value_->file, place_of(entry.first)));
    }
    std::sort(names.begin(), names.end());
    if (std::adjacent_find(names.begin(), names.end()) != names.end()) entries();
    return found;
}

std::vector<std::pair<Config, Config>> Config::entries() const {
    if (is_null()) return {};
    if (!is_map()) fail("a map ('key: value' lines) is wanted here");
    std::vector<std::pair<Config, Config>> result;
    std::set<std::string> seen;
    for (const auto& entry : value_->node) {
        // YAML reads a bare `null` as nothing; where it is a key (a port's kind) it is a word.
        Config key(std::make_shared<const Value>(entry.first.IsNull() ? YAML::Node("null") : YAML::Node(entry.first),
                                                 value_->file, place_of(entry.first)));
        if (!seen.insert(key.text()).second) key.fail("'" + key.text() + "' is given twice", "keep one of them");
        Config value(std::make_shared<const Value>(entry.second, value_->file, place_of(entry.first)));
        result.emplace_back(std::move(key), std::move(value));
    }
    return result;
}

void Config::only(const std::vector<std::string>& known) const {
    std::vector<Diagnostic> mistakes;
    for (const auto& [key, value] : entries()) {
        if (std::find(known.begin(), known.end(), key.text()) != known.end()) continue;
        const std::string near = closest_word(key.text(), known);
        mistakes.push_back(key.diagnostic("unknown field '" + key.text() + "'", near.empty()
                                                                                    ? "known here: " + join(known)
                                                                                    : "did you mean '" + near + "'?"));
    }
    if (!mistakes.empty()) throw ConfigError(std::move(mistakes));
}

std::vector<Config> Config::items() const {
    if (is_null()) fail("a value is missing here", "give one, write [] for none, or take the line out");
    if (!is_list()) return {*this};
    std::vector<Config> result;
    for (const auto& element : value_->node)
        result.push_back(Config(std::make_shared<const Value>(element, value_->file, element.Mark())));
    return result;
}

std::string Config::written() const { return YAML::Dump(value_->node); }

std::string Config::text() const {
    if (!is_scalar()) fail(is_null() ? "a value is missing here" : "a single value is wanted here");
    return value_->node.Scalar();
}

bool Config::boolean() const {
    const std::string word = text();
    if (word == "true" || word == "yes" || word == "on") return true;
    if (word == "false" || word == "no" || word == "off") return false;
    fail("'" + word + "' is neither true nor false");
}

int64_t Config::integer(int64_t least, int64_t most) const {
    const std::string digits = text();
    const bool hex = digits.starts_with("0x");
    int64_t value = 0;
    const char* begin = digits.data() + (hex ? 2 : 0);
    const auto [end, error] = std::from_chars(begin, digits.data() + digits.size(), value, hex ? 16 : 10);
    if (error != std::errc{} || end != digits.data() + digits.size()) fail("'" + digits + "' is not a whole number");
    if (value < least || value > most)
        fail(digits + " is out of range", "from " + std::to_string(least) + " to " + std::to_string(most));
    return value;
}

double Config::number() const {
    const auto parts = number_and_unit(text());
    if (!parts || !parts->second.empty()) fail("'" + text() + "' is not a number");
    return parts->first;
}

std::chrono::nanoseconds Config::duration() const {
    const auto parts = number_and_unit(text());
    const double scale = !parts                  ? 0
                         : parts->second == "ns" ? 1
                         : parts->second == "us" ? 1e3
                         : parts->second == "ms" ? 1e6
                         : parts->second == "s"  ? 1e9
                                                 : 0;
    if (scale == 0 || parts->first < 0 || parts->first * scale > 9e18)
        fail("'" + text() + "' is not a duration", "write it as 100us, 2ms or 1s");
    return std::chrono::nanoseconds(static_cast<int64_t>(parts->first * scale));
}

uint64_t Config::size() const {
    static const std::vector<std::pair<std::string, double>> kUnits = {
        {"", 1}, {"k", 1e3}, {"M", 1e6}, {"G", 1e9}, {"Ki", 1024.0}, {"Mi", 1048576.0}, {"Gi", 1073741824.0}};
    const auto parts = number_and_unit(text());
    if (parts && parts->first >= 0)
        for (const auto& [unit, scale] : kUnits)
            if (parts->second == unit && parts->first * scale < 1e18)
                return static_cast<uint64_t>(parts->first * scale);
    fail("'" + text() + "' is not a size or count", "write it as 8192, 10k, 4M or 64Ki");
}

size_t Config::choice(const std::vector<std::string>& words) const {
    const auto found = std::find(words.begin(), words.end(), text());
    if (found != words.end()) return static_cast<size_t>(found - words.begin());
    const std::string near = closest_word(text(), words);
    fail("'" + text() + "' is not one of " + join(words), near.empty() ? "" : "did you mean '" + near + "'?");
}

Prefix Config::prefix() const {
    if (const auto prefix = parse_prefix(text())) return *prefix;
    if (const auto masked = parse_prefix(text(), true))
        fail("'" + text() + "' has bits set behind its length", "write " + masked->text());
    fail("'" + text() + "' is not an IP prefix", "write it as 192.0.2.0/24 or 2001:db8::/32");
}

std::array<uint8_t, 6> Config::mac() const {
    if (const auto mac = parse_mac(text())) return *mac;
    fail("'" + text() + "' is not a MAC address", "write it as 02:00:00:00:00:01");
}

std::string Config::path() const {
    if (text().empty()) fail("a file name is missing here");
    const std::string path = resolve_path(text(), *value_->file);
    FileLedger::note_here(FileLedger::Use::read, path, where());
    return path;
}

std::string Config::text_or(const std::string& key, const std::string& otherwise) const {
    const auto value = find(key);
    return value ? value->text() : otherwise;
}
bool Config::boolean_or(const std::string& key, bool otherwise) const {
    const auto value = find(key);
    return value ? value->boolean() : otherwise;
}
int64_t Config::integer_or(const std::string& key, int64_t otherwise, int64_t least, int64_t most) const {
    const auto value = find(key);
    return value ? value->integer(least, most) : otherwise;
}

}  // namespace millrace
