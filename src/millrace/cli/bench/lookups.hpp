// The figures of `millrace bench rules --figures`: what looks headers up, how fast, and by what it is varied.
#pragma once

#include <map>
#include <memory>
#include <nlohmann/json.hpp>
#include <string>
#include <vector>

#include "lab/lookup/acl_peer.hpp"
#include "millrace/cli/bench/bench_arguments.hpp"
#include "millrace/cli/bench/bench_lookups.hpp"

namespace millrace::cli {

using namespace lab;
using nf::classify::kEngineNames;
using nf::classify::SyntheticSpec;
using nlohmann::json;

inline constexpr size_t kReferences = 256;   // headers that are held against the definition
inline constexpr double kWireBytes = 84;     // of a 64-byte packet, as the paper counts
inline constexpr uint32_t kBatch = 1 << 19;  // of figures that do not vary it
inline constexpr size_t kManyRules = 8192;

inline double gbps(double packets_per_second, double wire_bytes = kWireBytes) {
    return packets_per_second * wire_bytes * 8e-9;
}
inline const char* name_of(Engine engine) { return kEngineNames[static_cast<size_t>(engine)]; }

/// Measures the figures that are asked for, on one device.
class Lookups {
public:
    explicit Lookups(const LookupArguments& arguments) : arguments_(arguments) {}
    int run();

private:
    using Set = std::shared_ptr<LookupSet>;
    /// A set with its keys on the device, and what its first headers should find.
    struct Placed {
        Set set;
        std::unique_ptr<LookupRun> run;
        std::vector<uint32_t> wanted;
    };
    struct Loaded {
        std::unique_ptr<LookupTables> tables;
        std::shared_ptr<device::LoadedTask> task;
    };

    bool asked(const std::string& figure) const {
        return std::find(arguments_.figures.begin(), arguments_.figures.end(), figure) != arguments_.figures.end();
    }
    /// Those of the set's engines that are asked for.
    std::vector<Engine> engines(const LookupSet& set) const {
        std::vector<Engine> asked_for = engines_for(set);
        std::erase_if(asked_for, [&](Engine engine) {
            return !arguments_.engines.empty() && std::find(arguments_.engines.begin(), arguments_.engines.end(),
                                                            name_of(engine)) == arguments_.engines.end();
        });
        return asked_for;
    }
    bool wanted(const std::string& set) const { return set.find(arguments_.sets) != std::string::npos; }
    Set file_set(const std::string& name, bool traced = true) const;
    Set made(uint32_t rules, uint32_t classes, unsigned fields = 12, uint32_t full = 0, uint32_t overlap = 1) const;
    Placed place(const Set& set, uint32_t batch, unsigned streams = 4, uint32_t headers = UINT32_MAX);
    Loaded load(const LookupSet& set, Engine engine, unsigned lanes) const;
    json rate_row(const std::string& figure, const Placed& placed, Engine engine, unsigned lanes, bool with_bus);
    void measure_all(const std::string& figure, const Set& set, const json& more = json::object(),
                     bool with_bus = true);
    double limit(unsigned words);

    void measure_acl(AclPeers& acl);
    void targets();
    void by_batch();
    void by_cores(const Set& set);
    void by_set();
    void by_delay();
    void by_packet_size();
    void changes();
    /// The highest pace at which a batch's first packet has its result within `delay_us`.
    json paced_row(const std::string& figure, const Set& set, Engine engine, double delay_us, double offered);
    const Placed& paced_place(const Set& set, uint32_t batch);

    const LookupArguments arguments_;
    std::shared_ptr<device::Device> device_;
    std::map<std::pair<std::string, uint32_t>, Placed> paced_;  // by set and batch
    std::vector<device::StreamId> streams_;
    std::map<unsigned, double> limits_;
    std::vector<Set> peers_;
    json rows_ = json::array(), delays_ = json::array(), changes_ = json::array(), acl_ = json::array(),
         cpu_ = json::array();
    size_t mistakes_ = 0;
};

}  // namespace millrace::cli
