#include "millrace/nf/nids/regex/parse/parser.hpp"

#include <algorithm>
#include <utility>

#include "millrace/nf/nids/regex/parse/byte_class.hpp"
#include "millrace/nf/nids/regex/parse/escape.hpp"
#include "millrace/nf/nids/regex/parse/group_references.hpp"
#include "millrace/nf/nids/regex/parse/options.hpp"
#include "millrace/nf/nids/regex/parse/repetition.hpp"

namespace millrace::nf::nids::regex {
namespace {

using Kind = Node::Kind;

constexpr size_t kMaxDepth = 100;  // groups within groups, which the parser recurses into

class Parser {
public:
    Parser(std::string_view pattern, Options options) : text_(pattern), options_(options) {}

    Parsed parse() {
        Parsed parsed;
        parsed.root = alternatives(0);
        if (at_ < text_.size()) refuse("unmatched )", at_);
        parsed.groups = groups_.groups();
        groups_.resolve(parsed.root);
        return parsed;
    }

private:
    [[noreturn]] static void refuse(std::string reason, size_t offset) { throw Refusal{std::move(reason), offset}; }
    bool done() const { return at_ == text_.size(); }
    char peek(size_t ahead = 0) const { return at_ + ahead < text_.size() ? text_[at_ + ahead] : '\0'; }
    bool take(std::string_view what) {
        if (!text_.substr(at_).starts_with(what)) return false;
        at_ += what.size();
        return true;
    }

    /// Up to the ) that closes the group, which is left, or the end. Options changed within end with it.
    Node alternatives(size_t depth) {
        if (depth > kMaxDepth) refuse("groups are nested too deeply", at_);
        const Options outer = options_;
        const size_t offset = at_;
        Node node = make_node(Kind::alternatives, offset);
        node.children.push_back(sequence(depth));
        while (take("|")) node.children.push_back(sequence(depth));
        options_ = outer;
        if (node.children.size() == 1) return std::move(node.children[0]);
        if (std::ranges::all_of(node.children, [](const Node& child) { return child.kind == Kind::set; })) {
            // One byte either way: a set says the same without a choice.
            ByteSet set;
            for (const Node& child : node.children) set |= child.set;
            return make_set(set, offset);
        }
        return node;
    }

    Node sequence(size_t depth) {
        Node node = make_node(Kind::sequence, at_);
        while (true) {
            skip_extended();
            if (done() || peek() == '|' || peek() == ')') break;
            if (quoting_ ? take("\\E") : take("\\Q")) {
                quoting_ = !quoting_;
                continue;
            }
            if (!quoting_ && (take("\\E") || comment() || inline_options())) continue;
            const size_t offset = at_;
            node.children.push_back(repeated(item(depth), offset));
        }
        if (quoting_ && !done()) return quoted_rest(std::move(node), depth);
        if (node.children.size() == 1) return std::move(node.children[0]);
        return node;
    }

    /// | and ) between \Q and \E are bytes like any other.
    Node quoted_rest(Node node, size_t depth) {
        const size_t offset = at_;
        node.children.push_back(repeated(literal(text_[at_++]), offset));
        Node rest = sequence(depth);
        node.children.push_back(std::move(rest));
        return node;
    }

    /// White space (as PCRE2 has it, with NEL) and comments under flag x.
    void skip_extended() {
        const ByteSet space = *escape_class('s') | one_byte(0x85);
        while (options_.extended && !quoting_ && !done()) {
            if (space[static_cast<uint8_t>(peek())]) {
                ++at_;
            } else if (peek() == '#') {
                at_ = std::min(text_.find('\n', at_), text_.size());
            } else {
                break;
            }
        }
    }

    bool comment() {
        const size_t offset = at_;
        if (!take("(?#")) return false;
        const size_t end = text_.find(')', at_);
        if (end == std::string_view::npos) refuse("comment without )", offset);
        at_ = end + 1;
        return true;
    }

    /// (?i) and the like, for the rest of the group. (?i:…) is a group and left to `group`.
    bool inline_options() {
        if (peek() != '(' || peek(1) != '?') return false;
        const auto end = end_of_options(text_, at_ + 2);
        if (!end || text_[*end] != ')') return false;
        at_ += 2;
        take_options(text_, at_, *end, options_);
        ++at_;
        return true;
    }
    Node literal(char c) {
        const ByteSet set = one_byte(static_cast<uint8_t>(c));
        return make_set(options_.caseless ? both_cases(set) : set, at_ - 1);
    }

