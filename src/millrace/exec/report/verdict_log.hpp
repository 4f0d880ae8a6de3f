// One JSON line for every packet: what each NF decided and why, and where the packet went.
#pragma once

#include <mutex>
#include <span>
#include <string>
#include <unordered_map>

#include "millrace/base/files/line_file.hpp"
#include "millrace/exec/engine.hpp"

namespace millrace::exec {

/// Writes lines like
///   {"packet":7,"port":"lan","length":98,"path":[{"chain":"gateway","nf":"firewall","outcome":"permit","by":"rule 3
///   (…)"}],
///    "end":"drop","by":"nids","reason":"block"}
/// `end` is one of sent, drop, punt; `to` names the port. What is punted without a port to go to is dropped. Any number
/// of workers.
class VerdictLog {
public:
    /// Throws std::runtime_error when the file can't be made.
    VerdictLog(const std::string& path, std::vector<std::string> ports, Reporter reporter = {});

    void write(const chain::Program& program, const rte_mbuf& mbuf, std::span<const Visit> visits,
               const Verdict& verdict);
    /// Writes out what is buffered. Throws std::runtime_error when verdicts could not be written, and says how many.
    void close();

private:
    std::vector<std::string> ports_;
    LineFile file_;
    std::mutex mutex_;
    // The lines of packets on their way from one chain to another, begun and not ended.
    std::unordered_map<const rte_mbuf*, std::string> begun_;
};

}  // namespace millrace::exec
