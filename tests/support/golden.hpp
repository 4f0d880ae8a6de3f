// Golden packets: a table in YAML beside each NF that says what becomes of which packet.
//
//     - name: swaps the MAC addresses
//       options: {…}              # the NF's options, a map or YAML text; files relative to this one
//       ports: [wan, lan]         # port names by number; port0 to port3 unless given
//       packet: {…}               # see packet_builder.hpp
//       in-port: wan              # the first unless given
//       expect:
//         outcome: forward        # or `refused`: the parser drops it before any NF
//         packet: {…}             # the frame afterwards; or `unchanged: true`; or neither
//         detail: 3               # optional, as are all below
//         explain: "10.0.0.0/8 via edge-1"
//         out-port: lan           # `none`: the NF chose none
//         events: [17, 18]        # the codes of the events it emitted
//
// An NF with state may give `steps:`, a list of {packet, in-port, expect}, in place of the three.
#pragma once

#include <string>

namespace millrace::test {

/// Runs `src/millrace/nf/<folder>/golden.yaml` (the folder is named as the type unless given): every
/// entry with the device half of 1, 8 and 32 lanes and with the CPU half, on a new instance of the NF
/// each if it has state. Failures are googletest's and name the entry and the engine.
void run_golden(const std::string& type, const std::string& folder = {});
/// The same for any file.
void run_golden_file(const std::string& type, const std::string& path);

}  // namespace millrace::test
