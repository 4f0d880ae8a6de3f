// The flows of a generation in the tables that packets are looked up in: a few parts, each of flows that have changed
// later than those of the part before it.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/nf/switch/flows/flow_part.hpp"

namespace millrace::nf::flow_switch {

/// A log-structured merge tree (O'Neil et al., Acta Informatica 1996) of parts which never change: what is new makes
/// the smallest part anew; one that has grown too large makes the next larger one anew, with all that was in both. So a
/// change costs the order of the number of parts times the ratio of their sizes, and not of the number of flows.
/// Generations share the parts that they have in common.
class FlowSearch {
public:
    static constexpr unsigned kParts = Switch::kParts;
    /// Flows of the smallest part.
    static constexpr size_t kSmallest = 32;

    /// Of all flows, by number, in one part. The engines of `like`, which was made before, may do for them. Throws
    /// classify::TablesTooLarge.
    FlowSearch(std::vector<NumberedFlow> flows, Named named, const SearchOptions& options,
               const FlowSearch* like = nullptr);
    /// `before`, changed. Nothing where all flows are to be arranged anew: as they would have to be anyway, or because
    /// the changes have long keys and the others have not, or everything together does not fit.
    static std::shared_ptr<const FlowSearch> changed(const FlowSearch& before, std::span<const NumberedFlow> changes,
                                                     Named named, const SearchOptions& options);

    /// The flow with a number; null when there is none.
    const Flow* find(uint32_t number) const;
    /// All flows, by number.
    std::vector<NumberedFlow> flows() const;
    size_t size() const;
    /// One more than the highest number of a flow.
    size_t numbers() const { return numbers_; }
    /// All flows are in one part, and nothing else.
    bool is_settled() const;
    /// Flows in all parts that have been made on the way here, which is what the changes have cost.
    uint64_t made() const { return made_; }

    void attach(Image& image, Switch::Tables& tables) const;
    uint64_t bytes() const;
    /// `merged (…); IPv6 by merged (…)`
    std::string choice_text() const;

private:
    struct Level {
        std::shared_ptr<const FlowPart> part;               ///< null: empty
        std::shared_ptr<const std::vector<uint32_t>> gone;  ///< Switch::Part::gone; null: nothing is
        size_t gone_flows = 0;

        size_t size() const { return part == nullptr ? 0 : part->size() - gone_flows; }
        bool has(uint32_t position) const {
            return gone == nullptr || ((*gone)[position / 32] >> position % 32 & 1) == 0;
        }
        /// Where a flow is that is there; nothing where there is none.
        std::optional<uint32_t> find(uint32_t number) const;
    };
    using Levels = std::array<Level, kParts>;  // the largest first

    FlowSearch() = default;
    static size_t room_of(unsigned level, size_t flows);
    static void take_out(Levels& levels, std::span<const NumberedFlow> changes);
    static void append_flows(const Level& level, std::vector<NumberedFlow>& flows);

    Levels levels_;
    size_t numbers_ = 0;
    uint64_t made_ = 0;
};

}  // namespace millrace::nf::flow_switch
