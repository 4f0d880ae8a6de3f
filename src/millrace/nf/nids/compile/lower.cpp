#include <algorithm>

#include "millrace/nf/nids/compile/compiled_rules.hpp"

namespace millrace::nf::nids {
namespace {

class Lowering {
public:
    Lowering(Rule& rule, const std::string& pattern, regex::RegexSet& regexes)
        : rule_(rule), pattern_(pattern), regexes_(regexes) {}

    LoweredRule run() {
        for (const Term& term : rule_.terms)
            if (!term.looks_at_buffer()) add(term);
        std::vector<bool> done(rule_.terms.size());
        for (size_t i = 0; i < rule_.terms.size(); ++i)
            if (rule_.terms[i].looks_at_buffer() && !done[i]) add_group(i, done);
        mark_retries();
        if (out_.ops.size() > kMaxOps) rule_.refuse("more than " + std::to_string(kMaxOps) + " options");
        leave_out_what_the_search_says();
        return std::move(out_);
    }

private:
    /// All terms of one buffer, in their order: contents are relative to those of their own buffer.
    void add_group(size_t first, std::vector<bool>& done) {
        const Term& head = rule_.terms[first];
        std::vector<const Term*> group;
        for (size_t i = first; i < rule_.terms.size(); ++i) {
            const Term& term = rule_.terms[i];
            if (!term.looks_at_buffer() || term.buffer != head.buffer || term.dot_prefix != head.dot_prefix) continue;
            group.push_back(&term);
            done[i] = true;
        }
        Op select;
        select.kind = OpKind::select_buffer;
        Buffer buffer = head.buffer;
        if (std::none_of(group.begin(), group.end(), [](const Term* t) { return is_anchored(*t); }))
            buffer = part_of(buffer);
        select.mode = static_cast<uint8_t>(buffer);
        if (head.dot_prefix) select.flags |= Op::kDotPrefix;
        out_.ops.push_back(select);
        for (const Term* term : group) add(*term);
    }

    /// Where it is enough that some of a body is at hand.
    static Buffer part_of(Buffer buffer) {
        switch (buffer) {
            case Buffer::file_data: return Buffer::file_data_part;
            case Buffer::http_request_body: return Buffer::http_request_body_part;
            case Buffer::http_response_body: return Buffer::http_response_body_part;
            default: return buffer;
        }
    }
    /// Whether a term says something of a buffer's start, end or whole, which one segment of it cannot tell.
    static bool is_anchored(const Term& term) {
        if (const auto* content = std::get_if<Content>(&term.option))
            return content->negated || content->offset || content->depth || content->ends_with;
        if (const auto* regex = std::get_if<Regex>(&term.option))
            return regex->negated ||
                   (!regex->relative && (regex->pattern.find('^') != std::string::npos ||
                                         regex->pattern.find("\\A") != std::string::npos)) ||
                   regex->flags.find('A') != std::string::npos;
        if (const auto* data_at = std::get_if<DataAt>(&term.option)) return data_at->negated || !data_at->relative;
        if (const auto* test = std::get_if<ByteTest>(&term.option)) return !test->format.relative;
        if (const auto* jump = std::get_if<ByteJump>(&term.option))
            return !jump->format.relative || jump->from_end || jump->from_beginning;
        if (const auto* extract = std::get_if<ByteExtract>(&term.option)) return !extract->format.relative;
        return true;
    }

    void add(const Term& term) {
        out_.ops.push_back(std::visit([&](const auto& option) { return op(option); }, term.option));
    }

    static void set_from(Op& op, const Number& number) {
        if (number.slot >= 0) op.from_slot = static_cast<uint8_t>(number.slot);
        else op.from = static_cast<int32_t>(number.value);
    }
    static void set_window(Op& op, const Number& number) {
        if (number.slot >= 0) op.window_slot = static_cast<uint8_t>(number.slot);
        else op.window = static_cast<uint32_t>(number.value);
    }
    static uint64_t range(uint32_t low, uint32_t high) { return static_cast<uint64_t>(low) << 32 | high; }

    Op op(const Content& content) {
        Op op;
        op.kind = OpKind::content;
        const bool relative = content.distance || content.within;
        if (relative && (content.offset || content.depth))
            rule_.refuse("a content with offset or depth and distance or within");
        if (relative) op.flags |= Op::kRelative;
        if (content.negated) op.flags |= Op::kNegated;
        if (content.nocase) op.flags |= Op::kNocase;
        if (content.ends_with) op.flags |= Op::kEndsWith;
        const auto& from = relative ? content.distance : content.offset;
        const auto& window = relative ? content.within : content.depth;
        if (from) set_from(op, *from);
        if (window) {
            set_window(op, *window);
            op.flags |= Op::kLimited;
        }
        op.data = static_cast<uint32_t>(out_.literals.size());
        op.data_bytes = static_cast<uint32_t>(content.bytes.size());
        for (const char c : content.bytes) {
            const auto byte = static_cast<uint8_t>(c);
            out_.literals.push_back(content.nocase ? to_lower(byte) : byte);
        }
        return op;
    }

