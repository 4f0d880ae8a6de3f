// Whatever a network function tells of packets reaches the host, however much it is, and in order.
#include <gtest/gtest.h>

#include <algorithm>
#include <map>

#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "millrace/nftest/listener.hpp"

namespace millrace::test {
namespace {

using nftest::Listener;

constexpr uint32_t kHeldByDevices = 15;  // alerts of one packet

/// Rules by destination port: to a port 1000 + n go n rules, which all match. To port 9 goes none.
constexpr uint32_t kCounts[] = {1, 4, 15, 16, 1000};
std::string noisy_rules() {
    std::string rules;
    uint32_t sid = 0;
    for (const uint32_t count : kCounts)
        for (uint32_t i = 0; i < count; ++i, ++sid)
            rules += (sid > 0 ? ", '" : "'") + std::string("alert udp any any -> any ") + std::to_string(1000 + count) +
                     " (sid:" + std::to_string(sid + 1) + ";)'";
    return "nids: {rule: [" + rules + "]}";
}
/// A packet that raises so many alerts.
Frame frame_with_alerts(uint32_t count) {
    return build_packet("{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {src: 40000, dst: " +
                        std::to_string(count == 0 ? 9 : 1000 + count) + "}, payload: some bytes}");
}

struct Alert {
    uint32_t packet, code, order;
    friend bool operator==(const Alert&, const Alert&) = default;
};
/// The alerts of packets that raise so many, by what the rules say.
std::vector<Alert> alerts_of(const std::vector<uint32_t>& counts) {
    std::vector<Alert> alerts;
    for (uint32_t packet = 0; packet < counts.size(); ++packet) {
        uint32_t code = 0;
        for (const uint32_t count : kCounts) {
            if (count == counts[packet])
                for (uint32_t i = 0; i < count; ++i) alerts.push_back({packet, code + i, i});
            code += count;
        }
    }
    return alerts;
}
std::vector<Frame> frames_of(const std::vector<uint32_t>& counts) {
    std::map<uint32_t, Frame> by_count;
    std::vector<Frame> frames;
    for (const uint32_t count : counts) {
        Frame& frame = by_count[count];
        if (frame.empty()) frame = frame_with_alerts(count);
        frames.push_back(frame);
    }
    return frames;
}

/// A configuration whose events are kept, by node.
struct Heard {
    explicit Heard(const std::string& nfs, const std::string& device) : configuration(make_configuration(nfs, device)) {
        auto program = std::make_shared<chain::Program>(*configuration.chains[0]);
        for (chain::Node& node : program->nodes) {
            listeners.push_back(std::make_shared<Listener>(node.nf));
            node.nf = listeners.back();
        }
        configuration.chains[0] = program;
    }
    std::vector<Alert> alerts(size_t node = 0) const {
        std::vector<Alert> all;
        for (const Event& event : listeners[node]->events) all.push_back({event.packet, event.code, event.order});
        return all;
    }
    chain::Configuration configuration;
    std::vector<std::shared_ptr<Listener>> listeners;
};

/// Says where two lists part, not all of them.
void expect_same(const std::vector<Alert>& expected, const std::vector<Alert>& actual, const std::string& what) {
    EXPECT_EQ(expected.size(), actual.size()) << what;
    const auto [want, got] = std::mismatch(expected.begin(), expected.end(), actual.begin(), actual.end());
    if (want == expected.end() || got == actual.end()) return;
    ADD_FAILURE() << what << ": alert " << want - expected.begin() << " is " << got->code << " (" << got->order
                  << ") of packet " << got->packet << ", not " << want->code << " (" << want->order << ") of packet "
                  << want->packet;
}

/// The device has done the work: it was not given up, and nobody decided a packet in its place.
void expect_by_device(const EngineRun& run, size_t packets, const std::string& what) {
    expect_conserved(run, packets);
    EXPECT_EQ(run.counters->retried_on_cpu.get(), 0u) << what;
    EXPECT_EQ(run.counters->kept_on_cpu.get(), 0u) << what;
    EXPECT_GE(run.counters->batches.get(), 1u) << what;
    EXPECT_GT(run.counters->bytes_to_device.get(), 0u) << what;
}

class EventsInEveryMode : public DeviceInMode {
protected:
    exec::OffloadOptions options() const {
        exec::OffloadOptions options;
        options.mode = mode();
        return options;
    }
};

TEST_P(EventsInEveryMode, AreAllToldOfFewAndManyAlertsForEveryBatchSize) {
    uint32_t seed = 10 * static_cast<uint32_t>(mode());
    const std::string nfs = "[" + noisy_rules() + "]";
    for (const size_t size : {1, 31, 32, 33, 1023, 1024, 1025}) {
        std::vector<uint32_t> counts(size);
        for (size_t i = 0; i < size; ++i) counts[i] = i % 97 == 0 ? 1000 : i % 13 == 5 ? 16 : i % 13 == 6 ? 15 : i % 2;
        const auto many = static_cast<uint64_t>(
            std::count_if(counts.begin(), counts.end(), [](uint32_t count) { return count > kHeldByDevices; }));
        const std::string what = std::to_string(size) + " packets, " + device::name_of(mode());
        Heard heard(nfs, name());
        const EngineRun run = run_on_device(device(++seed), heard.configuration, frames_of(counts), size, options());
        expect_by_device(run, size, what);
        EXPECT_EQ(run.counters->retold_on_cpu.get(), many) << what;
        EXPECT_EQ(run.counters->events.get(), alerts_of(counts).size()) << what;
        expect_same(alerts_of(counts), heard.alerts(), what);
    }
}

TEST_P(EventsInEveryMode, AreAllToldWhereABatchHasNoRoomForThem) {
    // 60 noisy packets before 10 that matter, and a batch where all are noisy.
    std::vector<uint32_t> few(70, 15), all(700, 15);
    std::fill(few.begin() + 60, few.end(), 1);
    for (const std::vector<uint32_t>& counts : {few, all}) {
        const std::string what = std::to_string(counts.size()) + " packets";
        Heard heard("[" + noisy_rules() + "]", name());
        const EngineRun run = run_on_device(device(3), heard.configuration, frames_of(counts), counts.size(),
                                            options());
        expect_by_device(run, counts.size(), what);
        EXPECT_GT(run.counters->retold_on_cpu.get(), 0u) << what;
        // A GPU's packets emit at the same time: each of them may be the one that finds no room.
        if (name() == "sim") {
            EXPECT_LT(run.counters->retold_on_cpu.get(), counts.size())
                << what << ": the device tells what it has room for";
        }
        expect_same(alerts_of(counts), heard.alerts(), what);
    }
}

TEST_P(EventsInEveryMode, AreOfPacketsAsTheNfSawThemWhateverOthersMakeOfThem) {
    const std::string tunnel =
        "ipsec: {sas: [{name: a, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, cipher: "
        "aes-128-ctr, "
        "key: 7e24067817fae0d743d6ce1f32539163, nonce: \"006cb6db\", auth-key: "
        "1f2e3d4c5b6a79880123456789abcdeffedcba98}], "
        "policies: [{action: protect, sa: a}]}";
    const std::string esp =
        "{name: outer, nids: {rule: ['alert ip any any -> any any (ip_proto:50; dsize:>20; sid:1;)', 'alert ip any any "
        "-> any any (ip_proto:50; sid:2;)'";
    std::string many = esp;
    for (uint32_t sid = 3; sid <= 40; ++sid)
        many += ", 'alert ip 192.0.2.1 any -> 198.51.100.1 any (ttl:>" + std::to_string(sid - 3) +
                "; sid:" + std::to_string(sid) + ";)'";
    many += "]}}";
    std::vector<uint32_t> counts(300);
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = kCounts[i % std::size(kCounts)];
    const std::vector<Frame> frames = frames_of(counts);
    for (const std::string& nfs :
         {"[" + noisy_rules() + ", mirror]", "[mirror, " + noisy_rules() + "]",
          "[" + noisy_rules() + ", " + tunnel + "]", "[" + noisy_rules() + ", " + tunnel + ", " + many + ", mirror]"}) {
        Heard cpu(nfs, "cpu"), heard(nfs, name());
        EngineRun expected = run_on_cpu(cpu.configuration, frames, 256);
        EngineRun run = run_on_device(device(5), heard.configuration, frames, 150, options());
        const std::string what = nfs.substr(0, 8) + "… " + std::to_string(heard.listeners.size()) + " NFs";
        expect_by_device(run, frames.size(), what);
        expect_equal(without_visits(std::move(expected)), without_visits(std::move(run)), what);
        for (size_t node = 0; node < heard.listeners.size(); ++node) {
            expect_same(cpu.alerts(node), heard.alerts(node), what);
            ASSERT_EQ(cpu.listeners[node]->events.size(), heard.listeners[node]->events.size());
            for (size_t i = 0; i < heard.listeners[node]->events.size(); ++i) {
                const Event &want = cpu.listeners[node]->events[i], &got = heard.listeners[node]->events[i];
                ASSERT_TRUE(std::equal(want.src, want.src + 4, got.src) && want.protocol == got.protocol &&
                            want.length == got.length && want.node == got.node)
                    << what << ", event " << i << " of node " << node << ", length " << got.length << ", not "
                    << want.length;
            }
        }
    }
}

TEST_P(EventsInEveryMode, AreAllToldOfContiguousFrames) {
    std::vector<uint32_t> counts(500);
    for (size_t i = 0; i < counts.size(); ++i) counts[i] = kCounts[i % std::size(kCounts)];
    for (const char* const behind : {"", ", mirror"}) {
        Heard heard("[" + noisy_rules() + behind + "]", name());
        const EngineRun run = run_contiguous(device(7), heard.configuration, frames_of(counts), 60, options());
        expect_by_device(run, counts.size(), behind);
        EXPECT_GE(run.counters->retold_on_cpu.get(), counts.size() * 2 / std::size(kCounts));
        expect_same(alerts_of(counts), heard.alerts(), behind);
    }
}

INSTANTIATE_TEST_SUITE_P(All, EventsInEveryMode, testing::ValuesIn(devices_in_every_mode()), device_in_mode_name);
GTEST_ALLOW_UNINSTANTIATED_PARAMETERIZED_TEST(EventsInEveryMode);

TEST(EventsOnTheCpu, AreAllToldInEveryVectorByEitherHalf) {
    std::vector<uint32_t> noisy(300, 1000), mixed(300);
    for (size_t i = 0; i < mixed.size(); ++i) mixed[i] = kCounts[i % std::size(kCounts)];
    for (const bool halves : {true, false})
        for (const std::vector<uint32_t>& counts : {std::vector<uint32_t>{1000}, mixed, noisy}) {
            Heard heard("[" + noisy_rules() + "]", "cpu");
            const EngineRun run = run_on_cpu(heard.configuration, frames_of(counts), 256, halves);
            expect_conserved(run, counts.size());
            expect_same(alerts_of(counts), heard.alerts(), std::to_string(counts.size()) + " packets");
        }
}

/// An NF that emits `kTold` events, of which it says that they are at most `kSaid`.
struct Chatter {
    static constexpr uint32_t kTold = 20, kSaid = 12;
    struct Tables {};
};
class ChatterHost : public nf::NetworkFunction {
public:
    ChatterHost() { image_.start<Chatter::Tables>(); }
    const nf::Image& image() const override { return image_; }
    size_t most_events() const override { return Chatter::kSaid; }

private:
    nf::Image image_;
};

TEST(EventsOnTheCpu, OfAnNfThatTellsMoreThanItSaysAreCountedAsLost) {
    nf::Type type;
    type.name = "chatter";
    type.outcomes = {{"pass", nf::Disposition::next, ""}};
    type.emits_events = true;
    type.process[0] = [](Packet& packet, const void*) {
        for (uint32_t i = 0; i < Chatter::kTold; ++i) packet.emit(i);
        return Decision{};
    };
    auto program = std::make_shared<chain::Program>();
    program->name = "chatter";
    program->output = 1;
    program->port_names = std::make_shared<const std::vector<std::string>>(std::vector<std::string>{"in", "out"});
    chain::Node node;
    node.name = "chatter";
    node.type = &type;
    const auto listener = std::make_shared<Listener>(std::make_shared<ChatterHost>());
    node.nf = listener;
    node.targets = {Target{Target::Kind::output, 0}};
    program->nodes.push_back(node);
    chain::Configuration configuration;
    configuration.chains = {program};
    const std::vector<Frame> frames(256, frame_with_alerts(0));  // 16 events a packet is what a vector has room for
    const EngineRun run = run_on_cpu(configuration, frames, 256, false);
    const uint64_t whole = 4096 / Chatter::kTold, again = frames.size() - whole;
    EXPECT_EQ(run.counters->retold_on_cpu.get(), again);
    EXPECT_EQ(run.counters->events_lost.get(), again) << "once for each packet";
    EXPECT_EQ(listener->events.size(), whole * Chatter::kTold + again * Chatter::kSaid);
}

/// It would change its packets again when it is asked again.
TEST(EventsAreRefused, OfAnNfThatChangesPackets) {
    nf::Type type;
    type.name = "two-faced";
    type.outcomes = {{"pass", nf::Disposition::next, ""}};
    type.emits_events = true;
    type.writes = type.cpu_writes = field::ip_ttl;
    type.process[0] = [](Packet&, const void*) { return Decision{}; };
    type.create = [](const Config&, const nf::Environment&) -> std::unique_ptr<nf::NetworkFunction> {
        return std::make_unique<ChatterHost>();
    };
    nf::register_type(type);
    try {
        make_configuration("[two-faced]", "cpu");
        FAIL() << "no error";
    } catch (const std::exception& error) {
        EXPECT_NE(std::string(error.what()).find("emits events and changes packets"), std::string::npos)
            << error.what();
    }
}

}  // namespace
}  // namespace millrace::test
