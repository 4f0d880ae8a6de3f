#include "millrace/base/text/config.hpp"

#include <yaml-cpp/exceptions.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <set>

#include "millrace/base/files/file.hpp"
#include "millrace/base/files/file_ledger.hpp"
#include "millrace/base/text/yaml_node.hpp"
#include "millrace/base/text/yaml_reader.hpp"

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

/// A value that no text has.
std::shared_ptr<const YamlNode> made_scalar(const std::string& text) {
    const auto node = std::make_shared<YamlNode>();
    node->kind = YamlNode::Kind::scalar;
    node->scalar = text;
    return node;
}

}  // namespace

struct Config::Value {
    // A constructor of its own: clang 14, which builds the fuzzers on Debian 12, makes no aggregate in make_shared.
    Value(std::shared_ptr<const YamlNode> of, std::shared_ptr<const std::string> in, YamlPlace at)
        : node(std::move(of)), file(std::move(in)), place(at) {}

    /// A value of the same tree.
    std::shared_ptr<const YamlNode> beside(const YamlNode* other) const { return {node, other}; }
    YamlPlace own_place() const { return node->place.is_known() ? node->place : place; }

    std::shared_ptr<const YamlNode> node;
    std::shared_ptr<const std::string> file;
    YamlPlace place;  ///< of the key when the value is null and has no place of its own
};

Config Config::load(const std::string& path) { return parse(read_beginning(path, kMaxYamlBytes + 1), path); }

Config Config::parse(const std::string& text, const std::string& file) {
    const auto name = std::make_shared<const std::string>(file);
    try {
        const auto node = read_yaml(text, file);
        return Config(std::make_shared<const Value>(node, name, node->place));
    } catch (const YAML::Exception& e) {
        throw ConfigError(
            Diagnostic{{file, static_cast<uint32_t>(e.mark.line + 1), static_cast<uint32_t>(e.mark.column + 1)},
                       "this is not YAML: " + e.msg,
                       "look at the indentation, and quote values that hold ': ' or begin with a special sign"});
    }
}

Config Config::as(const std::string& text) const {
    return Config(std::make_shared<const Value>(made_scalar(text), value_->file, value_->own_place()));
}

Config Config::as(const std::vector<std::pair<Config, Config>>& entries) const {
    const auto tree = std::make_shared<YamlTree>();
    YamlNode& map = tree->nodes.emplace_back();
    map.kind = YamlNode::Kind::map;
    for (const auto& [key, value] : entries)
        for (const auto& node : {key.value_->node, value.value_->node}) {
            map.children.push_back(node.get());
            tree->others.push_back(node);
        }
    return Config(std::make_shared<const Value>(owned(tree, &map), value_->file, value_->own_place()));
}

Location Config::where() const {
    const YamlPlace place = is_null() ? value_->place : value_->own_place();
    if (!place.is_known()) return {*value_->file, 1, 1};
    return {*value_->file, static_cast<uint32_t>(place.line + 1), static_cast<uint32_t>(place.column + 1)};
}

Diagnostic Config::diagnostic(const std::string& message, const std::string& hint) const {
    return {where(), message, hint};
}
void Config::fail(const std::string& message, const std::string& hint) const {
    throw ConfigError(diagnostic(message, hint));
}

bool Config::is_map() const { return value_->node->kind == YamlNode::Kind::map; }
bool Config::is_list() const { return value_->node->kind == YamlNode::Kind::list; }
bool Config::is_scalar() const { return value_->node->kind == YamlNode::Kind::scalar; }
bool Config::is_null() const { return value_->node->kind == YamlNode::Kind::null; }

Config Config::child(size_t index) const {
    const YamlNode* const node = value_->node->children[index];
    // A key that was made (`as`) has its map's place.
    const YamlNode* const key = is_map() ? value_->node->children[index / 2 * 2] : node;
    const YamlPlace place = key->place.is_known() || !is_map() ? key->place : value_->place;
    // YAML reads a bare `null` as nothing; where it is a key (a port's kind) it is a word.
    const bool is_word = is_map() && index % 2 == 0 && node->kind == YamlNode::Kind::null;
    return Config(
        std::make_shared<const Value>(is_word ? made_scalar("null") : value_->beside(node), value_->file, place));
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
    const auto& children = value_->node->children;
    for (size_t i = 0; i < children.size(); i += 2) {
        const YamlNode& name = *children[i];
        if (name.kind != YamlNode::Kind::scalar && name.kind != YamlNode::Kind::null) entries();
        names.push_back(name.kind == YamlNode::Kind::null ? std::string_view("null") : std::string_view(name.scalar));
        if (names.back() == key) found = child(i + 1);
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
    for (size_t i = 0; i < value_->node->children.size(); i += 2) {
        Config key = child(i);
        if (!seen.insert(key.text()).second) key.fail("'" + key.text() + "' is given twice", "keep one of them");
        result.emplace_back(std::move(key), child(i + 1));
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
    for (size_t i = 0; i < value_->node->children.size(); ++i) result.push_back(child(i));
    return result;
}

std::string Config::written() const { return millrace::written(*value_->node); }

std::string Config::text() const {
    if (!is_scalar()) fail(is_null() ? "a value is missing here" : "a single value is wanted here");
    return value_->node->scalar;
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
