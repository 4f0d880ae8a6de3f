// Flowbits: what rules leave with a flow for others to ask.
#pragma once

#include "millrace/nf/nids/tables.hpp"

namespace millrace::nf::nids {

/// The bits of one flow; without one there are none, and nothing holds that a rule asks of them.
class BitsOfFlow {
public:
    BitsOfFlow() = default;
    MILLRACE_DEVICE explicit BitsOfFlow(uint32_t* words) : words_(words) {}

    /// Whether they are as a rule asks.
    MILLRACE_DEVICE bool allow(const BitTables& tables, const BitRule& rule) const {
        for (uint32_t i = 0; i < rule.ops; ++i) {
            const BitOp& op = tables.ops[rule.first_op + i];
            if (op.verb > BitVerb::is_not_set) break;
            if (words_ == nullptr || !allows(tables, op)) return false;
        }
        return true;
    }
    /// A rule has matched: what it sets.
    MILLRACE_DEVICE void take(const BitTables& tables, const BitRule& rule) const {
        for (uint32_t i = 0; i < rule.ops && words_ != nullptr; ++i) {
            const BitOp& op = tables.ops[rule.first_op + i];
            if (op.verb <= BitVerb::is_not_set) continue;
            for (uint32_t k = 0; k < op.count; ++k) {
                const uint32_t number = tables.numbers[op.first + k], bit = 1u << number % 32;
                uint32_t& word = words_[number / 32];
                word = op.verb == BitVerb::set ? word | bit : op.verb == BitVerb::unset ? word & ~bit : word ^ bit;
            }
        }
    }

private:
    MILLRACE_DEVICE bool allows(const BitTables& tables, const BitOp& op) const {
        uint32_t holding = 0;
        for (uint32_t k = 0; k < op.count; ++k) {
            const uint32_t number = tables.numbers[op.first + k];
            const bool is_set = (words_[number / 32] >> number % 32 & 1) != 0;
            holding += is_set == (op.verb == BitVerb::is_set);
        }
        return op.all != 0 ? holding == op.count : holding > 0;
    }

    uint32_t* words_ = nullptr;
};

}  // namespace millrace::nf::nids
