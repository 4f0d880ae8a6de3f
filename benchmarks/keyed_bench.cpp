// A look-up and an update of state per key on one core, by our table and by DPDK's rte_hash with the values in an array
// beside it: cycles of the time stamp counter for each. By bytes of a value (112: what a connection has). Arguments:
// keys, and whether they come as evenly as can be (0) or by Zipf's law (1). Both have their memory on large pages,
// where the system gives them.
#include <benchmark/benchmark.h>
#include <rte_cycles.h>
#include <rte_hash.h>
#include <rte_hash_crc.h>
#include <rte_memory.h>
#include <sys/mman.h>

#include <cmath>
#include <random>
#include <vector>

#include "millrace/base/eal.hpp"
#include "millrace/base/large_pages.hpp"
#include "millrace/nf/flows/flow_key.hpp"
#include "millrace/nf/state/keyed_burst.hpp"
#include "millrace/nf/state/keyed_table.hpp"

namespace {

using millrace::nf::flows::FlowKey;

/// A value of `kBytes`, of which the first and the last words change.
template <size_t kBytes>
struct Seen {
    uint64_t packets, rest[kBytes / 8 - 2], bytes;
    void count() {
        ++packets;
        bytes += 64;
    }
};
template <>
struct Seen<16> {
    uint64_t packets, bytes;
    void count() {
        ++packets;
        bytes += 64;
    }
};

/// The packet's number says which key it has.
template <size_t kBytes>
struct Counted {
    struct Tables {
        millrace::nf::KeyedState<FlowKey, Seen<kBytes>> state;
        const FlowKey* keys;
    };
    static millrace::nf::Lookup key(const millrace::Packet& packet, const Tables& tables, FlowKey& key) {
        key = tables.keys[packet.index()];
        return millrace::nf::Lookup::create;
    }
    static millrace::Decision process(millrace::Packet&, const Tables&, millrace::nf::KeyedEntry<Seen<kBytes>> entry) {
        if (!entry) return {};  // one key in a thousand, in a table as full as this
        entry->count();
        return {};
    }
};

constexpr size_t kBurst = 256, kLooked = size_t{1} << 20;

/// Keys of UDP over IPv4, and as they come: one behind the other, as packets' headers are in the cache when they are
/// looked at.
struct Given {
    std::vector<FlowKey> keys, come;
    Given(size_t count, bool zipf) : keys(count) {
        std::mt19937_64 random(count);
        for (size_t i = 0; i < count; ++i) {
            keys[i] = {};
            keys[i].low = {{static_cast<uint32_t>(i), 0, 0, 0}, static_cast<uint32_t>(random() & 0xffff)};
            keys[i].high = {{static_cast<uint32_t>(random()), 0, 0, 0}, 53};
            keys[i].kind = 17;
        }
        std::ranges::shuffle(keys, random);
        for (size_t i = 0; i < kLooked; ++i)
            // The continuous law of exponent 1 between 1 and the number of keys.
            come.push_back(keys[static_cast<size_t>(
                zipf ? std::pow(static_cast<double>(count), std::generate_canonical<double, 53>(random)) - 1
                     : static_cast<double>(random() % count))]);
    }
};

/// Runs `look(first)` for each burst of Given::come.
template <class Look>
void run(benchmark::State& state, Look&& look) {
    uint64_t cycles = 0, looked = 0;
    size_t at = 0;
    for (auto _ : state) {
        const uint64_t begin = rte_rdtsc();
        look(at);
        cycles += rte_rdtsc() - begin;
        looked += kBurst;
        at = (at + kBurst) % kLooked;
    }
    state.counters["cycles"] = static_cast<double>(cycles) / static_cast<double>(looked);
}

template <size_t kBytes>
void ours(benchmark::State& state) {
    const Given given(static_cast<size_t>(state.range(0)), state.range(1) != 0);
    const millrace::nf::KeyedOptions options{static_cast<uint64_t>(state.range(0)), 3600'000'000'000ull,
                                             millrace::nf::WhenFull::refuse};
    const millrace::nf::KeyedTable<FlowKey, Seen<kBytes>> table(options, {}, nullptr);
    millrace::nf::Image image;
    auto& tables = image.start<typename Counted<kBytes>::Tables>();
    table.attach(image, tables.state, "flows");
    tables.keys = given.come.data();
    std::vector<millrace::Packet> packets(kBurst);
    std::vector<millrace::Packet*> burst;
    std::vector<millrace::Decision> decisions(kBurst);
    for (millrace::Packet& packet : packets) burst.push_back(&packet);
    const auto look = [&](size_t first) {
        for (size_t i = 0; i < kBurst; ++i) packets[i].set_index(static_cast<uint32_t>(first + i));
        millrace::nf::run_keyed_burst<Counted<kBytes>, false>(burst, tables, decisions.data());
    };
    for (size_t at = 0; at < kLooked; at += kBurst) look(at);
    run(state, look);
}

template <size_t kBytes>
void dpdk(benchmark::State& state) {
    const Given given(static_cast<size_t>(state.range(0)), state.range(1) != 0);
    rte_hash_parameters parameters{};
    parameters.name = "keyed_bench";
    parameters.entries = static_cast<uint32_t>(state.range(0) * 2);  // as half full as ours
    parameters.key_len = sizeof(FlowKey);
    parameters.hash_func = rte_hash_crc;
    rte_hash* const table = rte_hash_create(&parameters);
    if (table == nullptr) return state.SkipWithError("rte_hash_create");
    millrace::LargePageVector<Seen<kBytes>> values(static_cast<size_t>(state.range(0)) * 2 + 1);
    for (const FlowKey& key : given.keys) rte_hash_add_key(table, &key);
    std::vector<const void*> keys(RTE_HASH_LOOKUP_BULK_MAX);
    std::vector<FlowKey> copies(RTE_HASH_LOOKUP_BULK_MAX);
    int32_t positions[RTE_HASH_LOOKUP_BULK_MAX];
    uint64_t missed = 0;
    const auto look = [&](size_t first) {
        for (size_t from = first; from < first + kBurst; from += RTE_HASH_LOOKUP_BULK_MAX) {
            for (size_t i = 0; i < RTE_HASH_LOOKUP_BULK_MAX; ++i) {
                copies[i] = given.come[from + i];  // as a packet's key is made
                keys[i] = &copies[i];
            }
            rte_hash_lookup_bulk(table, keys.data(), RTE_HASH_LOOKUP_BULK_MAX, positions);
            for (const int32_t at : positions)
                for (size_t line = 0; at >= 0 && line < sizeof(Seen<kBytes>); line += 64)
                    __builtin_prefetch(reinterpret_cast<const char*>(&values[static_cast<size_t>(at)]) + line, 1);
            for (const int32_t at : positions) {
                missed += at < 0;
                if (at < 0) continue;
                values[static_cast<size_t>(at)].count();
            }
        }
    };
    for (size_t at = 0; at < kLooked; at += kBurst) look(at);
    run(state, look);
    rte_hash_free(table);
    if (missed > 0) state.SkipWithError("keys are missing");
}

const std::vector<std::vector<int64_t>> kArguments = {{1'000, 65'536, 1'000'000, 4'000'000}, {0, 1}};
BENCHMARK(ours<16>)->ArgsProduct(kArguments);
BENCHMARK(dpdk<16>)->ArgsProduct(kArguments);
BENCHMARK(ours<112>)->ArgsProduct(kArguments);
BENCHMARK(dpdk<112>)->ArgsProduct(kArguments);

}  // namespace

int main(int argc, char** argv) {
    // DPDK's memory, too, shall have large pages, though none are set aside.
    millrace::start_eal({.memory_mib = 2048});
    rte_memseg_contig_walk(
        [](const rte_memseg_list*, const rte_memseg* segment, size_t length, void*) {
            madvise(segment->addr, length, MADV_HUGEPAGE);
            return 0;
        },
        nullptr);
    benchmark::Initialize(&argc, argv);
    benchmark::RunSpecifiedBenchmarks();
}
