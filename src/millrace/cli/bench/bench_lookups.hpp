// The measurements of `millrace bench rules --figures`.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::cli {

struct LookupArguments {
    std::vector<std::string> figures;  ///< of kLookupFigures
    std::string device = "cuda", data, json_file;
    double seconds = 0.05;
    unsigned headers = 1 << 22;  ///< different places for them in memory
    double acl_seconds = 60;
    std::vector<unsigned> lanes{1};
    std::vector<std::string> engines;  ///< only these; empty: all
    std::string sets;                  ///< only sets with this in their name
    uint32_t most_rules = 1 << 18;     ///< larger sets are left out
};

/// What there is to measure: the figures, the paper's, and rte_acl beside them.
inline constexpr const char* kLookupFigures[] = {"targets", "5", "6", "7", "8", "9", "10", "changes"};

int bench_lookups(const LookupArguments& arguments);

}  // namespace millrace::cli
