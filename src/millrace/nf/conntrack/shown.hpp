// What connection tracking shows of its flows.
#pragma once

#include "millrace/nf/conntrack/device.hpp"
#include "millrace/nf/flow_query.hpp"
#include "millrace/nf/top_rows.hpp"

namespace millrace::nf::conntrack {

/// Collects the first flows of a query, in memory for as many and no more.
class FlowList {
public:
    /// `kept_ns` as in Conntrack::Tables.
    FlowList(const FlowQuery& query, const uint64_t (&kept_ns)[kKept])
        : query_(query), kept_ns_(kept_ns), rows_(query.most) {}
    void add(const FlowKey& key, const Flow& flow, uint64_t deadline_ns);
    /// All of them, once.
    ShownTable take();

private:
    struct Row {
        uint64_t most;  ///< of what the query orders by
        FlowKey key;
        Flow flow;
        uint64_t duration_ns;
        bool goes_before(const Row& other) const;
    };
    std::vector<ShownTable::Value> text_of(const Row& row) const;

    const FlowQuery& query_;
    const uint64_t (&kept_ns_)[kKept];
    TopRows<Row> rows_;
    uint64_t total_ = 0;
};

}  // namespace millrace::nf::conntrack
