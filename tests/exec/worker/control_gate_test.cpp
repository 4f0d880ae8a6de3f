// Packets of a control plane wait until what it told before them is at work; others pass, and nothing is lost.
#include "millrace/exec/worker/control_gate.hpp"

#include <arpa/inet.h>
#include <gtest/gtest.h>
#include <sys/socket.h>

#include <atomic>
#include <numeric>

#include "exec/wild/device.hpp"
#include "io/interfaces/network.hpp"
#include "millrace/exec/engine.hpp"
#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/metadata.hpp"
#include "millrace/nftest/packets/frame_pool.hpp"
#include "support/end_of_run.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

using namespace std::chrono_literals;
using exec::ControlGate;

constexpr uint16_t kControlPort = 500;
std::atomic<bool> news = false;

/// A network function that follows a control plane, which speaks by UDP port 500.
class FollowerHost : public nf::NetworkFunction, public nf::FollowsControl {
public:
    explicit FollowerHost(const Config& options, const nf::Environment&) {
        options.only({});
        image_.start<Wild::Tables>();
    }
    const nf::Image& image() const override { return image_; }
    bool is_control(const Packet& packet) const override {
        return packet.layers().has_ports() && packet.l4_dst_port() == kControlPort;
    }
    bool has_news() const override { return news; }

private:
    nf::Image image_;
};

const nf::Register<Wild, FollowerHost> follower_registration{{
    .name = "follower",
    .summary = "follows a control plane that a test plays",
    .outcomes = {{"forward", nf::Disposition::next, "always"}},
    .device_header = "exec/wild/device.hpp",
    .device_struct = "millrace::test::Wild",
}};

/// A gate of two ports, the second of which is a tap. Packets have numbers.
class Gate : public testing::Test {
protected:
    void SetUp() override {
        news = false;
        free_before_ = nftest::frame_pool().available();
        gate_.follow(configuration_, {false, true});
    }
    void TearDown() override {
        open();
        EXPECT_EQ(nftest::frame_pool().available(), free_before_);
    }
    /// Gives packets to the gate, and returns the numbers of those that go on.
    std::vector<uint64_t> keep(const std::vector<std::pair<uint64_t, uint16_t>>& packets, bool all_at_work = true) {
        std::vector<rte_mbuf*> mbufs;
        for (const auto& [number, port] : packets)
            mbufs.push_back(nftest::make_mbuf(build({.ipv4 = Ipv4Header{}, .udp = UdpHeader{.dst = port}}), number));
        return numbers({mbufs.data(), gate_.keep(1, mbufs, all_at_work)});
    }
    std::vector<uint64_t> open() {
        std::vector<uint64_t> all;
        gate_.open([&](uint16_t port, std::span<rte_mbuf*> mbufs) {
            EXPECT_EQ(port, 1);
            all = numbers(mbufs);
        });
        return all;
    }
    static std::vector<uint64_t> numbers(std::span<rte_mbuf*> mbufs) {
        std::vector<uint64_t> all;
        for (rte_mbuf* const mbuf : mbufs) {
            all.push_back(io::packet_number(mbuf));
            rte_pktmbuf_free(mbuf);
        }
        return all;
    }
    using Numbers = std::vector<uint64_t>;

    const chain::Configuration configuration_ = make_configuration("[follower]", "cpu");
    uint32_t free_before_ = 0;
    ControlGate gate_;
};

TEST_F(Gate, IsForTapsOfChainsThatFollowAControlPlane) {
    EXPECT_TRUE(gate_.watches(1));
    EXPECT_FALSE(gate_.watches(0));
    ControlGate other;
    other.follow(make_configuration("[mirror]", "cpu"), {false, true});
    EXPECT_FALSE(other.watches(1));
}

TEST_F(Gate, LetsAllPassWhileThereIsNoNews) {
    EXPECT_EQ(keep({}), Numbers{});
    EXPECT_EQ(keep({{1, 500}, {2, 9}, {3, 500}}), (Numbers{1, 2, 3}));
    EXPECT_EQ(gate_.held(), 0u);
}

TEST_F(Gate, KeepsControlPacketsInOrderWhileThereIsNews) {
    news = true;
    EXPECT_EQ(keep({{1, 500}, {2, 9}, {3, 500}, {4, 10}}), (Numbers{2, 4}));
    EXPECT_EQ(gate_.held(), 2u);
    EXPECT_FALSE(gate_.opens(true, ControlGate::Clock::now()));
    news = false;
    // Looked at before what waits has gone on: they come behind it.
    EXPECT_EQ(keep({{5, 500}, {6, 9}}), Numbers{6});
    EXPECT_TRUE(gate_.opens(true, ControlGate::Clock::now()));
    EXPECT_EQ(open(), (Numbers{1, 3, 5}));
    EXPECT_EQ(gate_.held(), 0u);
    EXPECT_EQ(keep({{7, 500}}), Numbers{7});
}

