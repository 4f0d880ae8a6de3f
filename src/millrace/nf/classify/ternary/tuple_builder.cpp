#include "millrace/nf/classify/ternary/tuple_builder.hpp"

#include <algorithm>
#include <cmath>
#include <map>
#include <set>
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
    std::map<std::array<uint32_t, Words>, std::vector<TernaryRule<Words>>> by_mask;
    std::vector<TernaryRule<Words>> parts;
    uint64_t count = 0;
    for (const TernaryRule<Words>& rule : rules) {
        parts.clear();
        expand_ranges(rule, parts);
        count += parts.size();
        if (count * sizeof(typename Engine::Slot) > limit_bytes)
            throw TablesTooLarge("the rules make more than " + std::to_string(count) +
                                 " tuples with their ranges as prefixes");
        for (const TernaryRule<Words>& part : parts) by_mask[mask_of(part)].push_back(part);
    }
    for (auto& [mask, all] : by_mask) {
        std::set<std::array<uint32_t, Words>> values;
        std::erase_if(all,
                      [&](const TernaryRule<Words>& rule) { return !values.insert(std::to_array(rule.value)).second; });
    }
    for (uint32_t function = 0; !add_all(by_mask, function);) ++function;
    std::stable_sort(classes_.begin(), classes_.end(), [](const auto& a, const auto& b) { return a.best < b.best; });
    if (bytes() > limit_bytes)
        throw TablesTooLarge("the tuple tables of these rules take " + std::to_string(bytes()) + " bytes");
}

/// Makes all tables with that function; false when it gives too many values of a class the same hash.
template <unsigned Words>
bool TupleBuilder<Words>::add_all(const Classes& classes, uint32_t function) {
    function_ = make_hash_function<Words>(function);
    classes_.clear();
    slots_.clear();
    prints_.clear();
    filters_.clear();
    for (const auto& [mask, all] : classes)
        for (size_t first = 0; first < all.size(); first += policy_.max_class)
            if (!add_class(mask,
                           std::span(all).subspan(first, std::min<size_t>(policy_.max_class, all.size() - first))))
                return false;
    return true;
}

template <unsigned Words>
bool TupleBuilder<Words>::add_class(const std::array<uint32_t, Words>& mask,
                                    std::span<const TernaryRule<Words>> rules) {
    typename Engine::Class in{};
    std::copy_n(mask.begin(), Words, in.mask);
    in.best = rules.front().position;
    for (const TernaryRule<Words>& rule : rules) in.best = std::min(in.best, rule.position);
    in.first_slot = static_cast<uint32_t>(slots_.size());
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
    slots_.insert(slots_.end(), slots.begin(), slots.end());
    for (const auto& slot : slots)
        prints_.push_back(slot.position == kNoRule ? 0 : function_.hash(key_of_value(slot.value), in.mask));
    if (with_filters_) add_filter(in, rules);
    classes_.push_back(in);
    return true;
}

template <unsigned Words>
bool TupleBuilder<Words>::fill(const typename Engine::Class& in, std::span<const TernaryRule<Words>> rules,
                               std::vector<typename Engine::Slot>& slots) {
    slots.assign(size_t{Engine::kSubtables} * in.subtable_slots, {{}, kNoRule});
    for (const TernaryRule<Words>& rule : rules) {
        typename Engine::Slot homeless{{}, rule.position};
        std::copy_n(rule.value, Words, homeless.value);
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
void TupleBuilder<Words>::add_filter(typename Engine::Class& in, std::span<const TernaryRule<Words>> rules) {
    in.first_filter = static_cast<uint32_t>(filters_.size());
    in.filter_words = static_cast<uint32_t>((rules.size() * policy_.filter_bits + 31) / 32);
    filters_.resize(filters_.size() + in.filter_words);
    for (const TernaryRule<Words>& rule : rules) {
        const uint32_t hash = function_.hash(key_of_value(rule.value), in.mask);
        filters_[in.first_filter + Engine::filter_word(hash, in.filter_words)] |= Engine::filter_bits(hash);
    }
}

template <unsigned Words>
uint64_t TupleBuilder<Words>::bytes() const {
    return classes_.size() * sizeof(typename Engine::Class) +
           slots_.size() * (sizeof(typename Engine::Slot) + sizeof(uint32_t)) + filters_.size() * 4;
}

template <unsigned Words>
void TupleBuilder<Words>::attach(Image& image, typename Engine::Tables& tables) {
    image.attach_some(tables.classes, std::move(classes_));
    image.attach_some(tables.slots, std::move(slots_));
    image.attach_some(tables.prints, std::move(prints_));
    image.attach_some(tables.filters, std::move(filters_));
    tables.function = function_;
}

template class TupleBuilder<4>;
template class TupleBuilder<9>;
template class TupleBuilder<10>;
template class TupleBuilder<15>;
template class TupleBuilder<28>;

}  // namespace millrace::nf::classify
