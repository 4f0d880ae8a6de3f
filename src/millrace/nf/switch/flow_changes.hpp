// Flows added, changed and removed one by one, as a controller or `ovs-ofctl` asks.
#pragma once

#include <functional>
#include <optional>
#include <string>
#include <unordered_map>

#include "millrace/nf/switch/flow_parser.hpp"

namespace millrace::nf::flow_switch {

/// Which flows are meant, besides by their match: those with these bits of the cookie, that send packets by a port (an index, or
/// kToController) or to a group (OpenFlow 1.3.5, section 6.4).
struct FlowFilter {
    static constexpr uint32_t kToController = 0xfffffffdu;

    uint64_t cookie = 0, cookie_mask = 0;
    std::optional<uint32_t> out_port, out_group;

    bool accepts(const Flow& flow) const;
};

struct FlowChange {
    enum class Kind { add, modify, modify_strict, remove, remove_strict };
    Kind kind = Kind::add;
    Flow flow;           ///< to remove: without actions
    FlowFilter filter;   ///< to add: ignored
    bool reset_counts = false;

    bool removes() const { return kind == Kind::remove || kind == Kind::remove_strict; }
};

/// Reads `add FLOW`, `modify FLOW`, `modify_strict FLOW`, `delete MATCH` or `delete_strict MATCH`, as files for
/// `ovs-ofctl --bundle add-flows` have them; a flow alone is added. Throws classify::WordMistake.
FlowChange parse_change(std::string_view line, const PortNumbers& ports);

/// Whether every packet of `inner` is one of `outer`; whether one packet may be of both.
bool within(const FlowMatch& inner, const FlowMatch& outer);
bool overlap(const FlowMatch& a, const FlowMatch& b);

/// What makes a flow the same flow: its match and its priority.
std::string identity_of(const Flow& flow);
/// The flows' identities; of several that are the same, each has the how-manieth it is behind.
std::vector<std::string> identities(const std::vector<Flow>& flows);

/// Flows under change (OpenFlow 1.3.5, section 6.4). Flows keep their order; new ones come last.
class FlowTable {
public:
    /// Packets and bytes that a flow has counted so far, since its counters exist.
    using Counted = std::function<std::pair<uint64_t, uint64_t>(const Flow&)>;

    /// Without `counted` counters that are set to 0 are not looked after.
    explicit FlowTable(std::vector<Flow> flows, Counted counted = {});

    /// Adding replaces a flow with the same match and priority. The strict kinds mean that one; the others every flow that
    /// matches no packet besides those of the given match, whatever its priority. Returns how many flows were touched;
    /// those that went are appended to `removed`.
    size_t apply(const FlowChange& change, std::vector<Flow>* removed = nullptr);
    /// Removes flows for which `condition` holds.
    template <class Condition>
    void remove_if(Condition&& condition, std::vector<Flow>& removed) {
        for (size_t i = 0; i < flows_.size(); ++i)
            if (!removed_[i] && condition(flows_[i])) remove(i, &removed);
    }
    /// Other flows in place of all.
    void replace(std::vector<Flow> flows) {
        flows_ = std::move(flows);
        index();
    }
    /// The flow of this identity, if there is one.
    Flow* find(const std::string& identity);
    /// The flows as they stand now, until the next change.
    std::vector<Flow>& flows();
    size_t size() const { return flows_.size() - holes_; }
    /// The same; the table is used up.
    std::vector<Flow> take() { return std::move(flows()); }

private:
    void index();
    void remove(size_t i, std::vector<Flow>* removed);
    void reset(Flow& flow) const;

    Counted counted_;
    std::vector<Flow> flows_;
    std::vector<bool> removed_;
    size_t holes_ = 0;
    std::unordered_multimap<std::string, size_t> by_identity_;
};

}  // namespace millrace::nf::flow_switch
