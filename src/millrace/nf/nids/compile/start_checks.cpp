#include "millrace/nf/nids/compile/start_checks.hpp"

#include <algorithm>

namespace millrace::nf::nids {
namespace {

Op check(Field field, uint32_t mask, uint32_t value) {
    Op op;
    op.kind = OpKind::field_mask;
    op.mode = static_cast<uint8_t>(field);
    op.comparison = Comparison::equal;
    op.data = mask;
    op.value = value;
    return op;
}

/// Whether a content must stand at the very start of its buffer.
bool stands_first(const Op& op) {
    return op.kind == OpKind::content && (op.flags & (Op::kNegated | Op::kRelative)) == 0 &&
           op.from_slot == Op::kNoSlot && op.from == 0 && (op.flags & Op::kLimited) != 0 &&
           op.window_slot == Op::kNoSlot && op.window == op.data_bytes;
}

Op first_bytes(const Op& content, const std::vector<uint8_t>& literals) {
    uint32_t mask = 0, value = 0;
    for (uint32_t i = 0; i < 4; ++i) {
        const uint8_t byte = i < content.data_bytes ? literals[content.data + i] : 0;
        uint8_t bits = i < content.data_bytes ? 0xff : 0;
        // In either case: the bit that tells them apart is left out.
        if ((content.flags & Op::kNocase) != 0 && byte >= 'a' && byte <= 'z') bits = 0xff & ~0x20;
        mask = mask << 8 | bits;
        value = value << 8 | (byte & bits);
    }
    return check(Field::first_bytes, mask, value);
}

/// Whether it is there only where a message begins.
bool is_of_head(const Op& select) {
    const auto buffer = static_cast<Buffer>(select.mode);
    return is_of_http(buffer) && !is_of_body(buffer);
}

}  // namespace

std::vector<Op> start_checks(const LoweredRule& rule) {
    std::vector<Op> checks;
    const auto add = [&](const Op& op) {
        if (rule.ops.size() + checks.size() < kMaxOps) checks.push_back(op);
    };
    const auto head = std::ranges::find_if(
        rule.ops, [](const Op& op) { return op.kind == OpKind::select_buffer && is_of_head(op); });
    if (head != rule.ops.end()) add(check(Field::is_http_head, 1, 1));
    bool in_payload = false;
    for (const Op& op : rule.ops) {
        if (op.kind == OpKind::select_buffer) in_payload = static_cast<Buffer>(op.mode) == Buffer::payload;
        if (!in_payload || !stands_first(op)) continue;
        add(first_bytes(op, rule.literals));
        break;
    }
    return checks;
}

}  // namespace millrace::nf::nids
