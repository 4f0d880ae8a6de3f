// The memory for flows, over all generations of a node.
#pragma once

#include <memory>
#include <vector>

#include "millrace/nf/nids/compile/flow_bits.hpp"
#include "millrace/nf/nids/flows/device.hpp"
#include "millrace/nf/nids/flows/options.hpp"
#include "millrace/nf/state/keyed_table.hpp"

namespace millrace::nf::nids {

class FlowMemory {
public:
    /// Goes on with what `previous` has: with its flows, if the table is as large, and with their bits, if the names in
    /// `bits` have the numbers that they had, and there is room for new ones. Warns where the bits are lost.
    FlowMemory(const FlowOptions& options, const CompiledBits& bits, const Environment& environment,
               const FlowMemory* previous);

    void attach(Image& image, NidsOfFlows::Tables& tables) const;
    const BitNumbers& names() const { return names_; }
    /// How many names it has room for.
    size_t room() const { return words_of_flow_ * size_t{32}; }
    std::vector<Statistic> statistics() const { return table_.statistics(); }
    uint64_t bytes() const { return table_.bytes() + words_->size() * sizeof(uint32_t); }
    /// NetworkFunction::device_lost. The bits of a flow are cleared when it begins.
    void lose() { table_.lose(); }

private:
    using Table = KeyedTable<flows::FlowKey, Flow>;
    const FlowRules rules_;
    const BitNumbers names_;
    Table table_;
    uint32_t words_of_flow_ = 0;
    std::shared_ptr<std::vector<uint32_t>> words_;
};

}  // namespace millrace::nf::nids
