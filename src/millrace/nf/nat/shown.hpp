// What NAT shows of its mappings.
#pragma once

#include "millrace/nf/flow_query.hpp"
#include "millrace/nf/nat/tables.hpp"
#include "millrace/nf/top_rows.hpp"

namespace millrace::nf::nat {

/// Collects the first mappings of a query. `kept_ns` as in NatTables; who has timed out by `now_ns` is left out.
class MappingList {
public:
    MappingList(const FlowQuery& query, const uint64_t (&kept_ns)[kKept], uint64_t now_ns)
        : query_(query), kept_ns_(kept_ns), now_ns_(now_ns), rows_(query.most) {}
    void add(const GroupKey& key, const PortGroup& group);
    ShownTable take();

private:
    struct Row {
        uint64_t most;  ///< of what the query orders by
        uint64_t duration_ns;
        End external;
        Mapping mapping;
        bool goes_before(const Row& other) const;
    };
    static std::vector<ShownTable::Value> values_of(const Row& row);

    const FlowQuery& query_;
    const uint64_t (&kept_ns_)[kKept];
    const uint64_t now_ns_;
    TopRows<Row> rows_;
    uint64_t total_ = 0;
};

}  // namespace millrace::nf::nat
