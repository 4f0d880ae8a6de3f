#include "millrace/nf/classify/engine_choice.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <map>
#include <random>

#include "millrace/nf/classify/bit_vector/bit_vectors.hpp"
#include "millrace/nf/classify/bit_vector/vector_store.hpp"
#include "millrace/nf/classify/ternary/ternary_rules.hpp"
#include "millrace/packet/lanes.hpp"

namespace millrace::nf::classify {
namespace {

constexpr size_t kSampleKeys = 1024;
constexpr size_t kWarp = 32;
constexpr uint32_t kMaxClasses = 4096;  ///< that are told apart: tuple search among more is out of the question

bool has_bit_vectors(unsigned words) { return words == 4 || words == 10; }

/// The classes of tuple search, without their tables: the best position of each, ascending; and rules once ranges are
/// prefixes.
struct Classes {
    std::vector<uint32_t> best;
    uint64_t rules = 0;
};

template <unsigned Words>
Classes classes_of(const std::vector<TernaryRule<Words>>& rules) {
    using Rule = TernaryRule<Words>;
    using Mask = std::array<uint32_t, Words>;
    struct Parts {
        std::vector<uint32_t> port_masks;  // different ones
        size_t rules = 0;
    };
    std::map<std::pair<uint32_t, uint32_t>, Parts> parts_of;  // of two ranges
    std::map<Mask, uint32_t> best;
    Classes classes;
    std::vector<Rule> expanded;
    for (const Rule& rule : rules) {
        Parts& parts = parts_of[{rule.ports_low, rule.ports_high}];
        if (parts.rules == 0) {
            Rule ranges;
            ranges.ports_low = rule.ports_low;
            ranges.ports_high = rule.ports_high;
            expanded.clear();
            expand_ranges(ranges, expanded);
            parts.rules = expanded.size();
            for (const Rule& part : expanded) parts.port_masks.push_back(part.mask[Rule::kPorts]);
            std::sort(parts.port_masks.begin(), parts.port_masks.end());
            parts.port_masks.erase(std::unique(parts.port_masks.begin(), parts.port_masks.end()),
                                   parts.port_masks.end());
        }
        classes.rules += parts.rules;
        Mask mask = mask_of(rule);
        const uint32_t own = mask[Rule::kPorts];
        for (const uint32_t ports : parts.port_masks) {
            mask[Rule::kPorts] = own | ports;
            if (best.size() < kMaxClasses) best.try_emplace(mask, rule.position);  // the first has the lowest
        }
    }
    for (const auto& [mask, position] : best) classes.best.push_back(position);
    std::sort(classes.best.begin(), classes.best.end());
    return classes;
}

/// A step of concurrent lookups: the largest of what each takes counts, or with one lookup at a time its own.
class Step {
public:
    void add(double value) {
        most_ = std::max(most_, value);
        ++count_;
    }
    /// What it comes to, of one lookup.
    double share(size_t lookups, size_t together) const {
        return count_ == 0 ? 0 : most_ / (static_cast<double>(lookups) / static_cast<double>(together));
    }

private:
    double most_ = 0;
    size_t count_ = 0;
};

}  // namespace

double estimated_ns(Engine engine, Searcher searcher, unsigned words, const LookupCounts& counts) {
    const bool wide = words > 4;
    if (searcher == Searcher::gpu) {
        const double few = 0.015 + 0.0075 * counts.classes;
        switch (engine) {
            case Engine::linear: return (wide ? 2.5e-3 : 1.5e-3) * counts.rules;
            case Engine::tuple: return std::min(few, 0.030 + (wide ? 5.2e-3 : 3.6e-3) * counts.classes);
            case Engine::bloom: return std::min(few, 0.050 + (wide ? 3.85e-3 : 2.5e-3) * counts.classes);
            case Engine::bit_vectors: return 0.025 + 0.008 * counts.chunks;
            case Engine::merged:
                return (wide ? 0.020 : 0.010) + 2.2e-3 * counts.slots + (wide ? 4e-3 : 0.9e-3) * counts.compared;
        }
    }
    // What does not fit into a core's own cache comes from farther away.
    constexpr uint64_t kNear = 2 << 20;
    const double far_class = counts.tuple_bytes > kNear ? 60 : 0, far_slot = counts.merged_bytes > kNear ? 20 : 0;
    switch (engine) {
        case Engine::linear: return 10 + 0.27 * words * counts.rules;
        case Engine::tuple: return 10 + ((wide ? 11 : 9) + far_class) * counts.classes;
        case Engine::bloom: return 12 + (wide ? 7.0 : 5.8) * counts.classes + far_class;
        case Engine::bit_vectors: return 50 + 14 * counts.chunks;
        case Engine::merged:
            return 10 + (wide ? 20 : 10) * counts.tables + (5 + far_slot) * counts.slots + 1.5 * counts.compared;
    }
    return 0;
}

bool EngineChoice::take_cheapest() {
    const Estimate* best = nullptr;
    for (const Estimate& estimate : estimates)
        if (estimate.refusal.empty() && (best == nullptr || estimate.nanoseconds < best->nanoseconds)) best = &estimate;
    if (best != nullptr) engine = best->engine;
    return best != nullptr;
}

void EngineChoice::refuse(const std::string& why) {
    for (Estimate& estimate : estimates)
        if (estimate.engine == engine) estimate.refusal = why;
}

std::string EngineChoice::text() const {
    const std::string name = kEngineNames[static_cast<size_t>(engine)];
    std::vector<Estimate> sorted = estimates;
    std::stable_sort(sorted.begin(), sorted.end(),
                     [](const Estimate& a, const Estimate& b) { return a.nanoseconds < b.nanoseconds; });
    const bool core = searcher == Searcher::core;
    const auto time = [&](double nanoseconds) {
        return core ? fmt::format("{:.0f}", nanoseconds) : fmt::format("{:.3f}", nanoseconds);
    };
    std::string own, others, refused;
    for (const Estimate& estimate : sorted) {
        const char* const its_name = kEngineNames[static_cast<size_t>(estimate.engine)];
        if (!estimate.refusal.empty()) refused += fmt::format("; not {}: {}", its_name, estimate.refusal);
        else if (estimate.engine == engine)
            own = fmt::format(" (by counts, {} ns a lookup on a {}", time(estimate.nanoseconds), core ? "core" : "GPU");
        else others += fmt::format("{} {} {}", others.empty() ? ";" : ",", its_name, time(estimate.nanoseconds));
    }
    return own.empty() ? name : name + own + others + refused + ")";
}

namespace {
/// Gives the key of a 5-tuple one of the connections that a rule with that mask takes; `any` picks it.
template <unsigned Words>
void set_connection(TernaryKey<Words>& key, uint32_t any, uint32_t mask) {
    if constexpr (Words == 4 || Words == 10) {
        for (unsigned i = 0; i < kConnections; ++i) {
            const uint32_t bit = connection_bit(static_cast<Connection>((any + i) % kConnections));
            if ((mask & bit) != 0) continue;
            key.words[Words - 1] = (key.words[Words - 1] & ~0xff00u) | bit;
            return;
        }
    }
}
}  // namespace

template <unsigned Words>
std::vector<TernaryKey<Words>> sample_keys(std::span<const TernaryRule<Words>> rules, size_t count) {
    std::mt19937_64 random(1);
    std::vector<TernaryKey<Words>> keys(count);
    for (size_t i = 0; i < count; ++i) {
        TernaryKey<Words>& key = keys[i];
        for (uint32_t& word : key.words) word = static_cast<uint32_t>(random());
        // Most packets have ports, and the rest of that word is empty.
        const uint32_t any = key.words[Words - 1] >> 8 & 0xff;
        key.words[Words - 1] = (key.words[Words - 1] & 0xff000000u) | HeaderKey::kPorts;
        set_connection(key, any, 0);
        if (rules.empty() || i % 4 == 3) continue;
        const TernaryRule<Words>& rule = rules[random() % rules.size()];
        for (unsigned k = 0; k < Words; ++k) key.words[k] = (key.words[k] & ~rule.mask[k]) | rule.value[k];
        set_connection(key, any, rule.mask[Words - 1]);
        if (i % 4 == 2) {
            key.words[random() % (Words - 1)] ^= 1u << (random() % 32);
            continue;
        }
        uint32_t& ports = key.words[Words - 2];
        for (const unsigned shift : {0u, 16u}) {
            const uint32_t low = rule.ports_low >> shift & 0xffffu, high = rule.ports_high >> shift & 0xffffu;
            if (low == 0 && high == 0xffff) continue;
            ports = (ports & ~(0xffffu << shift)) | static_cast<uint32_t>(low + random() % (high - low + 1)) << shift;
        }
    }
    return keys;
}

template <unsigned Words>
LookupCounts count_lookups(const std::vector<TernaryRule<Words>>& rules, const MergedBuilder<Words>& merged,
                           std::span<const TernaryKey<Words>> keys, Searcher searcher) {
    const size_t together = searcher == Searcher::gpu ? kWarp : 1;
    const Classes classes = classes_of(rules);
    LookupCounts counts;
    counts.merged_bytes = merged.bytes();
    counts.tuple_bytes = classes.rules * (Words + 2) * sizeof(uint32_t);
    const size_t all_chunks = (rules.size() + BitVectors::kChunkBits - 1) / BitVectors::kChunkBits;
    for (size_t first = 0; first < keys.size(); first += together) {
        const std::span<const TernaryKey<Words>> group = keys.subspan(first, std::min(together, keys.size() - first));
        Step linear, chunks, tuple;
        std::vector<uint32_t> best(group.size(), kNoRule);
        for (size_t t = 0; t < merged.tables(); ++t) {
            Step tables, slots, compared;
            for (size_t i = 0; i < group.size(); ++i) {
                const auto seen = merged.look_into(t, group[i], best[i]);
                if (!seen.looked) continue;
                tables.add(1);
                slots.add(seen.slots);
                compared.add(seen.compared);
            }
            counts.tables += tables.share(keys.size(), together);
            counts.slots += slots.share(keys.size(), together);
            counts.compared += compared.share(keys.size(), together);
        }
        for (const uint32_t position : best) {
            const size_t walked = position == kNoRule ? rules.size()
                                                      : std::min<size_t>((position / 8 + 1) * size_t{8}, rules.size());
            const auto asked = static_cast<size_t>(
                std::lower_bound(classes.best.begin(), classes.best.end(), position) - classes.best.begin());
            linear.add(static_cast<double>(walked));
            chunks.add(static_cast<double>(position == kNoRule ? all_chunks : position / BitVectors::kChunkBits + 1));
            tuple.add(static_cast<double>(std::max<size_t>(asked, 1)));
        }
        counts.rules += linear.share(keys.size(), together);
        counts.chunks += chunks.share(keys.size(), together);
        counts.classes += tuple.share(keys.size(), together);
    }
    return counts;
}

template <unsigned Words>
EngineChoice choose_engine(const std::vector<TernaryRule<Words>>& rules, uint64_t limit_bytes, Searcher searcher,
                           std::optional<MergedBuilder<Words>>& merged) {
    EngineChoice choice;
    choice.searcher = searcher;
    if (rules.empty()) return choice;
    std::string refusal;
    try {
        merged.emplace(rules, limit_bytes);
    } catch (const TablesTooLarge& error) {
        refusal = error.what();
    }
    LookupCounts counts;
    if (merged) {
        counts = count_lookups<Words>(rules, *merged, sample_keys<Words>(rules, kSampleKeys), searcher);
    } else {
        counts.rules = static_cast<double>(rules.size());
        counts.chunks = counts.rules / BitVectors::kChunkBits;
        counts.classes = static_cast<double>(classes_of(rules).best.size());
    }
    for (const Engine engine : {Engine::linear, Engine::tuple, Engine::bloom, Engine::bit_vectors, Engine::merged})
        if (engine != Engine::bit_vectors || has_bit_vectors(Words))
            choice.estimates.push_back({engine, estimated_ns(engine, searcher, Words, counts), {}});
    choice.estimates.back().refusal = refusal;
    choice.take_cheapest();
    return choice;
}

// NOLINTBEGIN(bugprone-macro-parentheses): template arguments
#define MILLRACE_KEYS_OF(Words)                                                                              \
    template std::vector<TernaryKey<Words>> sample_keys(std::span<const TernaryRule<Words>>, size_t);        \
    template LookupCounts count_lookups(const std::vector<TernaryRule<Words>>&, const MergedBuilder<Words>&, \
                                        std::span<const TernaryKey<Words>>, Searcher);                       \
    template EngineChoice choose_engine(const std::vector<TernaryRule<Words>>&, uint64_t, Searcher,          \
                                        std::optional<MergedBuilder<Words>>&);
MILLRACE_KEYS_OF(4)
MILLRACE_KEYS_OF(9)
MILLRACE_KEYS_OF(10)
MILLRACE_KEYS_OF(15)
MILLRACE_KEYS_OF(28)
#undef MILLRACE_KEYS_OF
// NOLINTEND(bugprone-macro-parentheses)

}  // namespace millrace::nf::classify
