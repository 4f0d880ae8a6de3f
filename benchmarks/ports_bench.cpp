// What a packet costs from the traffic source into the sink: cycles of the time stamp counter, bursts of 256.
// Arguments: frame bytes, buffers, what the source writes (0: all, 1: headers, 2: nothing).
#include <benchmark/benchmark.h>
#include <rte_cycles.h>

#include <string>

#include "millrace/io/port.hpp"

namespace {

void source_to_sink(benchmark::State& state) {
    static const char* const kRestore[] = {"all", "headers", "nothing"};
    const std::string yaml = "in: { source: { size: " + std::to_string(state.range(0)) +
                             " }, max-frame: 1600, buffers: " + std::to_string(state.range(1)) +
                             " }\nout: { sink: {} }\n";
    millrace::io::PortEnvironment environment;
    environment.sources.restore = static_cast<millrace::io::Restore>(state.range(2));
    const auto ports = millrace::io::make_ports(millrace::Config::parse(yaml, "bench"), environment);
    rte_mbuf* mbufs[256];
    uint64_t packets = 0;
    for (auto _ : state) {
        const uint16_t n = ports[0]->receive(0, mbufs, 256);
        ports[1]->send(0, mbufs, n);
        packets += n;
    }
    // Per second of the thread's own time, so that other programs on the core do not count.
    state.counters["cycles"] = benchmark::Counter(static_cast<double>(packets) / static_cast<double>(rte_get_tsc_hz()),
                                                  benchmark::Counter::kIsRate | benchmark::Counter::kInvert);
    state.SetLabel(kRestore[state.range(2)]);
}
BENCHMARK(source_to_sink)->ArgsProduct({{64, 1518}, {2048, 16384, 131072}, {0, 1, 2}});

}  // namespace

BENCHMARK_MAIN();
