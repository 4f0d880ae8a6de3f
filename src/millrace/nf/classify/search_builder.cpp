#include "millrace/nf/classify/search_builder.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <random>

#include "millrace/nf/classify/vector_store.hpp"
#include "millrace/packet/lanes.hpp"

namespace millrace::nf::classify {

template <unsigned Words>
SearchBuilder<Words>::SearchBuilder(std::vector<TernaryRule<Words>> rules, Engine engine, uint64_t limit_bytes) : engine_(engine) {
    if (engine == Engine::merged) {
        builder_.template emplace<MergedBuilder<Words>>(rules, limit_bytes);
    } else if (engine == Engine::linear) {
        builder_.template emplace<Rules>(std::move(rules));
        if (bytes() > limit_bytes) throw TablesTooLarge("these rules take " + std::to_string(bytes()) + " bytes");
    } else {
        builder_.template emplace<TupleBuilder<Words>>(rules, engine == Engine::bloom, limit_bytes);
    }
}

template <unsigned Words>
void SearchBuilder<Words>::attach(Image& image, typename Search<Words>::Tables& tables) {
    tables.engine = engine_;
    if (auto* rules = std::get_if<Rules>(&builder_)) image.attach_some(tables.linear.rules, std::move(*rules));
    if (auto* tuple = std::get_if<TupleBuilder<Words>>(&builder_)) tuple->attach(image, tables.tuple);
    if (auto* merged = std::get_if<MergedBuilder<Words>>(&builder_)) merged->attach(image, tables.merged);
}

template <unsigned Words>
uint64_t SearchBuilder<Words>::bytes() const {
    if (const auto* rules = std::get_if<Rules>(&builder_)) return rules->size() * sizeof(TernaryRule<Words>);
    if (const auto* tuple = std::get_if<TupleBuilder<Words>>(&builder_)) return tuple->bytes();
    return std::get<MergedBuilder<Words>>(builder_).bytes();
}

template <unsigned Words>
std::vector<TernaryKey<Words>> sample_keys(std::span<const TernaryRule<Words>> rules, size_t count) {
    std::mt19937_64 random(1);
    std::vector<TernaryKey<Words>> keys(count);
    for (size_t i = 0; i < count; ++i) {
        TernaryKey<Words>& key = keys[i];
        for (uint32_t& word : key.words) word = static_cast<uint32_t>(random());
        // Most packets have ports, and the rest of that word is empty.
        key.words[Words - 1] = (key.words[Words - 1] & 0xff000000u) | HeaderKey::kPorts;
        if (rules.empty() || i % 4 == 3) continue;
        const TernaryRule<Words>& rule = rules[random() % rules.size()];
        for (unsigned k = 0; k < Words; ++k) key.words[k] = (key.words[k] & ~rule.mask[k]) | rule.value[k];
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

void EngineChoice::take_fastest() {
    engine = std::max_element(trials.begin(), trials.end(), [](const Trial& a, const Trial& b) {
                 return a.lookups_per_second < b.lookups_per_second;
             })->engine;
}

std::string EngineChoice::text() const {
    const std::string name = kEngineNames[static_cast<size_t>(engine)];
    std::string best, others, untried;
    std::vector<Trial> sorted = trials;
    std::stable_sort(sorted.begin(), sorted.end(), [](const Trial& a, const Trial& b) { return a.lookups_per_second > b.lookups_per_second; });
    for (const Trial& trial : sorted) {
        const char* const its_name = kEngineNames[static_cast<size_t>(trial.engine)];
        if (!trial.refusal.empty()) {
            untried += fmt::format("; {}: {}", its_name, trial.refusal);
        } else if (trial.engine == engine) {
            best = fmt::format(" ({:.1f} million lookups a second on one core", trial.lookups_per_second / 1e6);
        } else {
            others += fmt::format("{} {} {:.1f}", others.empty() ? ";" : ",", its_name, trial.lookups_per_second / 1e6);
        }
    }
    return best.empty() ? name : name + best + others + untried + ")";
}

template <unsigned Words>
EngineChoice choose_engine(const std::vector<TernaryRule<Words>>& rules, uint64_t limit_bytes) {
    EngineChoice choice;
    if (rules.empty()) return choice;
    const auto keys = sample_keys<Words>(rules, kTrialKeys);
    for (const Engine engine : {Engine::linear, Engine::tuple, Engine::bloom, Engine::merged}) {
        Trial trial{engine, 0, 0, {}};
        if (engine == Engine::linear && rules.size() > kMaxLinearTrial) {
            trial.refusal = "not tried with more than " + std::to_string(kMaxLinearTrial) + " rules";
        } else {
            try {
                SearchBuilder<Words> builder(rules, engine, limit_bytes);
                trial.bytes = builder.bytes();
                Image image;
                auto& tables = image.start<typename Search<Words>::Tables>();
                builder.attach(image, tables);
                trial.lookups_per_second = measure_lookups(keys, [&](const TernaryKey<Words>& key) { return Search<Words>::find(tables, key, Lanes<1>{}); });
            } catch (const TablesTooLarge& error) {
                trial.refusal = error.what();
            }
        }
        choice.trials.push_back(std::move(trial));
    }
    choice.take_fastest();
    return choice;
}

template EngineChoice choose_engine(const std::vector<TernaryRule<9>>&, uint64_t);
template EngineChoice choose_engine(const std::vector<TernaryRule<15>>&, uint64_t);
template class SearchBuilder<4>;
template class SearchBuilder<9>;
template class SearchBuilder<10>;
template class SearchBuilder<15>;
template std::vector<TernaryKey<4>> sample_keys(std::span<const TernaryRule<4>>, size_t);
template std::vector<TernaryKey<9>> sample_keys(std::span<const TernaryRule<9>>, size_t);
template std::vector<TernaryKey<10>> sample_keys(std::span<const TernaryRule<10>>, size_t);
template std::vector<TernaryKey<15>> sample_keys(std::span<const TernaryRule<15>>, size_t);

}  // namespace millrace::nf::classify
