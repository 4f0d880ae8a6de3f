// Flows that are searched together, in tables which never change.
#pragma once

#include <memory>
#include <optional>
#include <vector>

#include "millrace/nf/classify/search_builder.hpp"
#include "millrace/nf/switch/actions/action_tables.hpp"
#include "millrace/nf/switch/flows/flow_table.hpp"

namespace millrace::nf::flow_switch {

/// How flows are searched. Without an engine the fastest is chosen.
struct SearchOptions {
    std::optional<classify::Engine> engine;
    uint64_t max_bytes = uint64_t{1} << 30;  ///< of the tables of each family
    classify::Searcher searcher = classify::Searcher::core;
    bool pipeline = false;  ///< Pipeline searches them, and not Switch: they have tables, and may have long keys
};

/// What a list of actions names.
struct Named {
    const GroupTables* groups = nullptr;
    const MeterTables* meters = nullptr;  ///< null: there are none
};

class FlowPart {
public:
    /// Which engines search a part.
    enum class Purpose {
        all,      ///< all flows: the engine that was asked for, or that suits them
        changes,  ///< what has changed, which is made anew often
    };
    /// For flows by number. `like` was made of all flows before, whose engines may do for these. With `wide` the keys
    /// are long. Throws classify::TablesTooLarge.
    FlowPart(std::vector<NumberedFlow> flows, Named named, const SearchOptions& options, Purpose purpose,
             const FlowPart* like, bool wide);

    const std::vector<NumberedFlow>& flows() const { return flows_; }
    size_t size() const { return flows_.size(); }
    /// The place of the flow with a number in order of match, from 0; nothing when there is none.
    std::optional<uint32_t> position_of(uint32_t number) const;
    uint32_t position_at(size_t index) const { return positions_[index]; }
    const Flow& at(uint32_t position) const { return *flows_[order_[position]].flow; }

    /// Has an image share the arrays; `part` is one of its Tables. With `ordered` there are other parts beside it.
    void attach(Image& image, Switch::Part& part, bool ordered) const;
    uint64_t bytes() const { return bytes_; }
    const classify::EngineChoice& choice() const { return choice_; }
    const classify::EngineChoice& ipv6_choice() const { return ipv6_choice_; }
    bool wide() const { return wide_; }

private:
    template <unsigned Words>
    std::optional<classify::SearchBuilder<Words>> build(const SearchOptions& options, Purpose purpose,
                                                        const classify::EngineChoice* like,
                                                        classify::EngineChoice& choice);

    std::vector<NumberedFlow> flows_;          // by number
    std::vector<uint32_t> order_, positions_;  // indexes by position, and the other way round
    std::shared_ptr<const std::vector<Switch::Flow>> entries_;
    std::shared_ptr<const std::vector<Action>> actions_;
    std::shared_ptr<const std::vector<uint64_t>> orders_;
    std::optional<classify::SearchBuilder<9>> search_;
    std::optional<classify::SearchBuilder<15>> ipv6_search_;
    std::optional<classify::SearchBuilder<classify::kWideWords>> wide_search_;
    bool wide_;
    uint64_t bytes_ = 0;
    classify::EngineChoice choice_, ipv6_choice_;
};

}  // namespace millrace::nf::flow_switch
