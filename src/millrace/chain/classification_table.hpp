// The lines of the classification table, searched by the engines that search rules and flows.
#pragma once

#include <vector>

#include "millrace/chain/classification.hpp"
#include "millrace/nf/image.hpp"

namespace millrace::chain {

/// Finds the first line of many that a packet matches, in about the time that a firewall takes for as many rules. The
/// engine is chosen by counts (nf/classify/engine_choice.hpp): nothing is timed. Any number of threads may search.
class ClassificationTable {
public:
    explicit ClassificationTable(const std::vector<ClassificationRule>& rules);
    /// The index of that line for a parsed packet; classify::kNoRule where there is none.
    uint32_t find(const Packet& packet) const;

private:
    struct Tables;
    nf::Image image_;
};

}  // namespace millrace::chain
