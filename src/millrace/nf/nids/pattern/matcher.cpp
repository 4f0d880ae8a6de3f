#include "millrace/nf/nids/pattern/matcher.hpp"

#include <hs/hs.h>

#include <stdexcept>

#include "millrace/nf/nids/pattern/engines.hpp"

namespace millrace::nf::nids::pattern {

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
    switch (engine) {
        case Engine::hyperscan: return make_hyperscan_matcher(std::move(set));
        case Engine::vector: return make_vector_matcher(std::move(set));
        case Engine::scalar: return make_scalar_matcher(std::move(set));
        case Engine::automatic: break;
    }
    if (is_available(Engine::vector)) return make_vector_matcher(std::move(set));
    return make_scalar_matcher(std::move(set));
}

}  // namespace millrace::nf::nids::pattern
