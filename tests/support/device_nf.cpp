#include "support/device_nf.hpp"

#include <gtest/gtest.h>

#include <algorithm>

#include "millrace/exec/offload/offload_engine.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/listener.hpp"

namespace millrace::test {
namespace {

constexpr size_t kMostFrames = 4096;  // at once; the pool has more

}  // namespace

struct DeviceNf::Parts {
    std::shared_ptr<Listener> listener;
    std::shared_ptr<chain::Program> program;
    std::unique_ptr<exec::ChainCounters> counters;
    std::shared_ptr<device::Device> device;
    Collector collector;
    std::unique_ptr<exec::OffloadEngine> engine;  // goes before what it runs
};

DeviceNf::DeviceNf(const std::string& device, const nf::Type& type, std::shared_ptr<nf::NetworkFunction> nf,
                   unsigned lanes)
    : parts_(std::make_unique<Parts>()) {
    test_pool();
    parts_->listener = std::make_shared<Listener>(std::move(nf));
    auto program = std::make_shared<chain::Program>();
    program->name = type.name;
    program->output = 0;
    program->max_batch = 2048;
    program->port_names = std::make_shared<const std::vector<std::string>>(kTestPorts);
    chain::Node node;
    node.name = type.name;
    node.type = &type;
    node.nf = parts_->listener;
    node.lanes = lanes;
    node.targets.assign(type.outcomes.size(), {Target::Kind::output, 0});
    program->nodes.push_back(std::move(node));
    program->plan = chain::plan_fields({{{}, {}, type.reads, type.writes}});
    parts_->program = program;
    parts_->counters = std::make_unique<exec::ChainCounters>(*program);
    parts_->device = open_device(device);
    exec::OffloadOptions options;
    options.depth = 2;
    options.batch_bytes = size_t{4} << 20;
    parts_->engine = std::make_unique<exec::OffloadEngine>(parts_->device, parts_->collector, program->max_batch,
                                                           options);
}

DeviceNf::~DeviceNf() = default;

NfResult DeviceNf::run(const std::vector<Frame>& frames, uint16_t in_port) {
    NfResult result;
    const uint64_t before = parts_->counters->received_packets.get();
    parts_->listener->events.clear();
    parts_->collector.outcomes.clear();
    for (size_t first = 0; first < frames.size(); first += kMostFrames) {
        std::vector<rte_mbuf*> mbufs;
        for (size_t i = first; i < std::min(frames.size(), first + kMostFrames); ++i) {
            mbufs.push_back(make_mbuf(frames[i], i));
            mbufs.back()->port = in_port;
        }
        parts_->engine->submit(parts_->program, *parts_->counters, mbufs.data(), mbufs.size());
        parts_->engine->drain();
    }
    expect_work(Work::shared_with_cpu, {parts_->engine.get()}, *parts_->counters, before + frames.size());
    EXPECT_EQ(parts_->counters->events_lost.get(), 0u);
    EXPECT_EQ(parts_->collector.outcomes.size(), frames.size());
    for (size_t i = 0; i < parts_->collector.outcomes.size(); ++i) {
        const Outcome& outcome = parts_->collector.outcomes[i];
        EXPECT_EQ(outcome.number, i) << "out of order";
        const bool refused = outcome.fate.node == exec::kParserNode;
        result.decisions.push_back(refused ? Decision{kNoDetail, kRefused} : outcome.fate.decision);
        result.frames.push_back(refused ? frames[i] : outcome.frame);
        result.out_ports.push_back(refused ? kNoPort : outcome.fate.out_port);
    }
    result.events = std::move(parts_->listener->events);
    std::stable_sort(result.events.begin(), result.events.end(), [](const Event& a, const Event& b) {
        return a.packet != b.packet ? a.packet < b.packet : a.order < b.order;
    });
    return result;
}

}  // namespace millrace::test
