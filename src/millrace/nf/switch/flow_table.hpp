// The flows of a switch under change, and what has changed since they were last taken as a whole.
#pragma once

#include <functional>
#include <memory>
#include <optional>
#include <string>
#include <unordered_map>
#include <vector>

#include "millrace/nf/switch/flow_changes.hpp"

namespace millrace::nf::flow_switch {

/// What has become of the flow with a number.
struct NumberedChange {
    uint32_t number = 0;
    std::shared_ptr<const Flow> flow;  ///< null: it went
};

/// Flows under change (OpenFlow 1.3.5, section 6.4). Flows keep their order; new ones come last. A flow's number says
/// how many came before it, those that went since `renumber` among them.
class FlowTable {
public:
    /// Changes that are noted one by one.
    static constexpr size_t kMaxNoted = 8192;

    /// Who looks after the counters of flows, which may be nobody.
    struct Counting {
        std::function<void(Flow&)> begin;  ///< a flow comes
        std::function<void(Flow&)> reset;  ///< its counters shall begin at 0
    };

    explicit FlowTable(std::vector<Flow> flows, Counting counting = {});

    /// Adding replaces a flow with the same match and priority. The strict kinds mean that one; the others every flow
    /// that matches no packet besides those of the given match, whatever its priority. Returns how many flows were
    /// touched; those that went are appended to `removed`.
    size_t apply(const FlowChange& change, std::vector<Flow>* removed = nullptr);
    /// Removes flows for which `condition` holds.
    template <class Condition>
    void remove_if(Condition&& condition, std::vector<Flow>& removed) {
        for (size_t i = 0; i < flows_.size(); ++i)
            if (!removed_[i] && condition(flows_[i])) remove(i, &removed);
    }
    /// Calls `f` with each flow, in order. It may change what the switch keeps of it, Flow::life.
    template <class F>
    void for_each(F&& f) {
        for (size_t i = 0; i < flows_.size(); ++i)
            if (!removed_[i]) f(flows_[i]);
    }
    /// Calls `f` with each flow that lies within a match, in order.
    template <class F>
    void for_each_within(const FlowMatch& match, F&& f) const {
        const MatchKeys outer(match);
        for (size_t i = 0; i < flows_.size(); ++i)
            if (!removed_[i] && keys_[i].within(outer)) f(flows_[i]);
    }
    /// The flow with this match and priority, if there is one.
    const Flow* find(const Flow& like) const;
    /// Whether another flow of the same priority may match a packet of this one.
    bool overlaps(const Flow& flow) const;
    size_t size() const { return flows_.size() - holes_; }
    /// The flows; the table is used up.
    std::vector<Flow> take();

    /// Numbers the flows from 0 and forgets what has changed. Returns them.
    const std::vector<Flow>& renumber();
    /// Other flows in place of all, numbered from 0. Unless somebody else has numbered them so, too, `changes` has
    /// nothing.
    void replace(std::vector<Flow> flows, bool known = true);
    /// What has changed since the flows were numbered; nothing where that is too much.
    const std::vector<NumberedChange>* changes() const { return noted_ ? &changes_ : nullptr; }
    /// The flows are as they were: numbered, and changed by that.
    void restore(std::vector<Flow> numbered, std::vector<NumberedChange> changes);

private:
    void index();
    void put(size_t i, bool there);
    void remove(size_t i, std::vector<Flow>* removed);
    void note(size_t i);
    bool touch(size_t i, const FlowChange& change, std::vector<Flow>* removed);

    Counting counting_;
    std::vector<Flow> flows_;
    std::vector<MatchKeys> keys_;
    std::vector<bool> removed_;
    size_t holes_ = 0;
    std::unordered_multimap<std::string, size_t> by_identity_;
    bool noted_ = true;
    std::vector<NumberedChange> changes_;
    std::unordered_map<size_t, size_t> change_of_;  // by number: in `changes_`
};

}  // namespace millrace::nf::flow_switch
