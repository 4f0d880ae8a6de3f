// The fields that flows match on, one by one, as OpenFlow knows them.
#pragma once

#include <optional>
#include <span>
#include <string_view>

#include "millrace/nf/switch/flows/flow.hpp"

namespace millrace::nf::flow_switch {

/// A field's value, up to 128 bits.
struct FieldValue {
    uint64_t high = 0, low = 0;
    friend bool operator==(const FieldValue&, const FieldValue&) = default;
    friend FieldValue operator&(FieldValue a, FieldValue b) { return {a.high & b.high, a.low & b.low}; }
    friend FieldValue operator~(FieldValue a) { return {~a.high, ~a.low}; }
    bool any() const { return (high | low) != 0; }
};

/// What the rest of a match must ask for, so that a field is sure to be there (OpenFlow 1.3.5, section 7.2.3.8).
enum class FieldNeed {
    nothing,
    tag,
    ipv4,
    ipv6,
    ip,
    arp,
    tcp,
    udp,
    sctp,
    icmp,
    icmpv6,
    neighbour,  ///< neighbour solicitation or advertisement
    solicitation,
    advertisement,
    mpls,
    pbb,
};

/// How people write it.
enum class FieldForm { decimal, hex, mac, ipv4, ipv6, port };

struct MatchField {
    uint8_t oxm;          ///< OFPXMT_OFB_…
    const char* name;     ///< as ovs-fields(7) has it
    uint8_t bytes, bits;  ///< its length on the wire; how many of its bits, the lowest, count
    FieldNeed need;
    FieldForm form;
    Fields of_packet;  ///< what a switch reads of a packet that looks at it
    FieldValue (*get)(const classify::WideFields&);
    void (*put)(classify::WideFields&, FieldValue);  ///< where no bit is set yet
    Action (*set)(FieldValue);                       ///< what sets it; null: nothing can

    FieldValue all_ones() const {
        return {bits <= 64 ? 0 : ~uint64_t{0} >> (128 - bits), bits >= 64 ? ~uint64_t{0} : (uint64_t{1} << bits) - 1};
    }
};

/// What an action sets a field to; nothing where it does not set this one.
std::optional<FieldValue> value_set(const MatchField& field, const Action& action);

/// All of them, in the order in which matches are written: what others need comes first.
std::span<const MatchField> match_fields();
/// By OpenFlow's number; null when the switch does not look at it.
const MatchField* find_match_field(uint8_t oxm);
/// By a name, or one of those that OpenFlow and Open vSwitch have besides; null when there is none.
const MatchField* find_match_field(std::string_view name);
/// Whether what a field needs is asked for.
bool meets(FieldNeed need, const FlowMatch& match);

/// Calls `f(field, value, mask)` with every field that the match looks at.
template <class F>
void for_each_field(const FlowMatch& match, F&& f) {
    for (const MatchField& field : match_fields()) {
        const FieldValue mask = field.get(match.mask);
        if (mask.any() && meets(field.need, match)) f(field, field.get(match.value), mask);
    }
}

/// What of a packet the switch reads and writes to look at these flows and to do what they say.
struct FieldsUsed {
    Fields reads, writes;
};
FieldsUsed fields_used(const std::vector<Flow>& flows, const std::vector<Group>& groups);

/// Whether a flow, a group, needs the device half that has all of OpenFlow 1.3 (pipeline.hpp).
bool needs_pipeline(const Flow& flow);
bool needs_pipeline(const Group& group);

/// A flow as `ovs-ofctl` writes it, for those that nobody wrote.
std::string text_of(const Flow& flow, const PortNumbers& ports);

}  // namespace millrace::nf::flow_switch
