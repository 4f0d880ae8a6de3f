// `reassemble:` of a chain: how fragments of IP packets are put together.
#pragma once

#include <chrono>
#include <cstdint>
#include <optional>

#include "millrace/base/text/config.hpp"
#include "millrace/base/reporter.hpp"

namespace millrace::chain {

/// Limits of what a chain holds of packets whose fragments have not all come.
struct Reassembly {
    uint32_t max_packets = 1024;                      ///< at a time, of all workers together
    uint32_t max_per_source = 64;                     ///< of one source address
    std::chrono::nanoseconds timeout{2'000'000'000};  ///< from a packet's first fragment on

    friend bool operator==(const Reassembly&, const Reassembly&) = default;
};

/// Nothing for `false`. Throws ConfigError.
std::optional<Reassembly> read_reassembly(const Config& value);

struct Program;
/// Whether any network function of it needs whole packets (nf::WantsWholePackets).
bool needs_whole_packets(const Program& program);
/// Where none does, fragments pass as they are: tells so.
void leave_out_reassembly(Program& program, const Reporter& reporter);

}  // namespace millrace::chain
