#include "millrace/nf/classify/ternary/tuple_builder.hpp"

#include <algorithm>
#include <bit>
#include <cmath>
#include <map>
#include <string>

#include "millrace/nf/classify/bit_vector/vector_store.hpp"

namespace millrace::nf::classify {
namespace {

template <unsigned Words>
TernaryKey<Words> key_of_value(const uint32_t (&value)[Words]) {
    TernaryKey<Words> key;
    std::copy_n(value, Words, key.words);
    return key;
}

}  // namespace

template <unsigned Words>
TupleBuilder<Words>::TupleBuilder(std::span<const TernaryRule<Words>> rules, bool filters, uint64_t limit_bytes,
                                  const TuplePolicy& policy)
    : policy_(policy), with_filters_(filters) {
    std::vector<TernaryRule<Words>> parts;
    parts.reserve(rules.size());
    for (const TernaryRule<Words>& rule : rules) {
        expand_ranges(rule, parts);
        if (parts.size() * sizeof(typename Engine::Slot) > limit_bytes)
            throw TablesTooLarge("the rules make more than " + std::to_string(parts.size()) +
                                 " tuples with their ranges as prefixes");
    }
    Classes by_mask;
    Rules* last = nullptr;  // neighbours often have the same mask
    std::array<uint32_t, Words> last_mask;
    for (const TernaryRule<Words>& part : parts) {
        const auto mask = mask_of(part);
        if (last == nullptr || mask != last_mask) {
            last = &by_mask[mask];
            last_mask = mask;
        }
        last->push_back(&part);
    }
    for (auto& [mask, all] : by_mask)
        keep_first_of_each_value(all, rules.empty() ? 0 : rules.back().position + size_t{1});
    for (uint32_t function = 0; !add_all(by_mask, function);) ++function;
    std::stable_sort(arrays_->classes.begin(), arrays_->classes.end(),
                     [](const auto& a, const auto& b) { return a.best < b.best; });
    if (bytes() > limit_bytes)
        throw TablesTooLarge("the tuple tables of these rules take " + std::to_string(bytes()) + " bytes");
}

/// Leaves rules out that match the same as one before them, to which they are linked.
template <unsigned Words>
void TupleBuilder<Words>::keep_first_of_each_value(Rules& rules, size_t positions) {
    struct Slot {
        uint32_t kept = 0;  // index + 1; 0: free
        uint32_t last = 0;  // the position of the last rule with that value
    };
    std::vector<Slot> slots(std::bit_ceil(2 * rules.size()));
    const HashFunction<Words> function = make_hash_function<Words>(0);
    size_t kept = 0;
    for (const TernaryRule<Words>* const rule : rules) {
        size_t at = scatter(function.hash(key_of_value(rule->value), rule->mask)) & (slots.size() - 1);
        while (slots[at].kept != 0 && !std::ranges::equal(rules[slots[at].kept - 1]->value, rule->value))
            at = (at + 1) & (slots.size() - 1);
        if (slots[at].kept == 0) {
            rules[kept++] = rule;
            slots[at].kept = static_cast<uint32_t>(kept);
        } else {
            arrays_->alike.resize(positions, kNoRule);
            arrays_->alike[slots[at].last] = rule->position;
        }
        slots[at].last = rule->position;
    }
    rules.resize(kept);
}

/// Makes all tables with that function; false when it gives too many values of a class the same hash.
template <unsigned Words>
bool TupleBuilder<Words>::add_all(const Classes& classes, uint32_t function) {
    function_ = make_hash_function<Words>(function);
    *arrays_ = {.classes = {}, .slots = {}, .prints = {}, .filters = {}, .alike = std::move(arrays_->alike)};
    for (const auto& [mask, all] : classes)
        for (size_t first = 0; first < all.size(); first += policy_.max_class)
            if (!add_class(mask,
                           std::span(all).subspan(first, std::min<size_t>(policy_.max_class, all.size() - first))))
                return false;
    return true;
}

template <unsigned Words>
bool TupleBuilder<Words>::add_class(const std::array<uint32_t, Words>& mask, RulesOfClass rules) {
    typename Engine::Class in{};
    std::copy_n(mask.begin(), Words, in.mask);
    in.best = rules.front()->position;
    for (const TernaryRule<Words>* const rule : rules) in.best = std::min(in.best, rule->position);
    in.first_slot = static_cast<uint32_t>(arrays_->slots.size());
    in.subtable_slots = static_cast<uint32_t>(
        std::ceil(static_cast<double>(rules.size()) / (Engine::kSubtables * policy_.load)));
    std::vector<typename Engine::Slot> slots;
    uint32_t growths = 0;
    for (uint32_t tries = 1; !fill(in, rules, slots); ++tries) {
        ++rehashes_;
        in.seed = tries * 0x9e3779b9u;
        if (tries % policy_.tries != 0) continue;
        if (++growths > policy_.max_growths) return false;
        in.subtable_slots += 1 + in.subtable_slots / 8;
        ++growths_;
    }
    arrays_->slots.insert(arrays_->slots.end(), slots.begin(), slots.end());
    for (const auto& slot : slots)
        arrays_->prints.push_back(slot.position == kNoRule ? 0 : function_.hash(key_of_value(slot.value), in.mask));
    if (with_filters_) add_filter(in, rules);
    arrays_->classes.push_back(in);
    return true;
}

template <unsigned Words>
bool TupleBuilder<Words>::fill(const typename Engine::Class& in, RulesOfClass rules,
                               std::vector<typename Engine::Slot>& slots) {
    slots.assign(size_t{Engine::kSubtables} * in.subtable_slots, {{}, kNoRule});
    for (const TernaryRule<Words>* const rule : rules) {
        typename Engine::Slot homeless{{}, rule->position};
        std::copy_n(rule->value, Words, homeless.value);
        for (uint32_t moves = 0;; ++moves) {
            if (moves == policy_.max_moves) return false;
            const uint32_t hash = Engine::slot_hash(function_.hash(key_of_value(homeless.value), in.mask), in.seed);
            typename Engine::Slot* victim = nullptr;
            for (unsigned i = 0; i < Engine::kSubtables; ++i) {
                typename Engine::Slot& slot =
                    slots[i * in.subtable_slots + spread(function_.derive(i, hash), in.subtable_slots)];
                if (slot.position == kNoRule) {
                    victim = &slot;
                    break;
                }
                // Turns take the subtables one after the other, so that two rules do not push each other around.
                if (i == moves % Engine::kSubtables) victim = &slot;
            }
            std::swap(*victim, homeless);
            if (homeless.position == kNoRule) break;
        }
    }
    return true;
}

template <unsigned Words>
void TupleBuilder<Words>::add_filter(typename Engine::Class& in, RulesOfClass rules) {
    std::vector<uint32_t>& filters = arrays_->filters;
    in.first_filter = static_cast<uint32_t>(filters.size());
    in.filter_words = static_cast<uint32_t>((rules.size() * policy_.filter_bits + 31) / 32);
    filters.resize(filters.size() + in.filter_words);
    for (const TernaryRule<Words>* const rule : rules) {
        const uint32_t hash = function_.hash(key_of_value(rule->value), in.mask);
        filters[in.first_filter + Engine::filter_word(hash, in.filter_words)] |= Engine::filter_bits(hash);
    }
}

template <unsigned Words>
uint64_t TupleBuilder<Words>::bytes() const {
    return arrays_->classes.size() * sizeof(typename Engine::Class) +
           arrays_->slots.size() * (sizeof(typename Engine::Slot) + sizeof(uint32_t)) +
           (arrays_->filters.size() + arrays_->alike.size()) * 4;
}

template <unsigned Words>
void TupleBuilder<Words>::attach(Image& image, typename Engine::Tables& tables) const {
    attach_shared(image, tables.classes, arrays_, arrays_->classes);
    attach_shared(image, tables.slots, arrays_, arrays_->slots);
    attach_shared(image, tables.prints, arrays_, arrays_->prints);
    attach_shared(image, tables.filters, arrays_, arrays_->filters);
    attach_shared(image, tables.alike, arrays_, arrays_->alike);
    tables.function = function_;
}

template class TupleBuilder<4>;
template class TupleBuilder<9>;
template class TupleBuilder<10>;
template class TupleBuilder<15>;
template class TupleBuilder<28>;

}  // namespace millrace::nf::classify
