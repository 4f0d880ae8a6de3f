// A case: a folder with a chain, packets, and what is to become of each; see README.md.
#pragma once

#include <map>
#include <ostream>
#include <set>
#include <string>
#include <vector>

#include "lab/compared/master_worker.hpp"
#include "millrace/exec/report/report.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {

/// A way to run a configuration; all must give the same.
struct Variant {
    std::string name;
    std::string device = "cpu";
    bool cpu_halves = true;
    unsigned lanes = 0;  ///< 0: as each NF prefers
    device::Mode mode = device::Mode::fused;
    lab::Threading threading = lab::Threading::full_path;
    uint16_t burst = 256;  ///< packets asked of a port at once; a few packets give several batches when it is small
};
inline void PrintTo(const Variant& variant, std::ostream* out) { *out << variant.name; }
/// cpu with CPU halves and with device halves of 1, 8 and 32 lanes, every device in every mode, in one batch and in
/// several.
const std::vector<Variant>& variants();

/// What became of the packets of a case, as its own output files tell.
struct CaseRun {
    struct Packet {
        std::string end;                ///< "sent wan", "drop firewall.deny", "punt edge.ttl-expired"
        std::vector<std::string> path;  ///< "firewall.permit", …
        std::string chains;             ///< a name for each step
        std::string line;               ///< the whole verdict
    };
    struct Sent {
        std::set<std::string> ports;  ///< one, or all of several
        Frame frame;
    };
    std::map<uint64_t, Packet> packets;   ///< by number
    std::map<uint64_t, Sent> sent;        ///< by number; punted packets, too
    std::map<uint64_t, uint64_t> alerts;  ///< alerts by sid
    exec::Report report;
};

/// Runs the case in `folder` once: its files are copied to a folder of its own, in.yaml becomes in.pcap
/// there, and everything is read back from the files that the run wrote. Throws what loading and running throw.
CaseRun run_case(const std::string& folder, const Variant& variant);

/// Checks a run against the folder's expect.yaml. Failures are googletest's.
void check_case(const std::string& folder, const Variant& variant, const CaseRun& run);

}  // namespace millrace::test
