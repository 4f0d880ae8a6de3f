// What connection tracking shows of its flows.
#pragma once

#include "millrace/nf/conntrack/device.hpp"
#include "millrace/nf/flow_query.hpp"

namespace millrace::nf::conntrack {

/// Collects the first flows of a query, in memory for as many and no more.
class FlowList {
public:
    /// `kept_ns` as in Conntrack::Tables.
    FlowList(const FlowQuery& query, const uint64_t (&kept_ns)[kKept]) : query_(query), kept_ns_(kept_ns) {}
    void add(const FlowKey& key, const Flow& flow, uint64_t deadline_ns);
    /// All of them, once.
    ShownTable take();

private:
    struct Row {
        uint64_t most;  ///< of what the query orders by
        FlowKey key;
        Flow flow;
        uint64_t duration_ns;
    };
    static bool goes_before(const Row& a, const Row& b);
    std::vector<ShownTable::Value> text_of(const Row& row) const;

    const FlowQuery& query_;
    const uint64_t (&kept_ns_)[kKept];
    std::vector<Row> rows_;  // a heap, its front the last in order
    uint64_t total_ = 0;
};

}  // namespace millrace::nf::conntrack
