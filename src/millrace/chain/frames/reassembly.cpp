#include "millrace/chain/frames/reassembly.hpp"

#include <algorithm>

#include "millrace/chain/program.hpp"
#include "millrace/nf/whole_packets.hpp"

namespace millrace::chain {

std::optional<Reassembly> read_reassembly(const Config& value) {
    // Each packet has room for the longest: 64 KiB.
    constexpr int64_t kMax = 1 << 16;
    if (value.is_scalar()) return value.boolean() ? std::optional(Reassembly{}) : std::nullopt;
    value.only({"max-packets", "max-per-source", "timeout"});
    Reassembly result;
    result.max_packets = static_cast<uint32_t>(value.integer_or("max-packets", result.max_packets, 1, kMax));
    const uint32_t per_source = std::min(result.max_per_source, result.max_packets);
    result.max_per_source = static_cast<uint32_t>(value.integer_or("max-per-source", per_source, 1, kMax));
    if (result.max_per_source > result.max_packets)
        value.at("max-per-source")
            .fail("one source may have more packets than there are of all", "make 'max-packets' as large");
    if (const auto timeout = value.find("timeout")) {
        result.timeout = timeout->duration();
        if (result.timeout <= std::chrono::nanoseconds(0) || result.timeout > std::chrono::minutes(5))
            timeout->fail("fragments wait for at least 1ns and at most 300s", "RFC 8200 says 60s, Linux takes 30s");
    }
    return result;
}

bool needs_whole_packets(const Program& program) {
    return std::ranges::any_of(program.nodes, [](const Node& node) {
        const auto* const wants = dynamic_cast<const nf::WantsWholePackets*>(node.nf.get());
        return wants != nullptr && wants->needs_whole_packets();
    });
}

void leave_out_reassembly(Program& program, const Reporter& reporter) {
    if (!program.reassembly || needs_whole_packets(program)) return;
    program.reassembly.reset();
    reporter({program.where,
              "no network function of chain '" + program.name + "' needs whole packets: fragments pass as they are",
              "leave out 'reassemble:'", Diagnostic::Severity::warning});
}

}  // namespace millrace::chain
