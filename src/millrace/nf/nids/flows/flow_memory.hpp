// The memory for flows, over all generations of a node.
#pragma once

#include <memory>
#include <vector>

#include "millrace/base/zeroed_allocator.hpp"
#include "millrace/nf/nids/compile/flow_state.hpp"
#include "millrace/nf/nids/cpu.hpp"
#include "millrace/nf/nids/flows/device.hpp"
#include "millrace/nf/nids/flows/options.hpp"
#include "millrace/nf/state/keyed_table.hpp"

namespace millrace::nf::nids {

class FlowMemory {
public:
    /// Goes on with what `previous` has: with its flows, if the table is as large, and with their bits and
    /// numbers, if the names in `state` have the numbers that they had, and there is room for new ones. Warns where
    /// they are lost. There is memory for what is followed, that of `previous` if it is as large.
    FlowMemory(const FlowOptions& options, const CompiledState& state, Follows follows, const Environment& environment,
               const FlowMemory* previous);

    void attach(Image& image, NidsOfFlows::Tables& tables) const;
    const FlowNames& names() const { return names_; }
    /// How many names of bits it has room for.
    size_t room() const { return words_of_flow_ * size_t{32}; }
    std::vector<Statistic> statistics() const;
    uint64_t bytes() const {
        const size_t words = words_->size() + notes_->size() + (numbers_ ? numbers_->size() : 0);
        return table_.bytes() + words * sizeof(uint32_t) + stream_bytes() + message_bytes();
    }
    /// Of which are for streams.
    uint64_t stream_bytes() const { return streams_ ? streams_->size() * sizeof(uint64_t) : 0; }
    /// And for HTTP messages.
    uint64_t message_bytes() const {
        return messages_ ? (messages_->size() + decoders_->size()) * sizeof(uint64_t) : 0;
    }
    /// NetworkFunction::device_lost. The bits of a flow are cleared when it begins.
    void lose() { table_.lose(); }

private:
    using Table = KeyedTable<flows::FlowKey, Flow>;
    using Words = std::vector<uint64_t, ZeroedAllocator<uint64_t>>;
    void make_bits(const Environment& environment, const FlowMemory* previous);
    void make_numbers(const Environment& environment, const FlowMemory* previous);
    void make_streams(const FlowOptions& options, const FlowMemory* previous);
    std::vector<Statistic> message_statistics() const;
    void make_messages(const FlowOptions& options, const FlowMemory* previous);

    const FlowRules rules_;
    const FlowNames names_;
    Table table_;
    uint32_t words_of_flow_ = 0;
    std::shared_ptr<std::vector<uint32_t>> words_;
    uint32_t numbers_of_flow_ = 0;                                               ///< words
    std::shared_ptr<std::vector<uint32_t, ZeroedAllocator<uint32_t>>> numbers_;  ///< NumbersOfFlow; null: not asked for
    std::shared_ptr<std::vector<uint32_t, ZeroedAllocator<uint32_t>>> notes_;    ///< RuleNotes
    std::shared_ptr<std::vector<uint64_t>> note_counts_;
    flows::StreamMemory stream_shape_;  ///< but for its views
    std::shared_ptr<Words> streams_;    ///< null: they are not looked at
    std::shared_ptr<std::vector<uint64_t>> stream_counts_;
    http::MessageMemory message_shape_;           ///< but for its views
    std::shared_ptr<Words> messages_, decoders_;  ///< null: they are not followed
    std::shared_ptr<std::vector<uint64_t>> message_counts_;
};

}  // namespace millrace::nf::nids