    Op op(const Regex& regex) {
        Op op;
        op.kind = OpKind::regex;
        if (regex.relative) op.flags |= Op::kRelative;
        if (regex.negated) op.flags |= Op::kNegated;
        if (!rule_.unsupported.empty()) return op;
        const auto compiled = regexes_.add(regex.pattern, regex.flags);
        if (compiled) op.data = *compiled.program;
        else rule_.refuse("pcre", compiled.reason);
        return op;
    }

    static Op op(const DataAt& data_at) {
        Op op;
        op.kind = OpKind::data_at;
        if (data_at.relative) op.flags |= Op::kRelative;
        if (data_at.negated) op.flags |= Op::kNegated;
        set_from(op, data_at.offset);
        return op;
    }

    static Op number_op(OpKind kind, const NumberFormat& format) {
        Op op;
        op.kind = kind;
        op.count = static_cast<uint8_t>(format.count);
        if (format.relative) op.flags |= Op::kRelative;
        if (format.little_endian) op.flags |= Op::kLittleEndian;
        op.flags |= format.string;
        op.data = format.mask;
        set_from(op, format.offset);
        return op;
    }
    static Op op(const ByteTest& test) {
        Op op = number_op(OpKind::byte_test, test.format);
        op.comparison = test.comparison;
        if (test.negated) op.flags |= Op::kNegated;
        if (test.operand.slot >= 0) op.window_slot = static_cast<uint8_t>(test.operand.slot);
        else op.value = static_cast<uint64_t>(test.operand.value);
        return op;
    }
    static Op op(const ByteJump& jump) {
        Op op = number_op(OpKind::byte_jump, jump.format);
        op.data_bytes = jump.multiplier;
        op.value = static_cast<uint32_t>(jump.post_offset);
        if (jump.align) op.flags |= Op::kAlign;
        if (jump.from_beginning) op.flags |= Op::kFromBeginning;
        if (jump.from_end) op.flags |= Op::kFromEnd;
        return op;
    }
    static Op op(const ByteExtract& extract) {
        Op op = number_op(OpKind::byte_extract, extract.format);
        op.data_bytes = extract.multiplier;
        op.window_slot = static_cast<uint8_t>(extract.slot);
        if (extract.align) op.flags |= Op::kAlign;
        return op;
    }
    static Op op(const BufferBytes& bytes) {
        Op op;
        op.kind = OpKind::buffer_bytes;
        if (bytes.negated) op.flags |= Op::kNegated;
        op.value = range(bytes.low, bytes.high);
        return op;
    }
    static Op op(const FieldRange& field) {
        Op op;
        op.kind = OpKind::field_range;
        op.mode = static_cast<uint8_t>(field.field);
        if (field.negated) op.flags |= Op::kNegated;
        op.value = range(field.low, field.high);
        return op;
    }
    static Op op(const FieldMask& field) {
        Op op;
        op.kind = OpKind::field_mask;
        op.mode = static_cast<uint8_t>(field.field);
        op.comparison = field.comparison;
        op.data = field.mask;
        op.value = field.value;
        return op;
    }
    static Op op(const SameIp&) {
        Op op;
        op.kind = OpKind::same_ip;
        return op;
    }

    /// Marks what is worth another try: an occurrence that a later option is relative to.
    void mark_retries() {
        for (size_t i = 0; i < out_.ops.size(); ++i) {
            Op& op = out_.ops[i];
            const bool searches = (op.kind == OpKind::content || op.kind == OpKind::regex) &&
                                  !(op.flags & Op::kNegated);
            if (!searches) continue;
            for (size_t j = i + 1; j < out_.ops.size(); ++j) {
                const Op& later = out_.ops[j];
                if (later.flags & Op::kRelative) {
                    op.flags |= Op::kRetry;
                    break;
                }
                const bool negated = later.flags & Op::kNegated;
                const bool starts_anew = later.kind == OpKind::select_buffer || later.kind == OpKind::byte_jump ||
                                         later.kind == OpKind::byte_extract ||
                                         (!negated && (later.kind == OpKind::content || later.kind == OpKind::regex));
                if (starts_anew) break;
            }
        }
    }

    /// A content anywhere in the payload, in either case, that is the fast pattern itself: the search that led to
    /// the rule has found it. Looking again would cost more than the search.
    void leave_out_what_the_search_says() {
        if (out_.ops.size() < 2) return;
        const Op& select = out_.ops[out_.ops.size() - 2];
        const Op& content = out_.ops.back();
        if (select.kind != OpKind::select_buffer || select.mode != static_cast<uint8_t>(Buffer::payload) ||
            select.flags != 0)
            return;
        if (content.kind != OpKind::content || content.flags != Op::kNocase || content.from != 0 ||
            content.from_slot != Op::kNoSlot)
            return;
        const auto literal = out_.literals.begin() + content.data;
        if (!std::equal(literal, out_.literals.end(), pattern_.begin(), pattern_.end(),
                        [](uint8_t a, char b) { return a == static_cast<uint8_t>(b); }))
            return;
        out_.literals.erase(literal, out_.literals.end());
        out_.ops.resize(out_.ops.size() - 2);
    }

    Rule& rule_;
    const std::string& pattern_;
    regex::RegexSet& regexes_;
    LoweredRule out_;
};

}  // namespace

LoweredRule lower(Rule& rule, const std::string& pattern, regex::RegexSet& regexes) {
    return Lowering(rule, pattern, regexes).run();
}

}  // namespace millrace::nf::nids
