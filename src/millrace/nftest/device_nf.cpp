#include "millrace/nftest/device_nf.hpp"

#include <algorithm>

#include "millrace/nftest/listener.hpp"
#include "millrace/nftest/packets/frame_pool.hpp"
#include "millrace/exec/offload/offload_engine.hpp"
#include "millrace/io/metadata.hpp"

namespace millrace::nftest {
namespace {

constexpr size_t kMaxFrames = 4096;  // at once; the pool has more

struct Delivered {
    uint64_t number;
    exec::Verdict verdict;
    Frame frame;
};

/// Keeps what became of packets, and frees them.
class Keeper : public exec::Delivery {
public:
    void deliver(const chain::Program&, exec::ChainCounters&, rte_mbuf* const* mbufs, const exec::Verdict* verdicts,
                 size_t count) override {
        for (size_t i = 0; i < count; ++i) {
            const auto* data = rte_pktmbuf_mtod(mbufs[i], const uint8_t*);
            packets.push_back({io::packet_number(mbufs[i]), verdicts[i], Frame(data, data + mbufs[i]->data_len)});
        }
        rte_pktmbuf_free_bulk(const_cast<rte_mbuf**>(mbufs), static_cast<unsigned>(count));
    }
    bool wants_visits() const override { return true; }  // they bring back all of a decision's detail
    std::vector<Delivered> packets;
};

}  // namespace

struct DeviceNf::Parts {
    std::shared_ptr<Listener> listener;
    std::shared_ptr<chain::Program> program;
    std::unique_ptr<exec::ChainCounters> counters;
    std::shared_ptr<device::Device> device;
    Keeper keeper;
    std::unique_ptr<exec::OffloadEngine> engine;  // goes before what it runs
};

DeviceNf::DeviceNf(std::shared_ptr<device::Device> device, const std::vector<FunctionOnDevice>& functions)
    : parts_(std::make_unique<Parts>()) {
    frame_pool();
    auto program = std::make_shared<chain::Program>();
    program->name = functions.back().type->name;
    program->output = 0;
    program->max_batch = 2048;
    program->port_names = std::make_shared<const std::vector<std::string>>(kTestPorts);
    std::vector<chain::FieldUse> uses;
    for (const FunctionOnDevice& function : functions) {
        const nf::Type& type = *function.type;
        const bool last = &function == &functions.back();
        chain::Node node;
        node.name = type.name;
        node.type = &type;
        node.nf = function.nf;
        if (last) node.nf = parts_->listener = std::make_shared<Listener>(function.nf);
        node.lanes = function.lanes;
        const auto next = static_cast<uint16_t>(program->nodes.size() + 1);
        node.targets.assign(type.outcomes.size(), last ? chain::Target{chain::Target::Kind::output, 0}
                                                       : chain::Target{chain::Target::Kind::node, next});
        program->nodes.push_back(std::move(node));
        uses.push_back({{}, {}, type.reads, type.writes, type.is_keyed()});
    }
    program->plan = chain::plan_fields(uses);
    parts_->program = program;
    parts_->counters = std::make_unique<exec::ChainCounters>(*program);
    parts_->device = std::move(device);
    exec::OffloadOptions options;
    options.depth = 2;
    options.batch_bytes = size_t{4} << 20;
    parts_->engine = std::make_unique<exec::OffloadEngine>(parts_->device, parts_->keeper, program->max_batch, options);
}

DeviceNf::~DeviceNf() = default;

NfResult DeviceNf::run(const std::vector<Frame>& frames, uint16_t in_port, uint64_t time_ns) {
    NfResult result;
    const uint64_t before = parts_->counters->received_packets.get();
    parts_->listener->events.clear();
    parts_->keeper.packets.clear();
    for (size_t first = 0; first < frames.size(); first += kMaxFrames) {
        std::vector<rte_mbuf*> mbufs;
        for (size_t i = first; i < std::min(frames.size(), first + kMaxFrames); ++i) {
            mbufs.push_back(make_mbuf(frames[i], i));
            mbufs.back()->port = in_port;
            io::set_packet_metadata(mbufs.back(), time_ns + (i + 1) * kPacketNs, i);
        }
        parts_->engine->submit(parts_->program, *parts_->counters, mbufs.data(), mbufs.size());
        parts_->engine->drain();
    }
    const auto mistake = [&](std::string text) { result.mistakes.push_back(std::move(text)); };
    if (parts_->engine->failed_over()) mistake("the device failed: " + parts_->engine->describe());
    if (parts_->counters->received_packets.get() != before + frames.size() ||
        parts_->keeper.packets.size() != frames.size())
        mistake("packets were lost: " + std::to_string(frames.size()) + " went in, and " +
                std::to_string(parts_->keeper.packets.size()) + " came out");
    if (parts_->counters->events_lost.get() != 0) mistake("events were lost");
    for (size_t i = 0; i < parts_->keeper.packets.size(); ++i) {
        const Delivered& packet = parts_->keeper.packets[i];
        if (packet.number != i) mistake("packet " + std::to_string(packet.number) + " came out of order");
        const bool refused = packet.verdict.node == exec::kParserNode;
        result.decisions.push_back(refused ? Decision{kNoDetail, kRefused} : packet.verdict.decision);
        result.frames.push_back(refused ? frames[i] : packet.frame);
        result.out_ports.push_back(refused ? kNoPort : packet.verdict.out_port);
    }
    // What is missing was told of; whoever looks at it finds something.
    result.decisions.resize(frames.size());
    result.frames.resize(frames.size());
    result.out_ports.resize(frames.size(), kNoPort);
    result.events = std::move(parts_->listener->events);
    std::stable_sort(result.events.begin(), result.events.end(), [](const Event& a, const Event& b) {
        return a.packet != b.packet ? a.packet < b.packet : a.order < b.order;
    });
    return result;
}

}  // namespace millrace::nftest
