#include "exec/alternating.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <deque>
#include <set>

#include "millrace/device/order_gate.hpp"
#include "millrace/io/capture/capture_reader.hpp"
#include "support/test_chain.hpp"

namespace millrace::test {
namespace {

constexpr const char* kKeys = R"(spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, cipher: aes-128-ctr,
    key: 7e24067817fae0d743d6ce1f32539163, nonce: "006cb6db", auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98)";

}  // namespace

std::string into_tunnel_nfs() {
    return std::string("[ipsec: {sas: [{name: tunnel, direction: out, ") + kKeys +
           "}], policies: [{dst: 0.0.0.0/0, action: protect, sa: tunnel}], default: bypass}]";
}

chain::Configuration into_tunnel(const std::string& device) { return make_configuration(into_tunnel_nfs(), device); }

chain::Configuration out_of_tunnel(const std::string& device) {
    std::string keys = kKeys;
    keys.replace(keys.find("192.0.2.1"), 9, "LOCAL")
        .replace(keys.find("198.51.100.1"), 12, "192.0.2.1")
        .replace(keys.find("LOCAL"), 5, "198.51.100.1");
    return make_configuration("[ipsec: {sas: [{name: tunnel, direction: in, " + keys + ", allow: [{}]}]}]", device);
}

uint64_t numbers_given_out(const chain::Configuration& configuration, size_t chain, size_t node) {
    const auto& image = configuration.chains.at(chain)->nodes.at(node).nf->image();
    for (const auto& array : image.arrays())
        if (array.state_name == "sequence-numbers") return *static_cast<const uint64_t*>(array.data);
    ADD_FAILURE() << "the gateway has no sequence numbers";
    return 0;
}

void expect_each_number_once(const std::string& capture, uint32_t packets) {
    io::CaptureReader reader(capture);
    io::CaptureRecord record;
    std::vector<bool> seen(packets + 1);
    uint32_t read = 0;
    for (; reader.next(record); ++read) {
        ASSERT_GE(record.bytes.size(), 42u);
        const uint32_t sequence = load_be32(record.bytes.data() + 14 + 20 + 4);
        ASSERT_TRUE(sequence >= 1 && sequence <= packets) << sequence;
        ASSERT_FALSE(seen[sequence]) << "sequence number " << sequence << " was used twice";
        seen[sequence] = true;
    }
    EXPECT_EQ(read, packets);
}

EngineRun run_alternating(const Devices& devices, const chain::Configuration& configuration,
                          const std::vector<Frame>& frames, size_t burst, exec::OffloadOptions options,
                          const Between& between, Work work) {
    frame_pool();
    const PacketsSeen seen(devices);
    auto program = std::make_shared<chain::Program>(*configuration.chains[0]);
    program->max_delay = std::chrono::nanoseconds(0);
    const std::shared_ptr<const chain::Program> shared = program;
    options.batch_bytes = size_t{1} << 20;
    const std::set distinct(devices.begin(), devices.end());
    if (distinct.size() > 1) options.gate = std::make_shared<device::OrderGate>();
    options.pinned = true;
    for (const auto& device : distinct)
        options.pinned &= device->pin(frame_pool().memory(), frame_pool().memory_bytes());
    EngineRun result;
    result.counters = std::make_unique<exec::ChainCounters>(*shared);
    std::deque<Collector> collectors(devices.size());
    {
        std::vector<std::unique_ptr<exec::OffloadEngine>> engines;
        for (size_t i = 0; i < devices.size(); ++i)
            engines.push_back(
                std::make_unique<exec::OffloadEngine>(devices[i], collectors[i], program->max_batch, options));
        const auto poll = [&] {
            for (const auto& each : engines) each->poll();
        };
        const auto poll_until = [&](exec::OffloadEngine& engine, size_t most) {
            while (engine.in_flight() > most) poll();
        };
        std::vector<rte_mbuf*> mbufs;
        for (size_t first = 0, turn = 0; first < frames.size(); first += burst, ++turn) {
            exec::OffloadEngine& engine = *engines[turn % engines.size()];
            poll_until(engine, 2 * burst);
            if (between) between(turn, poll);
            mbufs.clear();
            for (size_t i = first; i < std::min(frames.size(), first + burst); ++i)
                mbufs.push_back(make_mbuf(frames[i], i));
            engine.submit(shared, *result.counters, mbufs.data(), mbufs.size());
            engine.poll();
        }
        std::vector<const exec::OffloadEngine*> all;
        for (const auto& engine : engines) {
            poll_until(*engine, 0);
            all.push_back(engine.get());
        }
        expect_work(work, all, *result.counters, frames.size());
    }
    seen.expect(work, frames.size());
    for (const auto& device : distinct) device->unpin(frame_pool().memory());
    for (Collector& collector : collectors)
        for (Outcome& outcome : collector.outcomes) result.outcomes.push_back(std::move(outcome));
    std::sort(result.outcomes.begin(), result.outcomes.end(),
              [](const Outcome& a, const Outcome& b) { return a.number < b.number; });
    return result;
}

std::vector<Frame> with_replays(const EngineRun& run) {
    std::vector<Frame> frames;
    Rng rng(9);
    for (const Outcome& outcome : run.outcomes) {
        frames.push_back(outcome.frame);
        if (frames.size() > 400 && rng() % 8 == 0) frames.push_back(frames[frames.size() - 1 - rng() % 400]);
        if (frames.size() > 40 && rng() % 8 == 0) std::swap(frames.back(), frames[frames.size() - 1 - rng() % 40]);
    }
    return frames;
}

}  // namespace millrace::test
