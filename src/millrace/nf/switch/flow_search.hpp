// The flows of a switch in the tables that packets are looked up in: all of them as they were some time ago, and beside
// them what has changed since. The former take long to make and are shared by many generations, the latter are made for
// each.
#pragma once

#include <optional>
#include <vector>

#include "millrace/nf/classify/search_builder.hpp"
#include "millrace/nf/switch/action_tables.hpp"
#include "millrace/nf/switch/flow_table.hpp"

namespace millrace::nf::flow_switch {

/// How flows are searched. Without an engine the fastest is chosen.
struct SearchOptions {
    std::optional<classify::Engine> engine;
    uint64_t max_bytes = uint64_t{1} << 30;  ///< of the tables of each family
    classify::Searcher searcher = classify::Searcher::core;
    bool pipeline = false;  ///< Pipeline searches them, and not Switch: they have tables, and may have long keys
};

/// Flows by number, in tables.
class FlowBase {
public:
    /// `like` are the flows before, whose engines may do for these. Throws classify::TablesTooLarge.
    FlowBase(std::vector<Flow> flows, const GroupTables& groups, const MeterTables* meters,
             const SearchOptions& options, const FlowBase* like);

    const std::vector<Flow>& flows() const { return flows_; }
    /// Whether all are searched by long keys, as some flow looks at a field that others have not.
    bool wide() const { return wide_; }
    /// In order of match, from 0.
    uint32_t position_of(uint32_t number) const { return positions_[number]; }
    /// How many of the flows are tried before one with this priority and number.
    uint32_t rank(uint16_t priority, uint32_t number) const;
    /// The next flow in order of match that has the same match, which no packet reaches as long as this one is there,
    /// and which some engines leave out; kNone when there is none.
    uint32_t next_alike(uint32_t number) const { return next_alike_[number]; }
    static constexpr uint32_t kNone = 0xffffffffu;

    /// Switch::Tables with the first of its parts.
    const Image& image() const { return image_; }
    uint64_t bytes() const { return bytes_; }
    const classify::EngineChoice& choice() const { return choice_; }
    const classify::EngineChoice& ipv6_choice() const { return ipv6_choice_; }
    /// `merged (…); IPv6 by merged (…)`
    std::string choice_text() const;

private:
    template <unsigned Words>
    classify::EngineChoice build(const SearchOptions& options, const classify::EngineChoice* like,
                                 typename classify::Search<Words>::Tables& tables);
    void link_alike();

    std::vector<Flow> flows_;
    std::vector<uint32_t> order_, positions_, next_alike_;
    Image image_;
    uint64_t bytes_ = 0;
    bool wide_ = false;
    classify::EngineChoice choice_, ipv6_choice_;
};

/// What has changed since a base was made, in tables.
class FlowLayer {
public:
    /// Throws classify::TablesTooLarge where both together need more than `options` allow, and where the changes have
    /// long keys and the base has not.
    FlowLayer(const FlowBase& base, std::vector<NumberedChange> changes, const GroupTables& groups,
              const MeterTables* meters, const SearchOptions& options);

    /// Changes of the base's flows, by number.
    const std::vector<NumberedChange>& changes() const { return changes_; }
    /// What has become of the flow with a number; null: nothing.
    const NumberedChange* find(uint32_t number) const;
    /// Hands the arrays over. Call it once.
    void attach(Image& image, Switch::Tables& tables);
    uint64_t bytes() const { return bytes_; }

private:
    struct Item {
        uint32_t number;
        const Flow* flow;
    };
    std::vector<Item> items(const FlowBase& base);
    template <unsigned Words>
    void build(const std::vector<Item>& items, const SearchOptions& options,
               std::optional<classify::SearchBuilder<Words>>& builder);

    std::vector<NumberedChange> changes_;  // by number
    std::vector<uint32_t> gone_;           // bits, by position in the base
    std::vector<uint32_t> ranks_;
    std::vector<Switch::Flow> entries_;
    std::vector<Action> actions_;
    std::optional<classify::SearchBuilder<9>> search_;
    std::optional<classify::SearchBuilder<15>> ipv6_search_;
    std::optional<classify::SearchBuilder<classify::kWideWords>> wide_search_;
    uint64_t bytes_ = 0;
};

}  // namespace millrace::nf::flow_switch
