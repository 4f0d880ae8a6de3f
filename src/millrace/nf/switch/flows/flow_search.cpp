#include "millrace/nf/switch/flows/flow_search.hpp"

#include <algorithm>
#include <cmath>

#include "millrace/nf/classify/bit_vector/vector_store.hpp"

namespace millrace::nf::flow_switch {
namespace {

/// Parts of less than that are made anew for other reasons soon enough.
constexpr size_t kFewGone = 256;

bool is_wide(const NumberedFlow& flow) { return flow.flow->match.mask.wide(); }

void sort_by_number(std::vector<NumberedFlow>& flows) {
    std::stable_sort(flows.begin(), flows.end(),
                     [](const NumberedFlow& a, const NumberedFlow& b) { return a.number < b.number; });
}

/// Of changes in order the last one of each number, by number.
std::vector<NumberedFlow> last_of_each(std::span<const NumberedFlow> changes) {
    std::vector<NumberedFlow> sorted(changes.begin(), changes.end());
    sort_by_number(sorted);
    std::vector<NumberedFlow> last;
    last.reserve(sorted.size());
    for (NumberedFlow& change : sorted) {
        if (!last.empty() && last.back().number == change.number) last.pop_back();
        last.push_back(std::move(change));
    }
    return last;
}

}  // namespace

FlowSearch::FlowSearch(std::vector<NumberedFlow> flows, Named named, const SearchOptions& options,
                       const FlowSearch* like)
    : numbers_(flows.empty() ? 0 : flows.back().number + size_t{1}),
      made_(flows.size() + (like == nullptr ? 0 : like->made_)) {
    const bool wide = options.pipeline && std::any_of(flows.begin(), flows.end(), is_wide);
    levels_[0].part = std::make_shared<const FlowPart>(std::move(flows), named, options, FlowPart::Purpose::all,
                                                       like == nullptr ? nullptr : like->levels_[0].part.get(), wide);
}

/// How many flows a level has at most where there are so many in all; the largest level has as many as there are.
/// Sizes grow by the same ratio from level to level, which makes the cost of a change the least.
size_t FlowSearch::room_of(unsigned level, size_t flows) {
    constexpr double kLeastRatio = 4;
    if (level == 0) return SIZE_MAX;
    const double ratio = std::max(
        kLeastRatio, std::pow(static_cast<double>(flows) / static_cast<double>(kSmallest), 1.0 / (kParts - 1)));
    return static_cast<size_t>(static_cast<double>(kSmallest) * std::pow(ratio, kParts - 1 - level));
}

std::optional<uint32_t> FlowSearch::Level::find(uint32_t number) const {
    if (part == nullptr) return std::nullopt;
    const std::optional<uint32_t> position = part->position_of(number);
    return position && has(*position) ? position : std::nullopt;
}

/// Marks the flows that are others now.
void FlowSearch::take_out(Levels& levels, std::span<const NumberedFlow> changes) {
    for (Level& level : levels) {
        std::shared_ptr<std::vector<uint32_t>> gone;  // a copy, once it is needed
        for (const NumberedFlow& change : changes) {
            if (level.part == nullptr || level.part->size() == 0 || change.number > level.part->flows().back().number)
                break;
            const std::optional<uint32_t> position = level.find(change.number);
            if (!position) continue;
            if (gone == nullptr) {
                gone = level.gone == nullptr ? std::make_shared<std::vector<uint32_t>>((level.part->size() + 31) / 32)
                                             : std::make_shared<std::vector<uint32_t>>(*level.gone);
                level.gone = gone;
            }
            (*gone)[*position / 32] |= 1u << *position % 32;
            ++level.gone_flows;
        }
    }
}

void FlowSearch::append_flows(const Level& level, std::vector<NumberedFlow>& flows) {
    if (level.part == nullptr) return;
    for (size_t i = 0; i < level.part->size(); ++i)
        if (level.has(level.part->position_at(i))) flows.push_back(level.part->flows()[i]);
}

std::shared_ptr<const FlowSearch> FlowSearch::changed(const FlowSearch& before, std::span<const NumberedFlow> changes,
                                                      Named named, const SearchOptions& options) {
    const std::vector<NumberedFlow> last = last_of_each(changes);
    std::shared_ptr<FlowSearch> made(new FlowSearch(before));
    Levels& levels = made->levels_;
    take_out(levels, last);
    std::vector<NumberedFlow> fresh;
    for (const NumberedFlow& change : last)
        if (change.flow != nullptr) fresh.push_back(change);
    if (!last.empty()) made->numbers_ = std::max<size_t>(before.numbers_, last.back().number + size_t{1});
    // The smallest level that has room for what is new and for all in those that are smaller; a larger one where more
    // flows have gone than are left.
    const size_t flows = made->size() + fresh.size();
    unsigned level = kParts;
    for (size_t count = fresh.size(); count > 0 && level > 0;) {
        count += levels[--level].size();
        if (count <= room_of(level, flows)) break;
    }
    for (unsigned at = 0; at < level; ++at)
        if (levels[at].gone_flows > levels[at].size() + kFewGone) level = at;
    if (level == kParts) return made;
    const bool wide = before.levels_[0].part->wide();
    if (level == 0 || (!wide && options.pipeline && std::any_of(fresh.begin(), fresh.end(), is_wide))) return nullptr;
    for (unsigned at = level; at < kParts; ++at) {
        append_flows(levels[at], fresh);
        levels[at] = {};
    }
    sort_by_number(fresh);
    made->made_ += fresh.size();
    try {
        levels[level].part = std::make_shared<const FlowPart>(std::move(fresh), named, options,
                                                              FlowPart::Purpose::changes, nullptr, wide);
    } catch (const classify::TablesTooLarge&) {
        return nullptr;
    }
    return made->bytes() > options.max_bytes ? nullptr : made;
}

const Flow* FlowSearch::find(uint32_t number) const {
    for (const Level& level : levels_)
        if (const auto position = level.find(number)) return &level.part->at(*position);
    return nullptr;
}

std::vector<NumberedFlow> FlowSearch::flows() const {
    std::vector<NumberedFlow> all;
    for (const Level& level : levels_) append_flows(level, all);
    sort_by_number(all);
    return all;
}

size_t FlowSearch::size() const {
    size_t size = 0;
    for (const Level& level : levels_) size += level.size();
    return size;
}

bool FlowSearch::is_settled() const { return levels_[0].gone == nullptr && size() == levels_[0].size(); }

void FlowSearch::attach(Image& image, Switch::Tables& tables) const {
    tables.wide = levels_[0].part->wide() ? 1 : 0;
    const bool ordered = size() != levels_[0].size();
    for (const Level& level : levels_) {
        // The first is there in any case, and the others as far as something is in them.
        if (&level != levels_.data() && level.size() == 0) continue;
        Switch::Part& part = tables.parts[tables.used_parts++];
        level.part->attach(image, part, ordered);
        if (level.gone != nullptr) image.attach(part.gone, level.gone);
    }
}

uint64_t FlowSearch::bytes() const {
    uint64_t bytes = 0;
    for (const Level& level : levels_)
        if (level.part != nullptr) bytes += level.part->bytes();
    return bytes;
}

std::string FlowSearch::choice_text() const {
    const FlowPart& all = *levels_[0].part;
    return all.wide() ? all.choice().text() : all.choice().text() + "; IPv6 by " + all.ipv6_choice().text();
}

}  // namespace millrace::nf::flow_switch
