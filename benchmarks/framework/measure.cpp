#include "measure.hpp"

#include <fmt/format.h>
#include <rte_cycles.h>
#include <time.h>

#include <algorithm>

#include "bare_loop.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/exec/worker/worker.hpp"
#include "millrace/io/sink_port.hpp"

namespace millrace::lab {
namespace {

constexpr size_t kKeep = 8192;          // frames to compare
constexpr size_t kSlicePackets = 4096;  // as many as flows: every slice has the same five-tuples

/// CPU time of this thread in cycles of the time stamp counter: other programs on the core do not count.
double thread_cycles() {
    timespec now{};
    clock_gettime(CLOCK_THREAD_CPUTIME_ID, &now);
    return (static_cast<double>(now.tv_sec) + static_cast<double>(now.tv_nsec) * 1e-9) * tsc_hz();
}

double median(std::vector<double> values) {
    if (values.empty()) return 0;
    std::nth_element(values.begin(), values.begin() + static_cast<std::ptrdiff_t>(values.size() / 2), values.end());
    return values[values.size() / 2];
}

constexpr uint32_t kBuffers = 1024;
const std::vector<std::string> kChainStages = {"firewall", "nids", "router", "ipsec"};

/// Source, sink that keeps frames, and the chain between them.
std::string yaml_of(const Workload& workload, const std::vector<std::string>& kinds, uint32_t frame_bytes,
                    size_t keep) {
    const std::string ports = fmt::format(
        "  in: {{source: {}, buffers: {}, max-frame: 1600}}\n  out: {{sink: {{keep: {}}}}}\n",
        source_options(workload, {.size = std::to_string(frame_bytes)}), kBuffers, keep);
    return chain_yaml(workload, {.kinds = kinds}, ports);
}

/// The chain as it runs in production: ports, worker, engine, counters. Only the thread is the benchmark's.
class ChainSide {
public:
    ChainSide(const std::string& yaml, uint16_t burst)
        : runtime_(chain::parse_configuration(yaml, "benchmark.yaml"), options(burst)) {}

    size_t iterate() { return runtime_.workers()[0]->iterate(); }
    std::vector<Stage> stages() const {
        std::vector<Stage> stages;
        for (const auto& node : runtime_.workers()[0]->counters()[0]->nodes)
            stages.push_back({node->packets.get(), node->cycles.get()});
        return stages;
    }
    std::vector<io::SunkFrame> sample() const {
        return dynamic_cast<const io::SinkPort&>(*runtime_.ports()[1]).sample();
    }
    uint64_t received() const { return runtime_.workers()[0]->counters()[0]->received_packets.get(); }
    uint64_t sent() const { return runtime_.workers()[0]->counters()[0]->sent_packets.get(); }

private:
    static exec::RuntimeOptions options(uint16_t burst) {
        exec::RuntimeOptions options;
        options.burst = burst;
        return options;
    }
    exec::Runtime runtime_;
};

/// Cycles a packet of one side, slice by slice.
struct Slices {
    std::vector<double> cycles;
    std::vector<std::vector<double>> by_stage;

    template <class Side>
    void run(Side& side) {
        const double start = thread_cycles();
        size_t packets = 0;
        while (packets < kSlicePackets) packets += side.iterate();
        cycles.push_back((thread_cycles() - start) / static_cast<double>(packets));
    }
    void add_stages(const std::vector<Stage>& before, const std::vector<Stage>& after) {
        by_stage.resize(after.size());
        for (size_t i = 0; i < after.size(); ++i)
            if (after[i].packets > before[i].packets)
                by_stage[i].push_back(static_cast<double>(after[i].cycles - before[i].cycles) /
                                      static_cast<double>(after[i].packets - before[i].packets));
    }
    Cost cost(const std::vector<std::string>& names) const {
        Cost cost;
        cost.best_cycles = *std::min_element(cycles.begin(), cycles.end());
        cost.median_cycles = median(cycles);
        for (size_t i = 0; i < by_stage.size(); ++i)
            if (!by_stage[i].empty())
                cost.stages.emplace_back(names[i], *std::min_element(by_stage[i].begin(), by_stage[i].end()));
        return cost;
    }
};

/// Both begin with their first packet, so that sequence numbers are equal.
void compare_frames(ChainSide& chain, BareLoop& bare, AgainstBareLoop& result) {
    while (chain.sent() < kKeep) chain.iterate();
    while (bare.kept().size() < kKeep) bare.iterate();
    const std::vector<io::SunkFrame> frames = chain.sample();
    for (size_t i = 0; i < kKeep; ++i) {
        const BareLoop::Frame& other = bare.kept()[i];
        if (frames[i].number != other.number) {
            result.difference = fmt::format("the chain's frame {} is packet {}, the bare loop's is packet {}", i + 1,
                                            frames[i].number, other.number);
            return;
        }
        if (frames[i].bytes == other.bytes) continue;
        const auto at = std::mismatch(frames[i].bytes.begin(), frames[i].bytes.end(), other.bytes.begin(),
                                      other.bytes.end());
        result.difference = fmt::format("packet {} differs from byte {} on ({} and {} bytes long)", other.number,
                                        at.first - frames[i].bytes.begin(), frames[i].bytes.size(), other.bytes.size());
        return;
    }
    result.compared_in = frames.back().number;
    result.compared_out = kKeep;
}

const std::vector<std::string> kBareStages = {"receive", "firewall", "nids", "router", "ipsec", "send"};

}  // namespace

double tsc_hz() { return static_cast<double>(rte_get_tsc_hz()); }

AgainstBareLoop compare(const Workload& workload, uint32_t frame_bytes, double seconds) {
    AgainstBareLoop result;
    result.frame_bytes = frame_bytes;
    ChainSide chain(yaml_of(workload, kChainStages, frame_bytes, kKeep), BareLoop::kBatch);
    BareLoop bare(workload, std::make_shared<const BareTables>(workload), {.size = std::to_string(frame_bytes)}, kKeep);
    compare_frames(chain, bare, result);
    if (!result.difference.empty()) return result;
    Slices chain_slices, bare_slices;
    std::vector<double> ratios;
    const uint64_t end = rte_rdtsc() + static_cast<uint64_t>(seconds * tsc_hz());
    while (rte_rdtsc() < end || ratios.size() < 3) {
        const std::vector<Stage> chain_before = chain.stages();
        chain_slices.run(chain);
        chain_slices.add_stages(chain_before, chain.stages());
        const std::vector<Stage> bare_before(bare.stages(), bare.stages() + kStages);
        bare_slices.run(bare);
        bare_slices.add_stages(bare_before, {bare.stages(), bare.stages() + kStages});
        ratios.push_back(bare_slices.cycles.back() / chain_slices.cycles.back());
    }
    result.slices = ratios.size();
    result.chain = chain_slices.cost(kChainStages);
    result.bare = bare_slices.cost(kBareStages);
    result.ratio = result.bare.best_cycles / result.chain.best_cycles;
    result.median_ratio = median(ratios);
    return result;
}

EmptyPath measure_empty_path(const Workload& workload, uint16_t burst, double seconds) {
    ChainSide chain(yaml_of(workload, {}, 64, 0), burst);
    Slices slices;
    const uint64_t end = rte_rdtsc() + static_cast<uint64_t>(seconds * tsc_hz());
    while (rte_rdtsc() < end || slices.cycles.size() < 3) slices.run(chain);
    return {burst, slices.cost({})};
}

}  // namespace millrace::lab
