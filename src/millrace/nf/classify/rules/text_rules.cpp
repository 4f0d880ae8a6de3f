#include "millrace/nf/classify/rules/text_rules.hpp"

#include <algorithm>
#include <charconv>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/classify/rules/mistakes.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::nf::classify {
namespace {

const std::vector<std::string> kKeywords = {"from", "to", "port", "flags", "state", "priority", "name"};

struct Token {
    enum class Kind { word, comma, quoted } kind;
    std::string_view text;
    size_t offset;
};

/// Splits a line at blanks and commas, up to a comment.
std::vector<Token> split(std::string_view line, size_t& end) {
    std::vector<Token> tokens;
    size_t at = 0;
    end = 0;
    while (at < line.size()) {
        const char c = line[at];
        if (c == ' ' || c == '\t') {
            ++at;
            continue;
        }
        if (c == '#') break;
        const size_t begin = at;
        if (c == ',') {
            tokens.push_back({Token::Kind::comma, line.substr(at++, 1), begin});
        } else if (c == '"') {
            const size_t close = line.find('"', at + 1);
            if (close == std::string_view::npos)
                throw WordMistake{at, "the quotation mark is not closed", "end the name with '\"'"};
            tokens.push_back({Token::Kind::quoted, line.substr(at + 1, close - at - 1), begin});
            at = close + 1;
        } else {
            at = std::min(line.find_first_of(" \t,\"", at), line.size());
            tokens.push_back({Token::Kind::word, line.substr(begin, at - begin), begin});
        }
        end = at;
    }
    return tokens;
}

Action parse_action(std::string_view word) {
    if (word == "permit") return Action::permit;
    if (word == "deny") return Action::deny;
    std::string near = closest_word(std::string(word), {"permit", "deny"});
    if (word == "allow" || word == "accept" || word == "pass") near = "permit";
    if (word == "drop" || word == "block" || word == "reject") near = "deny";
    throw WordMistake{0, "'" + std::string(word) + "' is neither permit nor deny",
                      near.empty() ? "a rule begins with 'permit' or 'deny'" : "did you mean '" + near + "'?"};
}

int32_t parse_priority(std::string_view word) {
    int32_t value = 0;
    const auto [end, error] = std::from_chars(word.data(), word.data() + word.size(), value);
    if (error != std::errc{} || end != word.data() + word.size())
        throw WordMistake{0, "'" + std::string(word) + "' is not a priority",
                          "write a whole number from -2147483648 to 2147483647; the higher is tried first"};
    return value;
}

/// What no packet can be is a slip: ports of protocols without ports, TCP flags of others than TCP.
void check_protocols(const FiveTupleMatch& match, const ByteMatch& flags) {
    const auto narrow = [](const std::vector<PortRange>& ranges) {
        for (const PortRange& range : ranges)
            if (range.any()) return false;
        return !ranges.empty();
    };
    const bool ports = narrow(match.src_ports) || narrow(match.dst_ports);
    for (const ByteMatch& protocol : match.protocols) {
        if (protocol.any()) continue;
        if (ports && protocol.value != ip::kProtocolTcp && protocol.value != ip::kProtocolUdp)
            throw WordMistake{
                0, "the rule asks for a port, and " + protocol_text(protocol) + " has none that a firewall sees",
                "leave the port out, or write tcp or udp"};
        if (!flags.any() && protocol.value != ip::kProtocolTcp)
            throw WordMistake{0, "the rule asks for TCP flags, and " + protocol_text(protocol) + " has none",
                              "write tcp"};
    }
}

class Parser {
public:
    Parser(std::vector<Token> tokens, WrittenRule& rule) : tokens_(std::move(tokens)), rule_(rule) {}

