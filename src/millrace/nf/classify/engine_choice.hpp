// Which engine searches some rules: the one that is expected to take least. Nothing is timed: sample keys are looked up
// in the merged tables, and what every engine would meet on the way to the same answers is counted. So the same rules
// get the same engine on each load, whatever else the machine does, and rules that a GPU searches get one that is good
// there.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "millrace/nf/classify/search.hpp"
#include "millrace/nf/classify/ternary/merged_builder.hpp"

namespace millrace::nf::classify {

/// By Engine, as configurations write them.
inline constexpr const char* kEngineNames[] = {"linear", "tuple", "bloom", "bit-vectors", "merged"};

/// Who looks headers up: a CPU's core, one after the other, or a GPU, 32 at the pace of the slowest.
enum class Searcher : uint8_t { core, gpu };

/// What a lookup meets: on average for a core, of the slowest of 32 for a GPU.
struct LookupCounts {
    double rules = 0;     ///< by linear search
    double chunks = 0;    ///< of bit vectors, 1,024 rules each
    double classes = 0;   ///< by tuple and Bloom search
    double tables = 0;    ///< merged ones,
    double slots = 0;     ///< their slots
    double compared = 0;  ///< and rules that are compared in full
    uint64_t merged_bytes = 0, tuple_bytes = 0;
};

/// Nanoseconds that a lookup takes by these counts, of a core, or of a whole GPU that has many under way. The constants
/// are fitted to records of both (docs/benchmarks/classification.md).
double estimated_ns(Engine engine, Searcher searcher, unsigned words, const LookupCounts& counts);

/// What an engine is expected to take for the rules that were loaded.
struct Estimate {
    Engine engine = Engine::linear;
    double nanoseconds = 0;  ///< of a lookup
    std::string refusal;     ///< why it can't be had
};

/// The engine that searches some rules, and how it came to be chosen.
struct EngineChoice {
    Engine engine = Engine::linear;
    Searcher searcher = Searcher::core;
    std::vector<Estimate> estimates;  ///< empty where a person chose
    /// `merged (by counts, 94 ns a lookup on a core; bit-vectors 152, bloom 1,323, …)`
    std::string text() const;
    /// Makes the engine the cheapest of the estimates that was not refused. False when there is none.
    bool take_cheapest();
    /// Notes that the engine can't be had.
    void refuse(const std::string& why);
};

/// Keys to count with: of four, two match some rule, one is beside a rule in one field, one is any. Always the same
/// for the same rules.
template <unsigned Words>
std::vector<TernaryKey<Words>> sample_keys(std::span<const TernaryRule<Words>> rules, size_t count);

/// Counts what engines meet on the way of `keys` through `rules`, in order of position. `merged` are the tables of
/// these rules.
template <unsigned Words>
LookupCounts count_lookups(const std::vector<TernaryRule<Words>>& rules, const MergedBuilder<Words>& merged,
                           std::span<const TernaryKey<Words>> keys, Searcher searcher);

/// Estimates every engine for `rules`, in order of position (bit vectors where Words are of 5-tuples), and names the
/// cheapest: `linear`, and no estimates, without rules. `merged` gets the merged tables, if they take no more than
/// `limit_bytes`.
template <unsigned Words>
EngineChoice choose_engine(const std::vector<TernaryRule<Words>>& rules, uint64_t limit_bytes, Searcher searcher,
                           std::optional<MergedBuilder<Words>>& merged);

}  // namespace millrace::nf::classify
