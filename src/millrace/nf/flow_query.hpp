// Flows that network functions show of themselves while they work: which, and in what order.
#pragma once

#include <string_view>

#include "millrace/nf/classify/rules/five_tuple.hpp"
#include "millrace/nf/shown.hpp"
#include "millrace/nf/state/state_reader.hpp"

namespace millrace::nf {

/// What flows are asked for.
struct FlowQuery {
    /// By what the first of the rows has most.
    enum class By { bytes, packets, duration };
    static constexpr const char* kBy[] = {"bytes", "packets", "duration"};

    size_t most = 0;  ///< rows
    By by = By::bytes;
    classify::FiveTupleMatch match;         ///< of who began it to the other end
    classify::ConnectionSet connections{};  ///< kinds that it may be of

    /// Takes the words of a firewall's rule behind its action: `tcp from 10.0.0.0/8 to any port 443 state new`. Throws
    /// std::runtime_error with what is wrong with them.
    void read(std::string_view words);
};

/// A NetworkFunction derives from it, too, when it knows the flows of packets.
class ShowsFlows {
public:
    virtual ~ShowsFlows() = default;
    /// The first rows that the query asks for; `total` is how many it could have. `reader`: of state that devices have;
    /// null: none has. Any thread, while the NF works.
    virtual ShownTable show_flows(const FlowQuery& query, StateReader* reader) const = 0;
};

}  // namespace millrace::nf
