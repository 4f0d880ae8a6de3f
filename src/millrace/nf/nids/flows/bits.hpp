// Flowbits: what rules leave with a flow for others to ask.
#pragma once

#include "millrace/nf/nids/tables.hpp"

namespace millrace::nf::nids {

/// The bits of one flow; without one there are none, and nothing holds that a rule asks of them.
class BitsOfFlow {
public:
    static constexpr bool kHasNumbers = false;

    BitsOfFlow() = default;
    MILLRACE_DEVICE explicit BitsOfFlow(uint32_t* words) : words_(words) {}

    /// Whether they are as a rule asks.
    MILLRACE_DEVICE bool allow(const StateTables& tables, const StateRule& rule) const {
        for (uint32_t i = 0; i < rule.ops; ++i) {
            const StateOp& op = tables.ops[rule.first_op + i];
            if (op.verb > StateVerb::is_not_set) break;
            if (words_ == nullptr || !allows(tables, op)) return false;
        }
        return true;
    }
    /// A rule has matched: what it sets.
    MILLRACE_DEVICE void take(const StateTables& tables, const StateRule& rule) const {
        for (uint32_t i = 0; i < rule.ops && words_ != nullptr; ++i) {
            const StateOp& op = tables.ops[rule.first_op + i];
            if (op.verb <= StateVerb::is_not_set) continue;
            for (uint32_t k = 0; k < op.count; ++k) {
                const uint32_t number = tables.numbers[op.first + k], bit = 1u << number % 32;
                uint32_t& word = words_[number / 32];
                word = op.verb == StateVerb::set ? word | bit : op.verb == StateVerb::unset ? word & ~bit : word ^ bit;
            }
        }
    }

private:
    MILLRACE_DEVICE bool allows(const StateTables& tables, const StateOp& op) const {
        uint32_t holding = 0;
        for (uint32_t k = 0; k < op.count; ++k) {
            const uint32_t number = tables.numbers[op.first + k];
            const bool is_set = (words_[number / 32] >> number % 32 & 1) != 0;
            holding += is_set == (op.verb == StateVerb::is_set);
        }
        return op.how != 0 ? holding == op.count : holding > 0;
    }

    uint32_t* words_ = nullptr;
};

}  // namespace millrace::nf::nids
