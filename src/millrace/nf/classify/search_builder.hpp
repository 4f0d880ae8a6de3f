// Builds the tables of Search for one engine; measures lookups for those who compare engines.
#pragma once

#include <time.h>

#include <algorithm>
#include <memory>
#include <optional>
#include <string>
#include <variant>

#include "millrace/nf/classify/engine_choice.hpp"
#include "millrace/nf/classify/ternary/merged_builder.hpp"
#include "millrace/nf/classify/search.hpp"
#include "millrace/nf/classify/ternary/tuple_builder.hpp"

namespace millrace::nf::classify {

template <unsigned Words>
class SearchBuilder {
public:
    /// For `rules` in order of position, by any engine but the bit vectors. Throws TablesTooLarge beyond `limit_bytes`.
    SearchBuilder(std::vector<TernaryRule<Words>> rules, Engine engine, uint64_t limit_bytes);
    /// With merged tables that have been built already.
    explicit SearchBuilder(MergedBuilder<Words> merged) : engine_(Engine::merged), builder_(std::move(merged)) {}
    /// By the engine of `choice`, or while that takes more than `limit_bytes` by the next best, which it then names.
    static SearchBuilder chosen(const std::vector<TernaryRule<Words>>& rules, uint64_t limit_bytes, Searcher searcher,
                                EngineChoice& choice);

    /// Has `image`, of whose Tables `tables` is a part, share the arrays. Several images may.
    void attach(Image& image, typename Search<Words>::Tables& tables) const;
    uint64_t bytes() const;

private:
    using Rules = std::vector<TernaryRule<Words>>;
    Engine engine_;
    std::variant<std::shared_ptr<const Rules>, TupleBuilder<Words>, MergedBuilder<Words>> builder_;
};

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

}  // namespace millrace::nf::classify
