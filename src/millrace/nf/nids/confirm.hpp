// Whether a packet does all that the options of a rule ask for.
//
// Contents, regular expressions and byte tests that are relative to each other form a chain. When one
// of a chain fails, the one before it is tried at its next occurrence, as Snort and Suricata do. The
// search is bounded: a rule that has not matched after kSearchLimit searches does not match.
#pragma once

#include "millrace/nf/nids/header_match.hpp"
#include "millrace/nf/nids/regex/device.hpp"

namespace millrace::nf::nids {

/// What options are checked with; a part of Nids::Tables.
struct OptionTables {
    View<Op> ops;
    View<uint8_t> literals;
    regex::RegexTables regex;
};

inline constexpr uint32_t kSearchLimit = 3000;
/// Most digits of a number that stands in a payload as text.
inline constexpr uint32_t kMaxDigits = 23;
inline constexpr uint32_t kNotFound = 0xffffffffu;

namespace detail {

MILLRACE_DEVICE bool in_range(uint64_t range, uint32_t value) {
    return value >= static_cast<uint32_t>(range >> 32) && value <= static_cast<uint32_t>(range);
}

MILLRACE_DEVICE bool compare(Comparison comparison, uint64_t value, uint64_t operand) {
    switch (comparison) {
        case Comparison::less: return value < operand;
        case Comparison::less_equal: return value <= operand;
        case Comparison::equal: return value == operand;
        case Comparison::greater_equal: return value >= operand;
        case Comparison::greater: return value > operand;
        case Comparison::not_equal: return value != operand;
        case Comparison::any_bit: return (value & operand) != 0;
        case Comparison::xor_bits: return (value ^ operand) != 0;
        case Comparison::none_bit: return (value & operand) == 0;
    }
    return false;
}

/// Reads a number of `count` digits or bytes; false when there is no digit.
MILLRACE_DEVICE bool read_number(const uint8_t* data, uint32_t count, uint16_t flags, uint64_t& value) {
    value = 0;
    if (!(flags & Op::kString)) {
        for (uint32_t i = 0; i < count; ++i) {
            const uint32_t at = (flags & Op::kLittleEndian) ? count - 1 - i : i;
            value = value << 8 | data[at];
        }
        return true;
    }
    const uint32_t base = (flags & Op::kHex) ? 16 : (flags & Op::kOctal) ? 8 : 10;
    uint32_t i = 0;
    while (i < count && (data[i] == ' ' || data[i] == '\t')) ++i;
    if (base == 16 && i + 1 < count && data[i] == '0' && to_lower(data[i + 1]) == 'x') i += 2;
    bool any = false;
    for (; i < count; ++i) {
        const uint8_t c = to_lower(data[i]);
        const uint32_t digit = c >= '0' && c <= '9' ? c - '0' : c >= 'a' && c <= 'f' ? c - 'a' + 10u : 99u;
        if (digit >= base) break;
        value = value * base + digit;
        any = true;
    }
    return any;
}

/// regex::regex_search, whose stack is large.
template <class Lanes>
MILLRACE_DEVICE_CALL regex::RegexResult search_expression(const uint8_t* data, uint32_t bytes, uint32_t start,
                                                          uint32_t program, const regex::RegexTables& tables,
                                                          uint32_t& match_end, Lanes lanes) {
    return regex::regex_search(data, bytes, start, program, tables, &match_end, lanes);
}

}  // namespace detail

/// Whether a packet's headers have what a field_range or field_mask asks for.
MILLRACE_DEVICE_CALL bool has_field(const Packet& packet, const Op& op) {
    uint32_t value = 0;
    if (!read_field(packet, static_cast<Field>(op.mode), value)) return false;
    const bool negated = op.flags & Op::kNegated;
    if (op.kind == OpKind::field_range) return detail::in_range(op.value, value) != negated;
    return detail::compare(op.comparison, value & op.data, op.value) != negated;
}

/// What the check of a rule reaches by a computed index. An object of its own: on a GPU it lies in memory, and all that
/// is of one object with it would, too.
struct Trail {
    uint16_t before[kMaxOps];  ///< by option: the cursor that it began with
    uint16_t next[kMaxOps];    ///< where another try of it begins
    uint64_t slots[kMaxSlots] = {};
};

/// Checks the options of a rule against one packet.
template <class Lanes, bool kOfMessages>
class Confirmation {
public:
    using Buffers = PayloadBuffers<Lanes, kOfMessages>;
    MILLRACE_DEVICE Confirmation(const Packet& packet, const OptionTables& tables, Buffers& buffers, Trail& trail,
                                 Lanes lanes)
        : packet_(packet), tables_(tables), buffers_(buffers), trail_(trail), lanes_(lanes),
          buffer_{buffers.data(), buffers.bytes(), true} {}

