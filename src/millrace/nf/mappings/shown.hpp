// What NAT44 and NAT64 show of their mappings.
#pragma once

#include <functional>

#include "millrace/nf/flow_query.hpp"
#include "millrace/nf/mappings/tables.hpp"
#include "millrace/nf/top_rows.hpp"

namespace millrace::nf::mappings {

/// Collects the first mappings of a query. `kept_ns` as in PortTables; who has timed out by `now_ns` is left out.
template <class Address>
class MappingList {
public:
    /// The address by which those inside know a peer: a query means that.
    using PeerInside = std::function<Address(uint32_t peer)>;
    MappingList(const FlowQuery& query, const uint64_t (&kept_ns)[kKept], uint64_t now_ns,
                const PeerInside& peer_inside)
        : query_(query), kept_ns_(kept_ns), now_ns_(now_ns), peer_inside_(peer_inside), rows_(query.most) {}
    void add(const GroupKey& key, const PortGroup<Address>& group);
    ShownTable take();

private:
    struct Row {
        uint64_t most;  ///< of what the query orders by
        uint64_t duration_ns;
        End external;
        Mapping<Address> mapping;
        bool goes_before(const Row& other) const;
    };
    static std::vector<ShownTable::Value> values_of(const Row& row);

    const FlowQuery& query_;
    const uint64_t (&kept_ns_)[kKept];
    const uint64_t now_ns_;
    const PeerInside& peer_inside_;
    TopRows<Row> rows_;
    uint64_t total_ = 0;
};

}  // namespace millrace::nf::mappings
