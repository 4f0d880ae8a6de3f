// Flows by what they match, so that those that a change means are found without a look at all.
#pragma once

#include <array>
#include <map>
#include <memory>
#include <unordered_map>
#include <vector>

#include "millrace/nf/switch/flows/flow_changes.hpp"

namespace millrace::nf::flow_switch {

using FlowPointer = std::shared_ptr<const Flow>;

/// Numbers of flows in classes of one mask, as tuple search has them (Srinivasan, Suri and Varghese, SIGCOMM 1999). The
/// flows themselves lie in a vector by number, which all functions are given.
class FlowIndex {
public:
    using Flows = std::vector<FlowPointer>;

    void add(const Flow& flow, uint32_t number);
    void remove(const Flow& flow, uint32_t number);
    void clear();

    /// Those with this match and priority, in order.
    std::vector<uint32_t> same(const Flows& flows, const FlowMatch& match, uint16_t priority) const;
    /// Those that match no packet besides those of `match`, whatever their priority, in order. Looks at the classes
    /// whose masks have all of the match's: at the flows with its value in the class of the same mask, at all flows of
    /// the others.
    std::vector<uint32_t> within(const Flows& flows, const FlowMatch& match) const;
    /// Whether a flow of this priority may match a packet of `match`. Looks at all flows of the classes whose masks ask
    /// for what the match does not.
    bool overlaps(const Flows& flows, const FlowMatch& match, uint16_t priority) const;
    /// Flows that these have looked at so far.
    uint64_t looks() const { return looks_; }

private:
    using Mask = std::array<uint32_t, MatchKeys::kWords>;
    /// Numbers that share a hash, in a list through `next` and `before` of their links.
    struct Link {
        uint32_t next = kNone, before = kNone;
    };
    static constexpr uint32_t kNone = 0xffffffffu;
    using Lists = std::unordered_map<uint64_t, uint32_t>;  // the first number by hash
    struct Class {
        Lists by_value, by_priority;  // the latter by value and priority
    };

    static void put(Lists& lists, std::vector<Link>& links, uint64_t hash, uint32_t number);
    static void take(Lists& lists, std::vector<Link>& links, uint64_t hash, uint32_t number);
    template <class F>
    static void for_each(const Lists& lists, const std::vector<Link>& links, uint64_t hash, F&& f);

    std::map<Mask, Class> classes_;
    std::vector<Link> value_links_, priority_links_;  // by number
    mutable uint64_t looks_ = 0;
};

}  // namespace millrace::nf::flow_switch