    Node item(size_t depth) {
        const size_t offset = at_;
        const char c = text_[at_++];
        if (quoting_) return literal(c);
        switch (c) {
            case '(': return group(depth, offset);
            case '[': return make_set(byte_class(text_, at_, options_.caseless), offset);
            case '.': return make_set(options_.dot_all ? ~ByteSet{} : ~one_byte('\n'), offset);
            case '^': return make_assertion(options_.lines ? kLineStart : kSubjectStart, offset);
            case '$':
                return make_assertion(options_.lines      ? kLineEnd
                                      : options_.end_only ? kSubjectEnd
                                                          : kLastLineEnd,
                                      offset);
            case '\\': return escape(offset);
            case '*':
            case '+':
            case '?': refuse("nothing to repeat", offset);
            case '{':
                at_ = offset;
                if (take_counts(text_, at_)) refuse("nothing to repeat", offset);
                at_ = offset + 1;
                return literal(c);
            default: return literal(c);
        }
    }

    /// Puts the repetition that stands behind `node`, if there is one, around it.
    Node repeated(Node node, size_t offset) {
        while (text_.substr(at_).starts_with("\\E")) {
            at_ += 2;
            quoting_ = false;
        }
        if (quoting_) return node;
        skip_extended();
        while (comment()) skip_extended();
        const size_t sign = at_;
        auto repetition = take_repetition(text_, at_);
        if (!repetition) return node;
        if (node.kind == Kind::assertion) refuse("repetition of an assertion", sign);
        Greed greed = options_.lazy ? Greed::lazy : Greed::greedy;
        if (take("+")) {
            greed = Greed::possessive;
        } else if (take("?")) {
            greed = options_.lazy ? Greed::greedy : Greed::lazy;
        }
        // A lookaround again and again is the same; PCRE tries it once more than it must.
        if (node.kind == Kind::look && repetition->most == kUnlimited) repetition->most = repetition->least + 1;
        node = wrap(Kind::repeat, std::move(node), offset);
        node.least = repetition->least;
        node.most = repetition->most;
        node.greed = greed;
        const size_t second = at_;
        if (take_repetition(text_, at_)) refuse("a repetition of a repetition", second);
        return node;
    }

    Node close(Node node, size_t opened) {
        if (!take(")")) refuse("group without )", opened);
        return node;
    }

    Node group(size_t depth, size_t offset) {
        if (peek() == '*') refuse("verbs (*…) are not supported", offset);
        if (peek() != '?') return capture(depth, offset);
        ++at_;
        if (take(":")) return close(alternatives(depth + 1), offset);
        if (take(">")) return close(wrap(Kind::atomic, alternatives(depth + 1), offset), offset);
        if (take("=")) return look(depth, offset, false, false);
        if (take("!")) return look(depth, offset, false, true);
        if (take("<=")) return look(depth, offset, true, false);
        if (take("<!")) return look(depth, offset, true, true);
        if (take("(")) return condition(depth, offset);
        if (take("P=")) {
            Node node = make_node(Kind::back_reference, offset);
            node.folded = options_.caseless;
            node.group = group_by_name(')');
            return node;
        }
        if (take("P<") || take("<")) return named_capture(depth, offset, '>');
        if (take("'")) return named_capture(depth, offset, '\'');
        const auto end = end_of_options(text_, at_);
        if (!end || text_[*end] != ':') refuse("unsupported group (?" + std::string(text_.substr(at_, 1)), offset);
        const Options outer = options_;
        take_options(text_, at_, *end, options_);
        ++at_;
        Node node = alternatives(depth + 1);
        options_ = outer;
        return close(std::move(node), offset);
    }

    Node capture(size_t depth, size_t offset) {
        const uint32_t number = groups_.add_group();
        Node node = close(wrap(Kind::capture, alternatives(depth + 1), offset), offset);
        node.group = number;
        return node;
    }
    Node named_capture(size_t depth, size_t offset, char end) {
        const size_t name_offset = at_;
        groups_.name_next(group_name(text_, at_, end), name_offset);
        return capture(depth, offset);
    }

    Node look(size_t depth, size_t offset, bool behind, bool negative) {
        Node node = close(wrap(Kind::look, alternatives(depth + 1), offset), offset);
        node.behind = behind;
        node.negative = negative;
        return node;
    }