    /// Whether the packet does what the rule's operations ask for, those behind its `fields`. Once.
    MILLRACE_DEVICE bool run(const CompiledRule& rule) {
        first_ = rule.first_op;
        uint32_t i = rule.fields;
        uint32_t resume = kNotFound;  // kNotFound: try the first occurrence
        while (i < rule.ops) {
            const Op& op = tables_.ops[first_ + i];
            if (resume == kNotFound) trail_.before[i] = static_cast<uint16_t>(cursor_);
            cursor_ = trail_.before[i];
            if (step(op, i, resume)) {
                ++i;
                if constexpr (kOfMessages)  // What is asked of a buffer that is not here is left open.
                    while (buffer_.open && i < rule.ops && tables_.ops[first_ + i].kind != OpKind::select_buffer) ++i;
                resume = kNotFound;
                continue;
            }
            if (!step_back(i)) return false;
            resume = trail_.next[i];
        }
        return true;
    }

private:
    /// Goes from option `i`, which failed, to the one of its chain that can be tried elsewhere.
    MILLRACE_DEVICE bool step_back(uint32_t& i) const {
        if (searches_ > kSearchLimit) return false;
        bool relative = tables_.ops[first_ + i].flags & Op::kRelative;
        while (relative && i > 0) {
            --i;
            const Op& op = tables_.ops[first_ + i];
            if (op.flags & Op::kRetry) return true;
            if (moves_cursor(op)) relative = op.flags & Op::kRelative;
        }
        return false;
    }
    MILLRACE_DEVICE static bool moves_cursor(const Op& op) {
        const bool positive = !(op.flags & Op::kNegated);
        return op.kind == OpKind::select_buffer || op.kind == OpKind::byte_jump || op.kind == OpKind::byte_extract ||
               (positive && (op.kind == OpKind::content || op.kind == OpKind::regex));
    }

    /// One option; on success the cursor has moved and `trail_.next[i]` says where another try would begin.
    MILLRACE_DEVICE bool step(const Op& op, uint32_t i, uint32_t resume) {
        switch (op.kind) {
            case OpKind::select_buffer:
                buffer_ = buffers_.find(static_cast<Buffer>(op.mode), op.flags & Op::kDotPrefix);
                cursor_ = 0;
                return buffer_.present || (kOfMessages && buffer_.open);
            case OpKind::content: return content(op, i, resume);
            case OpKind::regex: return regular_expression(op, i, resume);
            case OpKind::data_at: return data_at(op);
            case OpKind::byte_test: return byte_test(op);
            case OpKind::byte_jump: return byte_jump(op);
            case OpKind::byte_extract: return byte_extract(op);
            case OpKind::buffer_bytes: return detail::in_range(op.value, buffer_.bytes) != negated(op);
            case OpKind::field_range:
            case OpKind::field_mask: return has_field(packet_, op);
            case OpKind::same_ip: return same_ip();
        }
        return false;
    }

    MILLRACE_DEVICE static bool negated(const Op& op) { return op.flags & Op::kNegated; }
    MILLRACE_DEVICE int64_t from(const Op& op) const {
        return op.from_slot == Op::kNoSlot ? op.from : small(trail_.slots[op.from_slot]);
    }
    MILLRACE_DEVICE int64_t window(const Op& op) const {
        return op.window_slot == Op::kNoSlot ? static_cast<int64_t>(op.window) : small(trail_.slots[op.window_slot]);
    }
    /// Numbers from packets, cut so that sums of them do not overflow.
    MILLRACE_DEVICE static int64_t small(uint64_t value) {
        return static_cast<int64_t>(smaller<uint64_t>(value, 0x7fffffffu));
    }

    MILLRACE_DEVICE bool content(const Op& op, uint32_t i, uint32_t resume) {
        const int64_t base = (op.flags & Op::kRelative) ? static_cast<int64_t>(cursor_) : 0;
        int64_t begin = base + from(op);
        int64_t end = buffer_.bytes;
        if (op.flags & Op::kLimited) end = smaller(end, begin + window(op));
        begin = larger<int64_t>(begin, 0);
        if (resume != kNotFound) begin = larger<int64_t>(begin, resume);
        if (op.flags & Op::kEndsWith)
            begin = larger<int64_t>(begin, static_cast<int64_t>(buffer_.bytes) - op.data_bytes);
        uint32_t found = kNotFound;
        if (begin + op.data_bytes <= end && (!(op.flags & Op::kEndsWith) || end == buffer_.bytes))
            found = search(op, static_cast<uint32_t>(begin), static_cast<uint32_t>(end) - op.data_bytes + 1);
        ++searches_;
        if (negated(op)) return found == kNotFound;
        if (found == kNotFound) return false;
        trail_.next[i] = static_cast<uint16_t>(smaller(found + 1, 0xffffu));
        cursor_ = found + op.data_bytes;
        return true;
    }

    /// The first occurrence that begins in [begin, end).
    MILLRACE_DEVICE uint32_t search(const Op& op, uint32_t begin, uint32_t end) const {
        const uint32_t found = first_literal(lanes_, buffer_.data, buffer_.bytes, begin, end,
                                             tables_.literals.data() + op.data, op.data_bytes, op.flags & Op::kNocase);
        return found < end ? found : kNotFound;
    }