    void parse() {
        rule_.action = read(next("'permit' or 'deny'"), parse_action);
        if (!at_end() && !at_keyword()) list("a protocol", rule_.match.protocols, parse_protocol);
        if (accept("from")) endpoint(rule_.match.src, rule_.match.src_ports);
        if (accept("to")) endpoint(rule_.match.dst, rule_.match.dst_ports);
        while (!at_end()) option();
        check_protocols(rule_.match, rule_.flags);
    }

private:
    bool at_end() const { return at_ == tokens_.size(); }
    bool at_keyword() const {
        return std::find(kKeywords.begin(), kKeywords.end(), tokens_[at_].text) != kKeywords.end();
    }
    size_t end_offset() const { return tokens_.back().offset + tokens_.back().text.size(); }

    bool accept(std::string_view keyword) {
        if (at_end() || tokens_[at_].kind != Token::Kind::word || tokens_[at_].text != keyword) return false;
        ++at_;
        return true;
    }
    const Token& next(const std::string& what) {
        if (at_end()) throw WordMistake{end_offset(), what + " is missing at the end of the rule", {}};
        const Token& token = tokens_[at_];
        if (token.kind == Token::Kind::comma)
            throw WordMistake{token.offset, what + " is missing before the comma", {}};
        ++at_;
        return token;
    }
    /// Applies one of the readers of words.hpp; a mistake gets its place in the line.
    template <class Read>
    static auto read(const Token& token, Read read_word) -> decltype(read_word(token.text)) {
        try {
            return read_word(token.text);
        } catch (WordMistake& mistake) {
            mistake.offset += token.offset;
            throw;
        }
    }
    /// `any`, or values parted by commas.
    template <class T, class Read>
    void list(const std::string& what, std::vector<T>& values, Read read_word) {
        const size_t first = at_;
        bool any = false;
        do {
            const Token& token = next(what);
            if (token.text == "any") {
                any = true;
            } else {
                values.push_back(read(token, read_word));
            }
        } while (accept_comma());
        if (any && at_ - first > 1)
            throw WordMistake{tokens_[first].offset, "'any' stands in a list with other values", "write 'any' alone"};
    }
    bool accept_comma() {
        if (at_end() || tokens_[at_].kind != Token::Kind::comma) return false;
        ++at_;
        return true;
    }
    void endpoint(std::vector<Prefix>& prefixes, std::vector<PortRange>& ports) {
        list("an address or 'any'", prefixes, parse_address);
        if (accept("port")) list("a port", ports, parse_ports);
    }
    void option() {
        const Token& token = next("an option");
        if (token.text == "flags") {
            once(token, has_flags_);
            rule_.flags = read(next("the TCP flags"), parse_tcp_flags);
        } else if (token.text == "state") {
            once(token, has_state_);
            std::vector<Connection> connections;
            list("a state", connections, parse_connection);
            rule_.connections = set_of(connections);
        } else if (token.text == "priority") {
            once(token, has_priority_);
            rule_.priority = read(next("the priority"), parse_priority);
        } else if (token.text == "name") {
            once(token, has_name_);
            rule_.name = next("the name").text;
        } else {
            wrong_word(token);
        }
    }
    static void once(const Token& token, bool& seen) {
        if (seen)
            throw WordMistake{token.offset, "'" + std::string(token.text) + "' stands twice in this rule",
                              "keep one of them"};
        seen = true;
    }
    [[noreturn]] static void wrong_word(const Token& token) {
        if (token.text == "from" || token.text == "to" || token.text == "port")
            throw WordMistake{token.offset, "'" + std::string(token.text) + "' does not belong here",
                              "the order is: action, protocol, from ADDRESS port PORT, to ADDRESS port PORT, options"};
        const std::string near = closest_word(std::string(token.text), kKeywords);
        throw WordMistake{token.offset, "'" + std::string(token.text) + "' is not expected here",
                          near.empty()
                              ? "known here: from, to, port, flags, state, priority, name; a comment begins with #"
                              : "did you mean '" + near + "'?"};
    }

