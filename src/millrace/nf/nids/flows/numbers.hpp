// Numbers of a flow for rules to ask: how many bytes each end of a TCP connection has sent, and flowint.
#pragma once

#include "millrace/nf/flows/tcp.hpp"
#include "millrace/nf/nids/confirm.hpp"
#include "millrace/nf/nids/flows/bits.hpp"

namespace millrace::nf::nids {

/// The numbers of one flow; without one there are none, and nothing holds that a rule asks of them. They are
/// there where any rule asks for numbers.
class NumbersOfFlow {
public:
    /// Of a flow: for each end the number of its SYN, and the one behind the last byte that it has sent, the client's
    /// first; all are 0 until the connection is taken part in. Behind them which flowints are set, a bit each, and
    /// their values.
    MILLRACE_DEVICE static constexpr uint32_t words_for(uint32_t ints) { return ints > 0 ? kValues + ints : kAreSet; }

    NumbersOfFlow() = default;
    /// `of_tcp`: for a segment of it.
    MILLRACE_DEVICE NumbersOfFlow(uint32_t* words, bool of_tcp) : words_(words), of_tcp_(of_tcp) {}
    MILLRACE_DEVICE bool is_there() const { return words_ != nullptr; }

    /// Takes in a segment that is a connection's, as Suricata counts (`next_seq` less `isn` of its TcpStream): a FIN
    /// counts once it is acknowledged. `state`: of the connection, behind the segment.
    MILLRACE_DEVICE void take_segment(const Packet& packet, bool from_client, flows::Tcp state) const {
        const uint8_t* const header = packet.l4();
        const uint8_t flags = packet.tcp_flags();
        const uint32_t seq = load_be32(header + 4), ack = load_be32(header + 8);
        const bool syn = (flags & tcp::kSyn) != 0, has_ack = (flags & tcp::kAck) != 0;
        uint32_t* const own = words_ + (from_client ? 0 : 2);
        uint32_t* const other = words_ + (from_client ? 2 : 0);
        const uint32_t end = seq + packet.payload_bytes() + (syn ? 1 : 0);
        if (syn) {
            if (state <= flows::Tcp::syn_recv && (own[0] != seq || !is_known(own))) own[0] = seq, own[1] = end;
        } else if (!is_known(own)) {
            own[0] = seq - 1, own[1] = end;  // met in its midst
        } else if (flows::is_behind(end, own[1])) {
            own[1] = end;
        }
        if (!has_ack || (flags & tcp::kRst) != 0) return;
        if (!is_known(other)) other[0] = ack - 1, other[1] = ack;
        else if (state >= flows::Tcp::fin_wait && flows::is_behind(ack, other[1])) other[1] = ack;
    }

    /// Whether they are as an operation asks.
    MILLRACE_DEVICE_CALL bool allow(const StateTables& tables, const StateOp& op) const {
        if (op.verb == StateVerb::stream_size) return allows_size(tables, op);
        if (!is_there()) return false;
        const uint32_t number = tables.numbers[op.first];
        if (op.verb != StateVerb::int_compares) return is_set(number) == (op.verb == StateVerb::int_is_set);
        return is_set(number) && holds(op, words_[kValues + number], operand(tables, op));
    }
    /// A rule has matched: what it does to a flowint; where there is a flow. One that is not set gains from 0, and
    /// can't lose.
    MILLRACE_DEVICE_CALL void take(const StateTables& tables, const StateOp& op) const {
        const uint32_t number = tables.numbers[op.first], by = operand(tables, op), before = value(number);
        if (op.verb == StateVerb::int_loses && !is_set(number)) return;
        words_[kValues + number] = op.verb == StateVerb::int_becomes ? by
                                   : op.verb == StateVerb::int_gains ? before + by
                                                                     : before - by;
        words_[kAreSet] |= 1u << number;
    }

private:
    static constexpr uint32_t kAreSet = 4, kValues = 5;  ///< in `words_`

    /// `stream_size`. Of an end that has sent nothing it is 0.
    MILLRACE_DEVICE bool allows_size(const StateTables& tables, const StateOp& op) const {
        if (!of_tcp_ || !(is_known(words_) || is_known(words_ + 2))) return false;
        const uint32_t bytes = tables.numbers[op.first];
        const bool client = holds(op, words_[1] - words_[0], bytes), server = holds(op, words_[3] - words_[2], bytes);
        switch (static_cast<StreamEnds>(op.count)) {
            case StreamEnds::client: return client;
            case StreamEnds::server: return server;
            case StreamEnds::both: return client && server;
            case StreamEnds::either: break;
        }
        return client || server;
    }
    MILLRACE_DEVICE bool is_set(uint32_t number) const { return (words_[kAreSet] >> number & 1) != 0; }
    MILLRACE_DEVICE uint32_t value(uint32_t number) const { return is_set(number) ? words_[kValues + number] : 0; }
    MILLRACE_DEVICE uint32_t operand(const StateTables& tables, const StateOp& op) const {
        const uint32_t given = tables.numbers[op.first + 1];
        return op.count != 0 ? value(given) : given;
    }
    MILLRACE_DEVICE static bool is_known(const uint32_t* end) { return (end[0] | end[1]) != 0; }
    MILLRACE_DEVICE static bool holds(const StateOp& op, uint32_t value, uint32_t operand) {
        return detail::compare(static_cast<Comparison>(op.how), value, operand);
    }

    uint32_t* words_ = nullptr;
    bool of_tcp_ = false;
};

/// BitsOfFlow, and numbers.
class StateOfFlow {
public:
    static constexpr bool kHasNumbers = true;

    MILLRACE_DEVICE StateOfFlow(BitsOfFlow bits, NumbersOfFlow numbers) : bits_(bits), numbers_(numbers) {}

    MILLRACE_DEVICE bool allow(const StateTables& tables, const StateRule& rule) const {
        for (uint32_t i = 0; i < rule.ops; ++i) {
            const StateOp& op = tables.ops[rule.first_op + i];
            if (!asks(op.verb)) break;
            if (!(is_of_numbers(op.verb) ? numbers_.allow(tables, op) : bits_.allow(tables, only(rule, i))))
                return false;
        }
        return true;
    }
    MILLRACE_DEVICE void take(const StateTables& tables, const StateRule& rule) const {
        for (uint32_t i = 0; i < rule.ops && numbers_.is_there(); ++i) {
            const StateOp& op = tables.ops[rule.first_op + i];
            if (asks(op.verb)) continue;
            if (is_of_numbers(op.verb)) numbers_.take(tables, op);
            else bits_.take(tables, only(rule, i));
        }
    }

private:
    /// One of a rule's operations.
    MILLRACE_DEVICE static StateRule only(const StateRule& rule, uint32_t i) {
        return {rule.rule, rule.first_op + i, 1};
    }

    BitsOfFlow bits_;
    NumbersOfFlow numbers_;
};

}  // namespace millrace::nf::nids
