// What is counted of a flow for rules to ask: how many bytes each end of a TCP connection has sent.
#pragma once

#include "millrace/nf/flows/tcp.hpp"
#include "millrace/nf/nids/confirm.hpp"
#include "millrace/nf/nids/flows/bits.hpp"

namespace millrace::nf::nids {

/// The numbers of one flow; without one there are none, and nothing holds that a rule asks of them. They are
/// there where any rule asks for numbers.
class NumbersOfFlow {
public:
    /// Of a flow: for each end the number of its SYN, and the one behind the last byte that it has sent; the client's
    /// first. All are 0 until the connection is taken part in.
    static constexpr uint32_t kWords = 4;

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

    /// Whether `stream_size` holds. Of an end that has sent nothing it is 0.
    MILLRACE_DEVICE bool allow(const StateTables& tables, const StateOp& op) const {
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

private:
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
        for (uint32_t i = 0; i < rule.ops && numbers_.is_there(); ++i)
            if (!asks(tables.ops[rule.first_op + i].verb)) bits_.take(tables, only(rule, i));
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
