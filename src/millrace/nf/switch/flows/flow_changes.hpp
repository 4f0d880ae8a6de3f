// Flows added, changed and removed one by one, as a controller or `ovs-ofctl` asks.
#pragma once

#include <optional>
#include <string>

#include "millrace/nf/switch/text/flow_parser.hpp"

namespace millrace::nf::flow_switch {

/// Which flows are meant, besides by their match: those with these bits of the cookie, that name a port to send packets
/// by (an index, or one of the numbers below) or a group (OpenFlow 1.3.5, section 6.4).
struct FlowFilter {
    /// `out_port` of flows that name a port by OpenFlow's numbers for sets of ports; an output to a set is none to its
    /// members.
    static constexpr uint32_t kInPort = 0xfffffff8u, kFlood = 0xfffffffbu, kAll = 0xfffffffcu,
                              kToController = 0xfffffffdu;

    uint64_t cookie = 0, cookie_mask = 0;
    std::optional<uint32_t> out_port, out_group;

    bool accepts(const Flow& flow) const;
};

struct FlowChange {
    enum class Kind { add, modify, modify_strict, remove, remove_strict };
    Kind kind = Kind::add;
    Flow flow;          ///< to remove: without actions
    FlowFilter filter;  ///< to add: ignored
    bool reset_counts = false;

    bool removes() const { return kind == Kind::remove || kind == Kind::remove_strict; }
};

/// Reads `add FLOW`, `modify FLOW`, `modify_strict FLOW`, `delete MATCH` or `delete_strict MATCH`, as files for
/// `ovs-ofctl --bundle add-flows` have them; a flow alone is added. Throws classify::WordMistake.
FlowChange parse_change(std::string_view line, const PortNumbers& ports);

/// A match as it is compared with others.
struct MatchKeys {
    static constexpr unsigned kWords = classify::kWideWords;
    classify::TernaryKey<kWords> value, mask;

    explicit MatchKeys(const FlowMatch& match)
        : value(classify::ternary_key<kWords>(match.value)), mask(classify::ternary_key<kWords>(match.mask)) {}
    /// Whether every packet of this one is one of `outer`; whether one packet may be of both.
    bool within(const MatchKeys& outer) const;
    bool overlap(const MatchKeys& other) const;
};

/// What makes a flow the same flow: its table, match and priority.
std::string identity_of(const Flow& flow);
}  // namespace millrace::nf::flow_switch
