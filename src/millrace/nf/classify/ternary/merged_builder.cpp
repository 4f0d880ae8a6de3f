#include "millrace/nf/classify/ternary/merged_builder.hpp"

#include <algorithm>
#include <bit>
#include <map>
#include <set>
#include <string>

#include "millrace/nf/classify/bit_vector/vector_store.hpp"

namespace millrace::nf::classify {
namespace {

template <size_t Words>
bool contains(const std::array<uint32_t, Words>& mask, const std::array<uint32_t, Words>& part) {
    for (size_t i = 0; i < Words; ++i)
        if ((mask[i] & part[i]) != part[i]) return false;
    return true;
}

template <size_t Words>
std::array<uint32_t, Words> common(std::array<uint32_t, Words> a, const std::array<uint32_t, Words>& b) {
    for (size_t i = 0; i < Words; ++i) a[i] &= b[i];
    return a;
}

template <unsigned Words, class Mask>
uint32_t hash_of(const HashFunction<Words>& hashing, const TernaryRule<Words>& rule, const Mask& mask) {
    uint64_t sum = hashing.offset;
    for (unsigned i = 0; i < Words; ++i) sum += hashing.word[i] * (rule.value[i] & mask[i]);
    return static_cast<uint32_t>(sum >> 32);
}

template <unsigned Words>
typename MergedEngine<Words>::Rule packed(const TernaryRule<Words>& rule) {
    typename MergedEngine<Words>::Rule result{};
    for (unsigned i = 0; i < Words; ++i) {
        result.pairs[2 * i] = rule.value[i];
        result.pairs[2 * i + 1] = rule.mask[i];
    }
    result.ports_low = rule.ports_low;
    result.ports_high = rule.ports_high;
    result.position = rule.position;
    return result;
}

}  // namespace

template <unsigned Words>
MergedBuilder<Words>::MergedBuilder(std::span<const TernaryRule<Words>> rules, uint64_t limit_bytes,
                                    const MergedPolicy& policy)
    : all_(rules), policy_(policy), hashing_(make_hash_function<Words>(0)) {
    if (rules.size_bytes() > limit_bytes)
        throw TablesTooLarge("these rules take " + std::to_string(rules.size_bytes()) + " bytes");
    std::map<Mask, std::vector<uint32_t>> by_mask;
    for (uint32_t i = 0; i < rules.size(); ++i) by_mask[mask_of(rules[i])].push_back(i);
    std::vector<Class> classes;
    for (auto& [mask, members] : by_mask) classes.push_back({mask, std::move(members)});
    while (!classes.empty()) {
        std::stable_sort(classes.begin(), classes.end(),
                         [](const Class& a, const Class& b) { return a.rules.size() > b.rules.size(); });
        if (arrays_->tables.size() + 1 < policy_.max_tables) {
            add_table(classes, choose_mask(classes), policy_.max_bucket);
        } else {
            Mask mask = classes.front().mask;
            for (const Class& part : classes) mask = common(mask, part.mask);
            add_table(classes, mask, 0xffffffffu);
        }
        std::erase_if(classes, [](const Class& part) { return part.rules.empty(); });
    }
    std::stable_sort(arrays_->tables.begin(), arrays_->tables.end(),
                     [](const auto& a, const auto& b) { return a.best < b.best; });
    if (bytes() > limit_bytes)
        throw TablesTooLarge("the merged tables of these rules take " + std::to_string(bytes()) + " bytes");
}

/// Climbs from the masks of the largest classes: as long as merging with the mask of another class lets a table take
/// more rules. A mask with fewer bits serves more classes, but lets more rules share a value.
template <unsigned Words>
typename MergedBuilder<Words>::Mask MergedBuilder<Words>::choose_mask(const std::vector<Class>& classes) {
    Mask best = classes.front().mask;
    size_t best_placed = 0;
    std::set<Mask> tried;
    for (size_t seed = 0; seed < std::min<size_t>(policy_.seeds, classes.size()); ++seed) {
        Mask mask = classes[seed].mask;
        if (!tried.insert(mask).second) continue;
        size_t placed = placed_with(classes, mask);
        for (bool better = true; better;) {
            better = false;
            const Mask from = mask;
            uint32_t neighbours = 0;
            for (const Class& other : classes) {
                if (contains(other.mask, from)) continue;
                if (++neighbours > policy_.neighbours) break;
                const Mask merged = common(from, other.mask);
                if (!tried.insert(merged).second) continue;
                if (const size_t count = placed_with(classes, merged); count > placed) {
                    placed = count;
                    mask = merged;
                    better = true;
                }
            }
        }
        if (placed > best_placed) {
            best_placed = placed;
            best = mask;
        }
    }
    return best;
}

template <unsigned Words>
size_t MergedBuilder<Words>::placed_with(const std::vector<Class>& classes, const Mask& mask) {
    size_t count = 0;
    for (const Class& part : classes)
        if (contains(part.mask, mask)) count += part.rules.size();
    const size_t size = std::bit_ceil(2 * count + 1);
    counts_.assign(size, 0);
    size_t placed = 0;
    for (const Class& part : classes) {
        if (!contains(part.mask, mask)) continue;
        for (const uint32_t index : part.rules) {
            const uint32_t hash = hash_of(hashing_, all_[index], mask);
            size_t at = hash & (size - 1);
            while (counts_[at] != 0 && counts_[at] >> 32 != hash) at = (at + 1) & (size - 1);
            if (counts_[at] == 0) counts_[at] = static_cast<uint64_t>(hash) << 32;
            if (static_cast<uint32_t>(counts_[at]) < policy_.max_bucket) ++placed;
            ++counts_[at];
        }
    }
    return placed;
}

/// Moves the rules that fit from `classes` to a new table.
template <unsigned Words>
void MergedBuilder<Words>::add_table(std::vector<Class>& classes, const Mask& mask, uint32_t max_bucket) {
    std::vector<std::pair<uint32_t, uint32_t>> by_hash;  // and index, which is in order of position
    for (const Class& part : classes)
        if (contains(part.mask, mask))
            for (const uint32_t index : part.rules) by_hash.emplace_back(hash_of(hashing_, all_[index], mask), index);
    std::sort(by_hash.begin(), by_hash.end());
    size_t buckets = 0;
    for (size_t i = 0; i < by_hash.size(); ++i) buckets += i == 0 || by_hash[i].first != by_hash[i - 1].first;
    auto& [tables, slots, rules] = *arrays_;
    typename Engine::Table table{};
    std::copy(mask.begin(), mask.end(), table.mask);
    table.best = kNoRule;
    table.first_slot = static_cast<uint32_t>(slots.size());
    table.slots = static_cast<uint32_t>(2 * buckets + 1);
    slots.resize(slots.size() + table.slots, {});
    std::vector<bool> taken(all_.size());
    for (size_t i = 0, next = 0; i < by_hash.size(); i = next) {
        const auto [hash, first] = by_hash[i];
        while (next < by_hash.size() && by_hash[next].first == hash) ++next;
        const size_t end = std::min<size_t>(next, i + max_bucket);
        uint32_t at = spread(scatter(hash), table.slots);
        while (slots[table.first_slot + at].count != 0) at = at + 1 == table.slots ? 0 : at + 1;
        slots[table.first_slot + at] = {hash, static_cast<uint32_t>(rules.size()), static_cast<uint32_t>(end - i),
                                        all_[first].position};
        table.best = std::min(table.best, all_[first].position);
        for (size_t k = i; k < end; ++k) {
            rules.push_back(packed<Words>(all_[by_hash[k].second]));
            taken[by_hash[k].second] = true;
        }
    }
    for (Class& part : classes) std::erase_if(part.rules, [&](uint32_t index) { return taken[index]; });
    tables.push_back(table);
}

template <unsigned Words>
typename MergedBuilder<Words>::Look MergedBuilder<Words>::look_into(size_t table, const TernaryKey<Words>& key,
                                                                    uint32_t& best) const {
    const typename Engine::Table& in = arrays_->tables[table];
    Look look;
    if (in.best > best) return look;
    look.looked = true;
    const uint32_t hash = hashing_.hash(key, in.mask);
    for (uint32_t at = spread(scatter(hash), in.slots);; at = at + 1 == in.slots ? 0 : at + 1) {
        const typename Engine::Slot& slot = arrays_->slots[in.first_slot + at];
        ++look.slots;
        if (slot.count == 0) return look;
        if (slot.fingerprint != hash) continue;
        for (uint32_t i = 0; i < slot.count && arrays_->rules[slot.first + i].position < best; ++i) {
            ++look.compared;
            if (arrays_->rules[slot.first + i].matches(key)) best = arrays_->rules[slot.first + i].position;
        }
        return look;
    }
}

template <unsigned Words>
uint64_t MergedBuilder<Words>::bytes() const {
    return arrays_->tables.size() * sizeof(typename Engine::Table) +
           arrays_->slots.size() * sizeof(typename Engine::Slot) +
           arrays_->rules.size() * sizeof(typename Engine::Rule);
}

template <unsigned Words>
void MergedBuilder<Words>::attach(Image& image, typename Engine::Tables& tables) const {
    attach_shared(image, tables.tables, arrays_, arrays_->tables);
    attach_shared(image, tables.slots, arrays_, arrays_->slots);
    attach_shared(image, tables.rules, arrays_, arrays_->rules);
    tables.function = hashing_;
}

template class MergedBuilder<4>;
template class MergedBuilder<9>;
template class MergedBuilder<10>;
template class MergedBuilder<15>;
template class MergedBuilder<28>;

}  // namespace millrace::nf::classify
