// Builds the tables of Search for one engine, and measures engines on the rules at hand.
#pragma once

#include <time.h>

#include <algorithm>
#include <optional>
#include <string>
#include <variant>

#include "millrace/nf/classify/merged_builder.hpp"
#include "millrace/nf/classify/search.hpp"
#include "millrace/nf/classify/tuple_builder.hpp"

namespace millrace::nf::classify {

/// By Engine, as configurations write them.
inline constexpr const char* kEngineNames[] = {"linear", "tuple", "bloom", "bit-vectors", "merged"};

template <unsigned Words>
class SearchBuilder {
public:
    /// For `rules` in order of position, by any engine but the bit vectors. Throws TablesTooLarge beyond `limit_bytes`.
    SearchBuilder(std::vector<TernaryRule<Words>> rules, Engine engine, uint64_t limit_bytes);

    /// Hands the arrays over to `image`; `tables` is a part of its Tables. Call it once.
    void attach(Image& image, typename Search<Words>::Tables& tables);
    uint64_t bytes() const;

private:
    using Rules = std::vector<TernaryRule<Words>>;
    Engine engine_;
    std::variant<Rules, TupleBuilder<Words>, MergedBuilder<Words>> builder_;
};

/// Keys to measure with: of four, two match some rule, one is beside a rule in one field, one is any. Always the same
/// for the same rules.
template <unsigned Words>
std::vector<TernaryKey<Words>> sample_keys(std::span<const TernaryRule<Words>> rules, size_t count);

/// How an engine did on the rules that were loaded.
struct Trial {
    Engine engine = Engine::linear;
    double lookups_per_second = 0;
    uint64_t bytes = 0;
    std::string refusal;  ///< why it was not tried, or could not be
};

/// The engine that searches some rules, and how it came to be chosen.
struct EngineChoice {
    Engine engine = Engine::linear;
    std::vector<Trial> trials;  ///< empty where a person chose
    /// `merged (12.1 million lookups a second on one core; bit-vectors 8.3, tuple 2.2; linear not tried: …)`
    std::string text() const;
    /// Makes the fastest of the trials, of which there are some, the engine.
    void take_fastest();
};

/// Lookups beyond this many rules are not tried with the linear search: it cannot be the fastest.
inline constexpr size_t kMaxLinearTrial = 2048;
inline constexpr size_t kTrialKeys = 8192;

/// Lookups a second of `find`, a function of a key, on one core: once through the keys, or for some milliseconds of the
/// thread's own time, so that other work on the core does not count. `keys` is not empty.
template <class Keys, class Find>
double measure_lookups(const Keys& keys, Find find) {
    constexpr size_t kRound = 256;
    constexpr double kLongSeconds = 3e-3;
    const auto now = [] {
        timespec time{};
        clock_gettime(CLOCK_THREAD_CPUTIME_ID, &time);
        return static_cast<double>(time.tv_sec) + static_cast<double>(time.tv_nsec) * 1e-9;
    };
    uint32_t sum = 0;
    for (size_t i = 0; i < std::min(kRound, keys.size()); ++i) sum += find(keys[i]);  // the tables come into the cache
    const double begin = now();
    double seconds = 0;
    size_t done = 0;
    while (done < keys.size() && seconds < kLongSeconds) {
        for (const size_t last = std::min(done + kRound, keys.size()); done < last; ++done) sum += find(keys[done]);
        seconds = now() - begin;
    }
    [[maybe_unused]] volatile uint32_t keep = sum;  // so that the lookups are not left out
    return static_cast<double>(done) / std::max(1e-9, seconds);
}

/// Builds and measures every engine but the bit vectors for `rules`, in order of position, and names the fastest: `linear`, and no
/// trials, without rules. Throws TablesTooLarge when all take more than `limit_bytes`.
template <unsigned Words>
EngineChoice choose_engine(const std::vector<TernaryRule<Words>>& rules, uint64_t limit_bytes);

}  // namespace millrace::nf::classify
