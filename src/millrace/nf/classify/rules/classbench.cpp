#include "millrace/nf/classify/rules/classbench.hpp"

#include <charconv>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/classify/rules/mistakes.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::nf::classify {
namespace {

/// Goes through one line from left to right.
class Cursor {
public:
    explicit Cursor(std::string_view line) : line_(line) {}

    bool at_end() {
        skip_blanks();
        return at_ == line_.size();
    }
    [[noreturn]] void fail(size_t offset, std::string message, std::string hint = {}) const {
        throw WordMistake{offset, std::move(message), std::move(hint)};
    }
    void expect(char sign, const char* where) {
        skip_blanks();
        if (at_ == line_.size() || line_[at_] != sign)
            fail(at_, std::string("'") + sign + "' is missing " + where,
                 "a line is '@src/len dst/len lo : hi lo : hi 0xPROTO/0xMASK', with 0xFLAGS/0xMASK behind it or not");
        ++at_;
    }
    /// The characters up to the next blank.
    std::string_view word(const char* what) {
        skip_blanks();
        const size_t begin = at_;
        while (at_ < line_.size() && !blank(line_[at_])) ++at_;
        if (begin == at_) fail(begin, std::string(what) + " is missing");
        return line_.substr(begin, at_ - begin);
    }
    size_t offset_of(std::string_view word) const { return static_cast<size_t>(word.data() - line_.data()); }

    Prefix prefix(const char* what) {
        const std::string_view text = word(what);
        try {
            return parse_address(text);
        } catch (const WordMistake& mistake) {
            fail(offset_of(text) + mistake.offset, mistake.message, mistake.hint);
        }
    }
    PortRange ports() {
        PortRange range;
        skip_blanks();
        const size_t begin = at_;
        range.low = port();
        expect(':', "between two ports");
        range.high = port();
        if (range.low > range.high) fail(begin, "the port range ends before it begins");
        return range;
    }
    /// `0xVALUE/0xMASK`, both up to `most`.
    std::pair<uint32_t, uint32_t> masked(const char* what, uint32_t most) {
        const std::string_view text = word(what);
        const size_t slash = text.find('/');
        if (slash == std::string_view::npos)
            fail(offset_of(text), std::string(what) + " has no mask", "write it as 0x06/0xFF");
        return {hex(text.substr(0, slash), most), hex(text.substr(slash + 1), most)};
    }

private:
    static bool blank(char c) { return c == ' ' || c == '\t'; }
    void skip_blanks() {
        while (at_ < line_.size() && blank(line_[at_])) ++at_;
    }
    uint16_t port() {
        skip_blanks();
        uint32_t value = 0;
        const char* begin = line_.data() + at_;
        const auto [end, error] = std::from_chars(begin, line_.data() + line_.size(), value);
        if (error != std::errc{} || value > 0xffff) fail(at_, "a port from 0 to 65535 is wanted here");
        at_ += static_cast<size_t>(end - begin);
        return static_cast<uint16_t>(value);
    }
    uint32_t hex(std::string_view text, uint32_t most) const {
        uint32_t value = 0;
        const bool prefixed = text.starts_with("0x") || text.starts_with("0X");
        const char* last = text.data() + text.size();
        const auto [end, error] = std::from_chars(text.data() + (prefixed ? 2 : 0), last, value, 16);
        if (!prefixed || error != std::errc{} || end != last || value > most)
            fail(offset_of(text),
                 "'" + std::string(text) + "' is not a hexadecimal number up to 0x" + (most == 0xff ? "FF" : "FFFF"));
        return value;
    }

    std::string_view line_;
    size_t at_ = 0;
};

Box parse_line(std::string_view line, bool match_flags) {
    Cursor cursor(line);
    Box box;
    cursor.expect('@', "at the start of the rule");
    box.src = cursor.prefix("the source prefix");
    box.dst = cursor.prefix("the destination prefix");
    if (box.src.ipv6 != box.dst.ipv6)
        cursor.fail(0, "one address is IPv4, the other IPv6", "write both addresses in one family");
    box.ipv4 = !box.src.ipv6;
    box.ipv6 = box.src.ipv6;
    box.src_port = cursor.ports();
    box.dst_port = cursor.ports();
    const auto [protocol, protocol_mask] = cursor.masked("the protocol", 0xff);
    box.protocol = {static_cast<uint8_t>(protocol & protocol_mask), static_cast<uint8_t>(protocol_mask)};
    if (cursor.at_end()) return box;
    const auto [flags, flags_mask] = cursor.masked("the TCP flags", 0xffff);
    if (match_flags && box.protocol == ByteMatch{ip::kProtocolTcp, 0xff}) {
        if ((flags_mask & 0xff) != 0)
            cursor.fail(line.find_last_of('/'), "the low byte of the TCP flags is masked, and holds none",
                        "mask bits of the high byte only, or leave 'match-flags' out");
        box.tcp_flags = {static_cast<uint8_t>((flags & flags_mask) >> 8), static_cast<uint8_t>(flags_mask >> 8)};
    }
    if (!cursor.at_end()) cursor.fail(cursor.offset_of(cursor.word("")), "there is more behind the rule");
    return box;
}

Action action_of(ClassBenchOptions::Actions actions, uint32_t index) {
    using Actions = ClassBenchOptions::Actions;
    const bool deny = actions == Actions::deny || (actions == Actions::alternate && index % 2 == 1) ||
                      (actions == Actions::hash && (index * 2654435761u) >> 31 == 1);
    return deny ? Action::deny : Action::permit;
}

}  // namespace

void load_classbench(std::string_view text, const std::string& file, const ClassBenchOptions& options, RuleSet& rules) {
    const uint32_t file_index = static_cast<uint32_t>(rules.files.size());
    rules.files.push_back(file);
    Mistakes mistakes(file);
    uint32_t index = 0;
    for_each_line(text, [&](std::string_view line, uint32_t number) {
        const size_t begin = line.find_first_not_of(" \t");
        if (begin == std::string_view::npos || line[begin] == '#') return;
        try {
            Rule rule;
            rule.file = file_index;
            rule.line = number;
            rule.action = action_of(options.actions, index++);
            rules.add(std::move(rule), parse_line(line, options.match_flags));
        } catch (const WordMistake& mistake) {
            mistakes.add(number, mistake);
        }
    });
    mistakes.throw_if_any();
}

}  // namespace millrace::nf::classify