TEST_F(Gate, WaitsForTheLastWorker) {
    EXPECT_EQ(keep({{1, 500}}, false), Numbers{});
    EXPECT_FALSE(gate_.opens(false, ControlGate::Clock::now()));
    EXPECT_TRUE(gate_.opens(true, ControlGate::Clock::now()));
}

TEST_F(Gate, KeepsNothingForLong) {
    news = true;
    EXPECT_EQ(keep({{1, 500}}), Numbers{});
    const auto now = ControlGate::Clock::now();
    EXPECT_FALSE(gate_.opens(false, now));
    EXPECT_TRUE(gate_.opens(false, now + ControlGate::kMaxWait));
    EXPECT_EQ(open(), Numbers{1});
    // What waits then has its own time.
    EXPECT_EQ(keep({{2, 500}}), Numbers{});
    EXPECT_FALSE(gate_.opens(false, ControlGate::Clock::now()));
}

TEST_F(Gate, IsFullWhenManyWait) {
    news = true;
    for (const size_t size : {1, 31, 32, 33, 159}) {
        EXPECT_FALSE(gate_.is_full(1));
        keep(std::vector<std::pair<uint64_t, uint16_t>>(size, {7, kControlPort}));
    }
    EXPECT_EQ(gate_.held(), ControlGate::kMaxHeld);
    EXPECT_TRUE(gate_.is_full(1));
    EXPECT_FALSE(gate_.is_full(0));
}

TEST_F(Gate, GoesOnKeepingAcrossGenerations) {
    news = true;
    EXPECT_EQ(keep({{1, 500}}), Numbers{});
    gate_.follow(make_configuration("[mirror]", "cpu"), {false, true});
    EXPECT_EQ(gate_.held(), 1u);
    EXPECT_TRUE(gate_.opens(true, ControlGate::Clock::now())) << "nobody has news any more";
    EXPECT_EQ(open(), Numbers{1});
}

class GateOnDevices : public testing::TestWithParam<std::string> {
protected:
    static void send(uint16_t port) {
        const int fd = socket(AF_INET, SOCK_DGRAM | SOCK_CLOEXEC, 0);
        sockaddr_in to{};
        to.sin_family = AF_INET;
        to.sin_port = htons(port);
        inet_pton(AF_INET, "10.9.0.2", &to.sin_addr);
        EXPECT_EQ(sendto(fd, "hello", 5, 0, reinterpret_cast<const sockaddr*>(&to), sizeof to), 5);
        close(fd);
    }
    static void run(const std::string& device) {
        news = false;
        chain::LoadOptions load;
        load.device = device;
        load.output_folder = testing::TempDir();
        exec::RuntimeOptions options;
        options.devices = open_devices(device);
        exec::Runtime runtime(chain::parse_configuration("version: 1\nports:\n  tap: {tap: gate0}\n  out: {sink: {}}\n"
                                                         "chains:\n  c: {input: tap, output: out, nfs: [follower]}\n",
                                                         "(gate)", load),
                              options);
        ASSERT_EQ(std::system("ip link set gate0 up && ip address add 10.9.0.1/24 dev gate0 && "
                              "ip neigh add 10.9.0.2 lladdr 02:00:00:00:00:02 dev gate0 nud permanent"),
                  0);
        runtime.start();
        const auto sent = [&] { return runtime.ports()[1]->counters().sent_packets; };
        const auto comes_to = [&](uint64_t count, std::chrono::milliseconds within) {
            for (const auto until = std::chrono::steady_clock::now() + within;
                 sent() < count && std::chrono::steady_clock::now() < until;)
                std::this_thread::sleep_for(1ms);
            return sent() == count;
        };
        std::this_thread::sleep_for(100ms);
        const uint64_t first = sent();  // Linux greets
        send(kControlPort);
        EXPECT_TRUE(comes_to(first + 1, 5s)) << "no news";
        news = true;
        send(kControlPort);
        send(9);
        EXPECT_TRUE(comes_to(first + 2, 5s)) << "what is no control packet passes";
        EXPECT_FALSE(comes_to(first + 3, 50ms));
        news = false;
        EXPECT_TRUE(comes_to(first + 3, 5s)) << "no news any more";
        news = true;
        send(kControlPort);
        EXPECT_TRUE(comes_to(first + 4, 5s)) << "nothing waits for ever";
        send(kControlPort);
        std::this_thread::sleep_for(20ms);
        stop_run(runtime, Work::device_alone);
        EXPECT_EQ(sent(), first + 5) << "what waits goes on before the end";
    }
};

TEST_P(GateOnDevices, PacketsOfTheControlPlaneWaitForItsNews) {
    MILLRACE_NEEDS_DEVICE(GetParam());
    if (access("/dev/net/tun", R_OK | W_OK) != 0) GTEST_SKIP() << "needs /dev/net/tun";
    using io::test::have, io::test::in_own_network;
    IN_OWN_NETWORK([] { run(GetParam()); });
}

INSTANTIATE_TEST_SUITE_P(OnEveryDevice, GateOnDevices, testing::ValuesIn(test_devices()), device_test_name);

}  // namespace
}  // namespace millrace::test