    /// Another try begins where the last match ended: the expression's own start is not known.
    MILLRACE_DEVICE bool regular_expression(const Op& op, uint32_t i, uint32_t resume) {
        const uint32_t base = (op.flags & Op::kRelative) ? cursor_ : 0;
        const uint32_t start = resume == kNotFound ? 0 : resume - smaller(resume, base);
        ++searches_;
        if (base > buffer_.bytes || start > buffer_.bytes - base) return negated(op) && resume == kNotFound;
        const uint32_t bytes = buffer_.bytes - base;
        uint32_t end = 0;
        const auto result = detail::search_expression(buffer_.data + base, bytes, start, op.data, tables_.regex, end,
                                                      lanes_);
        if (result == regex::RegexResult::limit) return false;  // undecided: claim nothing
        if (negated(op)) return result == regex::RegexResult::no_match;
        if (result == regex::RegexResult::no_match) return false;
        cursor_ = base + end;
        trail_.next[i] = static_cast<uint16_t>(smaller(larger(base + end, base + start + 1), 0xffffu));
        return true;
    }

    MILLRACE_DEVICE bool data_at(const Op& op) const {
        // Suricata: relative, N bytes follow the cursor; else there is a byte behind the first N.
        const bool relative = op.flags & Op::kRelative;
        const int64_t wanted = from(op) + (relative ? static_cast<int64_t>(cursor_) : 1);
        return (wanted <= static_cast<int64_t>(buffer_.bytes)) != negated(op);
    }

    /// Where a byte_* option reads, kNotFound when that is not within the buffer.
    MILLRACE_DEVICE uint32_t position(const Op& op) const {
        const int64_t at = ((op.flags & Op::kRelative) ? static_cast<int64_t>(cursor_) : 0) + from(op);
        if (at < 0 || at + op.count > static_cast<int64_t>(buffer_.bytes)) return kNotFound;
        return static_cast<uint32_t>(at);
    }
    MILLRACE_DEVICE bool read(const Op& op, uint32_t at, uint64_t& value) const {
        if (at == kNotFound) return false;
        // Digits without a count go on as far as they do, up to what 64 bits hold.
        const bool open = op.count == 0 && (op.flags & Op::kString);
        const uint32_t count = open ? smaller<uint32_t>(kMaxDigits, buffer_.bytes - at) : op.count;
        if (!detail::read_number(buffer_.data + at, count, op.flags, value)) return false;
        if (op.data != 0) {  // the mask, and the result shifted down to its lowest bit
            uint32_t mask = op.data;
            value &= mask;
            for (; !(mask & 1); mask >>= 1) value >>= 1;
        }
        return true;
    }

    MILLRACE_DEVICE bool byte_test(const Op& op) const {
        uint64_t value = 0;
        if (!read(op, position(op), value)) return false;
        const uint64_t operand = op.window_slot == Op::kNoSlot ? op.value : trail_.slots[op.window_slot];
        return detail::compare(op.comparison, value, operand) != negated(op);
    }

    MILLRACE_DEVICE bool byte_jump(const Op& op) {
        uint64_t value = 0;
        const uint32_t at = position(op);
        if (op.count > 0 && !read(op, at, value)) return false;
        if (op.count == 0 && at == kNotFound) return false;
        int64_t jump = small(value) * static_cast<int64_t>(op.data_bytes);
        if (op.flags & Op::kAlign) jump = (jump + 3) & ~int64_t{3};
        int64_t to = jump + static_cast<int32_t>(static_cast<uint32_t>(op.value));
        if (op.flags & Op::kFromEnd) {
            to += buffer_.bytes;
        } else if (!(op.flags & Op::kFromBeginning)) {
            to += at + op.count;
        }
        if (to < 0 || to > static_cast<int64_t>(buffer_.bytes)) return false;
        cursor_ = static_cast<uint32_t>(to);
        return true;
    }

    MILLRACE_DEVICE bool byte_extract(const Op& op) {
        uint64_t value = 0;
        const uint32_t at = position(op);
        if (!read(op, at, value)) return false;
        value *= op.data_bytes;
        if (op.flags & Op::kAlign) value = (value + 3) & ~uint64_t{3};
        trail_.slots[op.window_slot] = value;
        cursor_ = at + op.count;
        return true;
    }

    MILLRACE_DEVICE bool same_ip() const {
        const bool ipv6 = packet_.layers().is_ipv6();
        const uint8_t* src = packet_.l3() + (ipv6 ? 8 : 12);
        const uint32_t bytes = ipv6 ? 16 : 4;
        return detail::equals(src, src + bytes, bytes, false);
    }

    const Packet& packet_;
    const OptionTables& tables_;
    Buffers& buffers_;
    Trail& trail_;
    Lanes lanes_;
    Span buffer_;
    uint32_t first_ = 0;
    uint32_t cursor_ = 0;
    uint32_t searches_ = 0;
};

}  // namespace millrace::nf::nids
