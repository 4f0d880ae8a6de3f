#include "millrace/nf/nids/pattern/cpu/matcher.hpp"

#include <hs/hs.h>

#include <algorithm>
#include <stdexcept>

#include "millrace/nf/nids/pattern/cpu/engines.hpp"

namespace millrace::nf::nids::pattern {

namespace {

/// Up to here Hyperscan's literal matchers keep ahead of the automaton; measured, see README.md.
constexpr size_t kHyperscanBestWithVector = 150;
constexpr size_t kHyperscanBestWithoutVector = 500;

/// A rule and not a measurement at start: the same set is searched the same way on every start.
Engine choose(const PatternSet& set) {
    const bool vector = is_available(Engine::vector);
    const size_t limit = vector ? kHyperscanBestWithVector : kHyperscanBestWithoutVector;
    const bool long_ones = std::any_of(set.patterns().begin(), set.patterns().end(),
                                       [](const std::string& pattern) { return pattern.size() > kHyperscanLongest; });
    if (set.size() <= limit && !long_ones && is_available(Engine::hyperscan)) return Engine::hyperscan;
    return vector ? Engine::vector : Engine::scalar;
}

}  // namespace

bool is_available(Engine engine) {
    switch (engine) {
        case Engine::hyperscan: return hs_valid_platform() == HS_SUCCESS;
        case Engine::vector: return has_avx512();
        case Engine::automatic:
        case Engine::scalar: return true;
    }
    return false;
}

std::unique_ptr<Matcher> make_matcher(std::shared_ptr<const PatternSet> set, Engine engine) {
    switch (engine == Engine::automatic ? choose(*set) : engine) {
        case Engine::hyperscan: return make_hyperscan_matcher(std::move(set));
        case Engine::vector: return make_vector_matcher(std::move(set));
        default: return make_scalar_matcher(std::move(set));
    }
}

}  // namespace millrace::nf::nids::pattern