    Node condition(size_t depth, size_t offset) {
        Node node = make_node(Kind::condition, offset);
        const size_t inner = at_ - 1;
        if (take("?=")) {
            node.children.push_back(look(depth, inner, false, false));
        } else if (take("?!")) {
            node.children.push_back(look(depth, inner, false, true));
        } else if (take("?<=")) {
            node.children.push_back(look(depth, inner, true, false));
        } else if (take("?<!")) {
            node.children.push_back(look(depth, inner, true, true));
        } else if (take("<")) {
            node.group = group_by_name('>');
            if (!take(")")) refuse("condition without )", inner);
        } else if (peek() >= '1' && peek() <= '9') {
            node.group = groups_.by_number(decimal(text_, at_), inner);
            if (!take(")")) refuse("condition without )", inner);
        } else {
            refuse("unsupported condition", inner);
        }
        Node branches = alternatives_kept(depth + 1);
        if (branches.children.size() > 2) refuse("a condition with more than two branches", offset);
        for (Node& branch : branches.children) node.children.push_back(std::move(branch));
        if (branches.children.size() == 1) node.children.push_back(make_node(Kind::sequence, at_));
        return close(std::move(node), offset);
    }
    /// Like `alternatives`, but never folded into something simpler.
    Node alternatives_kept(size_t depth) {
        if (depth > kMaxDepth) refuse("groups are nested too deeply", at_);
        const Options outer = options_;
        Node node = make_node(Kind::alternatives, at_);
        node.children.push_back(sequence(depth));
        while (take("|")) node.children.push_back(sequence(depth));
        options_ = outer;
        return node;
    }

    uint32_t group_by_name(char end) {
        const size_t offset = at_;
        return groups_.by_name(group_name(text_, at_, end), offset);
    }

    Node back_reference(uint32_t group, size_t offset) {
        Node node = make_node(Kind::back_reference, offset);
        node.group = group;
        node.folded = options_.caseless;
        return node;
    }

    /// \k<name> \k'name' \k{name} \g1 \g{1} \g{-1} \g{name}
    Node marked_reference(char letter, size_t offset) {
        if (letter == 'k') {
            if (take("<")) return back_reference(group_by_name('>'), offset);
            if (take("'")) return back_reference(group_by_name('\''), offset);
            if (take("{")) return back_reference(group_by_name('}'), offset);
            refuse("\\k without a name", offset);
        }
        const bool braced = take("{"), relative = take("-");
        if (peek() < '0' || peek() > '9') {
            if (braced && !relative) return back_reference(group_by_name('}'), offset);
            refuse("unsupported \\g", offset);
        }
        uint64_t number = decimal(text_, at_);
        if (relative) {
            if (number == 0 || number > groups_.groups()) refuse("\\g to a group that isn't there", offset);
            number = groups_.groups() + 1 - number;
        }
        if (braced && !take("}")) refuse("\\g{ without }", offset);
        return back_reference(groups_.by_number(number, offset), offset);
    }

    Node escape(size_t offset) {
        if (done()) refuse("\\ at the end", offset);
        const char c = peek();
        if (c >= '1' && c <= '9') {
            size_t end = at_;
            const uint64_t number = decimal(text_, end);
            // PCRE: one digit is a group; more are one if there are that many before here, else octal.
            if (number < 10 || c >= '8' || number <= groups_.groups()) {
                at_ = end;
                return back_reference(groups_.by_number(number, offset), offset);
            }
        }
        if (const auto set = escape_class(c)) {
            ++at_;
            return make_set(*set, offset);
        }
        const std::pair<char, Op> assertions[] = {{'A', kSubjectStart}, {'z', kSubjectEnd},      {'Z', kLastLineEnd},
                                                  {'b', kWordBoundary}, {'B', kNotWordBoundary}, {'G', kSearchStart}};
        for (const auto& [letter, op] : assertions)
            if (c == letter) {
                ++at_;
                return make_assertion(op, offset);
            }
        if (c == 'k' || c == 'g') {
            ++at_;
            return marked_reference(c, offset);
        }
        if (c == 'R') {
            ++at_;
            return any_line_end(offset);
        }
        if (c == 'C') {
            ++at_;
            return make_set(~ByteSet{}, offset);
        }
        const ByteSet set = one_byte(escaped_byte(text_, at_, false));
        return make_set(options_.caseless ? both_cases(set) : set, offset);
    }

    std::string_view text_;
    Options options_;
    size_t at_ = 0;
    bool quoting_ = false;  ///< between \Q and \E
    GroupReferences groups_;
};

}  // namespace

Parsed parse_pattern(std::string_view pattern, std::string_view flags) {
    bool anchored;
    const Options options = options_of(flags, pattern.size(), anchored);
    Parsed parsed = Parser(pattern, options).parse();
    parsed.anchored = anchored;
    return parsed;
}

}  // namespace millrace::nf::nids::regex