    std::vector<Token> tokens_;
    WrittenRule& rule_;
    size_t at_ = 0;
    bool has_flags_ = false, has_state_ = false, has_priority_ = false, has_name_ = false;
};

void append(WrittenRule written, uint32_t file, uint32_t line, RuleSet& rules) {
    Rule rule;
    rule.name = std::move(written.name);
    rule.text = std::move(written.text);
    rule.file = file;
    rule.line = line;
    rule.priority = written.priority;
    rule.action = written.action;
    rules.add(std::move(rule), written.match, written.flags, written.connections);
}

/// One state, or a list of them; `any` is all.
ConnectionSet read_connections(const Config& value) {
    std::vector<Connection> connections;
    for (const Config& item : value.items()) {
        if (item.text() == "any" && value.items().size() == 1) return {};
        try {
            connections.push_back(parse_connection(item.text()));
        } catch (const WordMistake& mistake) {
            item.fail(mistake.message, mistake.hint);
        }
    }
    if (connections.empty()) value.fail("'state' has no value", "leave it out, or write 'any', to match all");
    return set_of(connections);
}

WrittenRule parse_map(const Config& map) {
    std::vector<std::string> known = FiveTupleMatch::keys();
    known.insert(known.end(), {"action", "flags", "state", "priority", "name"});
    map.only(known);
    WrittenRule rule;
    rule.action = static_cast<Action>(map.at("action").choice({"permit", "deny"}));
    rule.match = FiveTupleMatch::parse(map);
    rule.name = map.text_or("name", "");
    rule.priority = static_cast<int32_t>(map.integer_or("priority", 0, INT32_MIN, INT32_MAX));
    if (const auto flags = map.find("flags")) {
        try {
            rule.flags = parse_tcp_flags(flags->text());
        } catch (const WordMistake& mistake) {
            flags->fail(mistake.message, mistake.hint);
        }
    }
    if (const auto state = map.find("state")) rule.connections = read_connections(*state);
    check_protocols(rule.match, rule.flags);
    return rule;
}

}  // namespace

std::optional<WrittenRule> parse_text_rule(std::string_view line) {
    size_t end = 0;
    std::vector<Token> tokens = split(line, end);
    if (tokens.empty()) return std::nullopt;
    WrittenRule rule;
    const size_t begin = tokens.front().offset;
    Parser(std::move(tokens), rule).parse();
    rule.text = line.substr(begin, end - begin);
    return rule;
}

void load_text_rules(std::string_view text, const std::string& file, RuleSet& rules) {
    const uint32_t file_index = static_cast<uint32_t>(rules.files.size());
    rules.files.push_back(file);
    Mistakes mistakes(file);
    for_each_line(text, [&](std::string_view line, uint32_t number) {
        try {
            if (auto rule = parse_text_rule(line)) append(std::move(*rule), file_index, number, rules);
        } catch (const WordMistake& mistake) {
            mistakes.add(number, mistake);
        }
    });
    mistakes.throw_if_any();
}

void load_yaml_rules(const Config& list, RuleSet& rules) {
    const uint32_t file_index = static_cast<uint32_t>(rules.files.size());
    rules.files.push_back(list.where().file);
    std::vector<Diagnostic> mistakes;
    for (const Config& item : list.items()) {
        try {
            std::optional<WrittenRule> rule = item.is_map() ? parse_map(item) : parse_text_rule(item.text());
            if (!rule) item.fail("this rule is empty", "take the element out of the list");
            append(std::move(*rule), file_index, item.where().line, rules);
        } catch (const WordMistake& mistake) {
            mistakes.push_back(item.diagnostic(mistake.message, mistake.hint));
        } catch (const ConfigError& error) {
            mistakes.insert(mistakes.end(), error.diagnostics().begin(), error.diagnostics().end());
        }
    }
    if (!mistakes.empty()) throw ConfigError(std::move(mistakes));
}

}  // namespace millrace::nf::classify
