// Golden packets: a table in YAML that says what becomes of which packet in a network function.
//
//     - name: swaps the MAC addresses
//       options: {…}              # the NF's options, a map or YAML text; files relative to this one
//       behind: {conntrack: {…}}  # another NF with its options, which packets meet before
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

#include <functional>
#include <string>
#include <vector>

#include "millrace/nftest/nf_runner.hpp"
#include "millrace/base/text/diagnostic.hpp"

namespace millrace::nftest {

/// What a case begins with in place of its options and no packets.
struct Filled {
    Config options;                   ///< whose places in files are not compared
    std::vector<Frame> packets = {};  ///< that the function gets before the case's, a second earlier
};

struct GoldenOptions {
    std::vector<Half> halves;                                ///< that every case runs on
    OpenDevice open;                                         ///< for those with a device
    std::string output_folder;                               ///< for files that the NF writes
    std::function<Filled(const Config& options)> fill = {};  ///< puts more into a case's tables; null: nothing
    size_t every = 1;                                        ///< runs every so many-th case, from the first one on
    bool checked = false;  ///< look for what the device half does and does not declare, too; see declared.hpp
};

/// What came of a table.
struct GoldenReport {
    size_t cases = 0, failed = 0;      ///< rows of the table that have run
    std::vector<Diagnostic> failures;  ///< each at the line that it breaks
};

/// Runs every case of a table in every half, on a new instance of the NF each if it has state. Throws ConfigError
/// when the file is no table; a mistake within a case is a failure of that case.
GoldenReport run_golden(const nf::Type& type, const std::string& path, const GoldenOptions& options);

}  // namespace millrace::nftest
