// Chains that the contract of the packet path is held against: every network function that is shipped.
#pragma once

#include <ostream>
#include <string>
#include <vector>

#include "support/packet_builder.hpp"

namespace millrace::test {

/// One configuration, without its ports `in`, `out` and `other`.
struct Chains {
    std::string name;
    std::string text;
    std::string source = "{replay: examples/traffic.pcap}";
    bool alerts = false;
    std::vector<Frame> (*frames)() = nullptr;  ///< that the source replays, in place of what it says
    std::string outcome = {};                  ///< that some packets must meet
};
void PrintTo(const Chains& chains, std::ostream* out);

std::vector<Chains> all_chains();

}  // namespace millrace::test
