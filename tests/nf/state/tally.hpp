// The host half of the tests' function with state per key, packets for it, and what must become of them.
#pragma once

#include <map>
#include <memory>
#include <string>
#include <vector>

#include "nf/state/device.hpp"
#include "millrace/nf/state/keyed_table.hpp"
#include "support/engine_runner.hpp"

namespace millrace::test {

class TallyHost : public nf::KeyedFunction<Tally> {
public:
    TallyHost(const Config& options, const nf::Environment& environment);

    uint64_t statistic(const std::string& name) const;
    /// Packets counted in all entries, and how many entries there are.
    uint64_t packets() const;
    uint64_t entries() const { return table().entries(); }
    /// By key: what a device has written down.
    std::map<uint32_t, uint32_t> written() const;
    /// By key: Seen::last of the entries that the CPU has.
    std::map<uint32_t, uint32_t> kept() const;
};

/// A chain of it with these options; `before` and `behind` are YAML of other functions: "firewall: {…}, ".
chain::Configuration tally_chain(const std::string& options, const std::string& device, const std::string& before = {},
                                 const std::string& behind = {}, const chain::Configuration* previous = nullptr);
/// The function of that chain.
TallyHost& tally_of(const chain::Configuration& configuration);

/// A packet of source `key`: its number is its source port, `port` its destination's.
Frame keyed_frame(uint32_t key, size_t number, uint16_t port = 80);

/// The same function by a map, without a limit. Packets come every microsecond, as those of a run.
class TallyModel {
public:
    explicit TallyModel(uint64_t timeout_ns) : timeout_ns_(timeout_ns) {}
    /// The decision on the next packet.
    Decision next(uint32_t key, uint16_t port = 80);
    size_t entries() const { return entries_.size(); }
    /// As TallyHost::kept.
    std::map<uint32_t, uint32_t> kept() const;

private:
    struct Entry {
        uint32_t last, packets;
        uint64_t deadline;
    };
    const uint64_t timeout_ns_;
    std::map<uint32_t, Entry> entries_;
    uint64_t number_ = 0;
};

}  // namespace millrace::test
