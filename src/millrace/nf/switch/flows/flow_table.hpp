// The flows of a switch under change, and what has changed in which order.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <set>
#include <span>
#include <unordered_map>
#include <vector>

#include "millrace/nf/switch/flows/flow_index.hpp"

namespace millrace::nf::flow_switch {

/// A flow and its number; what has become of the flow with a number.
struct NumberedFlow {
    uint32_t number = 0;
    FlowPointer flow;  ///< null: it went
};

/// Flows under change (OpenFlow 1.3.5, section 6.4). Flows keep their order; new ones come last. A flow's number says
/// how many came before it, those that went since `renumber` among them.
class FlowTable {
public:
    /// Changes that are kept for those who ask what has changed.
    static constexpr size_t kMaxNoted = 65536;

    /// Who looks after the counters of flows, which may be nobody.
    struct Counting {
        std::function<void(Flow&)> begin;  ///< a flow comes
        std::function<void(Flow&)> reset;  ///< its counters shall begin at 0
    };

    explicit FlowTable(std::vector<Flow> flows, Counting counting = {});

    /// Adding replaces a flow with the same match and priority. The strict kinds mean that one; the others every flow
    /// that matches no packet besides those of the given match, whatever its priority. Returns how many flows were
    /// touched; those that went are appended to `removed`.
    size_t apply(const FlowChange& change, std::vector<FlowPointer>* removed = nullptr);
    /// Removes the flows that name a group or a meter.
    void remove_naming(ActionKind kind, uint32_t id, std::vector<FlowPointer>& removed);
    size_t count_naming(ActionKind kind, uint32_t id) const;
    /// Removes flows that have lived for their hard time-out, and those that nobody has used for their idle one;
    /// `packets` says what a flow has counted.
    using Clock = std::chrono::steady_clock;
    void expire(Clock::time_point now, const std::function<uint64_t(const Flow&)>& packets,
                std::vector<FlowPointer>& old, std::vector<FlowPointer>& idle);
    /// Calls `f` with each flow, in order.
    template <class F>
    void for_each(F&& f) const {
        for (const FlowPointer& flow : flows_)
            if (flow != nullptr) f(*flow);
    }
    /// Calls `f` with each flow that lies within a match, in order.
    template <class F>
    void for_each_within(const FlowMatch& match, F&& f) const {
        for (const uint32_t number : index_.within(flows_, match)) f(*flows_[number]);
    }
    /// The flow with this match and priority, if there is one.
    const Flow* find(const Flow& like) const;
    /// Whether another flow of the same priority may match a packet of this one.
    bool overlaps(const Flow& flow) const { return index_.overlaps(flows_, flow.match, flow.priority); }
    size_t size() const { return flows_.size() - holes_; }
    /// Copies of the flows, in order, with what their time-outs go by.
    std::vector<Flow> copies() const;
    /// Flows that were looked at so far, to find those that changes mean.
    uint64_t looks() const { return index_.looks(); }

    /// All flows by number.
    std::vector<NumberedFlow> numbered() const;
    /// More numbers belong to flows that went than to others.
    bool sparse() const { return holes_ > size(); }
    /// Numbers the flows from 0.
    void renumber();
    /// Other flows in place of all, numbered from 0. Nobody knows then what has changed.
    void replace(std::vector<Flow> flows);
    /// The flows are as they were, with the numbers that they had.
    void restore(const std::vector<NumberedFlow>& flows);

    /// How much has changed so far.
    uint64_t position() const { return noted_from_ + noted_.size(); }
    /// What has changed since that was the position, in order; nothing where nobody knows.
    std::optional<std::span<const NumberedFlow>> changes_since(uint64_t position) const;
    /// Nobody will ask for what was before.
    void forget_before(uint64_t position);

    /// From now on changes can be taken back.
    void begin_undo() { undo_.emplace(); }
    void end_undo() { undo_.reset(); }
    /// Takes back what has changed since.
    void undo();

private:
    /// What the idle time-out of a flow goes by.
    struct Use {
        Clock::time_point last;
        uint64_t packets = 0;  // that it had counted then
    };
    struct Before {
        uint32_t number;
        FlowPointer flow;
        std::optional<Use> use;
    };
    void set(uint32_t number, FlowPointer flow);
    void enter(const Flow& flow, uint32_t number);
    void leave(const Flow& flow, uint32_t number);
    void forget_all();
    std::vector<uint32_t> meant_by(const FlowChange& change) const;
    void change_one(uint32_t number, const FlowChange& change);

    Counting counting_;
    std::vector<FlowPointer> flows_;  // by number; null: it went
    size_t holes_ = 0;
    FlowIndex index_;
    std::map<uint32_t, Use> timed_;                                         // flows with a time-out, by number
    std::map<std::pair<ActionKind, uint32_t>, std::set<uint32_t>> naming_;  // flows by the group or meter that they
                                                                            // name
    std::vector<NumberedFlow> noted_;
    uint64_t noted_from_ = 0;
    std::optional<std::vector<Before>> undo_;
};

}  // namespace millrace::nf::flow_switch
