// The router's options, and the router on a kernel: in a network namespace of its own, changed by `ip`.
#include "millrace/nf/router/kernel/kernel_router.hpp"

#include <gtest/gtest.h>
#include <sched.h>

#include <atomic>
#include <fstream>
#include <thread>

#include "millrace/nf/router/device.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

using namespace std::chrono_literals;

constexpr const char* kOptions = "{kernel: {interfaces: {lan0: port1, wan0: port2}}}";

std::string complaint(const std::string& options) {
    try {
        NfRunner("router", options);
    } catch (const ConfigError& error) {
        return error.what();
    }
    return "no complaint";
}

TEST(KernelRouter, RefusesOptionsThatMakeNoSense) {
    const std::pair<const char*, const char*> cases[] = {
        {"{kernel: {}}", "no interface of Linux' stands for a port"},
        {"{kernel: true}", "add 'linux: NAME' to the ports"},
        {"{kernel: {table: 10}}", "no interface of Linux' stands for a port"},
        {"{kernel: false}", "'kernel: false' is not known"},
        {"{kernel: main}", "neither true nor false"},
        {"{kernel: {interfaces: {}}}", "an interface is missing here"},
        {"{kernel: {interfaces: {lan0: port9}}}", "'port9' is not one of"},
        {"{kernel: {interfaces: {lan0: port1, wan0: port1}}}", "stands for 'lan0' already"},
        {"{kernel: {interfaces: {an-interface-name: port1}}}", "no name of a network interface"},
        {"{kernel: {interfaces: {lan/0: port1}}}", "no name of a network interface"},
        {"{kernel: {table: 255, interfaces: {lan0: port1}}}", "always followed"},
        {"{kernel: {table: 0, interfaces: {lan0: port1}}}", "1 to"},
        {"{kernel: {table: mian, interfaces: {lan0: port1}}}", "mian"},
        {"{kernel: {interface: {lan0: port1}}}", "did you mean 'interfaces'"},
        {"{kernel: {interfaces: {lan0: port1}}, routes: []}", "'routes' and 'kernel' do not go together"},
        {"{kernel: {interfaces: {lan0: port1}}, next-hops: {}}", "'next-hops' and 'kernel' do not go together"},
        {"{kernel: {interfaces: {lan0: port1}}, local: [10.0.0.1]}", "'local' and 'kernel' do not go together"},
        {"{kernel: {interfaces: {lan0: port1}}, nexthops: {}}", "unknown field 'nexthops'"},
    };
    for (const auto& [options, want] : cases)
        EXPECT_NE(complaint(options).find(want), std::string::npos) << options << "\n" << complaint(options);
}

TEST(KernelRouter, AsksNoKernelWhereNoPacketsWillFlow) {
    NfRunner runner("router", kOptions);
    EXPECT_EQ(runner.nf().summary(), "follows the kernel's table main for lan0, wan0");
    EXPECT_EQ(dynamic_cast<nf::Changeable&>(runner.nf()).next(), nullptr);
    Rng rng(1);
    RandomOptions options;
    options.malformed = 0.2;
    check_halves_agree("router", kOptions, random_packets(rng, 1000, options));
}

/// The outcome of a packet, or "via …".
std::string outcome(NfRunner& runner, const std::string& packet) {
    const NfResult result = runner.run({build_packet(packet)}, {1});
    const std::string text = runner.nf().explain(result.decisions[0]);
    return text.empty() ? runner.type().outcomes[result.decisions[0].outcome].name : text;
}

TEST(KernelRouter, LeavesGroupsAndHostsWithoutAddressesToTheKernel) {
    NfRunner runner("router", kOptions);
    for (const char* packet : {"{ipv4: {src: 10.0.0.1, dst: 224.0.0.5, protocol: 89}}",
                               "{ipv4: {src: 0.0.0.0, dst: 255.255.255.255}, udp: {}}",
                               "{ipv6: {src: '::', dst: 'ff02::1:ff00:1'}, icmpv6: {type: 135}}",
                               "{ipv6: {src: 'fe80::1', dst: 'ff02::1'}, icmpv6: {type: 134}}"})
        EXPECT_EQ(outcome(runner, packet), "local") << packet;
    EXPECT_EQ(outcome(runner, "{ipv4: {src: 10.0.0.1, dst: 240.0.0.1}, udp: {}}"), "martian");
    EXPECT_EQ(outcome(runner, "{ipv4: {src: 224.0.0.1, dst: 10.0.0.1}, udp: {}}"), "martian");
    EXPECT_EQ(outcome(runner, "{ipv6: {src: 'ff02::1', dst: '2001:db8::1'}, udp: {}}"), "martian");
    EXPECT_EQ(outcome(runner, "{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {}}"), "no-route");
}

/// Runs commands in the namespace that the test has entered.
void ip(const std::string& arguments) { ASSERT_EQ(std::system(("ip " + arguments).c_str()), 0) << arguments; }

class KernelRouterLive : public testing::Test {
protected:
    void SetUp() override {
        if (std::system("command -v ip > /dev/null") != 0 || unshare(CLONE_NEWNET) != 0)
            GTEST_SKIP() << "needs root and the 'ip' program";
        ip("link add lan0 address 02:00:00:00:01:00 type veth peer name lan1");
        ip("link add wan0 address 02:00:00:00:02:00 type veth peer name wan1");
        for (const char* name : {"lan0", "lan1", "wan0", "wan1"}) ip(std::string("link set ") + name + " up");
        ip("address add 10.0.0.1/24 dev lan0");
        ip("address add 10.1.0.1/24 dev wan0");
        ip("address add 2001:db8::1/64 dev lan0 nodad");
        ip("neighbour add 10.0.0.7 lladdr 02:00:00:00:00:07 dev lan0");
        ip("neighbour add 10.1.0.7 lladdr 02:00:00:00:00:17 dev wan0");
        ip("neighbour add 2001:db8::7 lladdr 02:00:00:00:00:27 dev lan0");
    }

    static nf::Environment live(nf::NetworkFunction* previous = nullptr) {
        nf::Environment environment{.node_name = "n", .chain_name = "c", .output_folder = ".", .ports = kTestPorts};
        environment.live = true;
        environment.previous = previous;
        return environment;
    }
    /// The generation in which a packet meets an outcome; the last one that came within five seconds.
    static std::shared_ptr<nf::NetworkFunction> follow(std::shared_ptr<nf::NetworkFunction> now,
                                                       const std::string& packet, const std::string& want) {
        for (const auto end = std::chrono::steady_clock::now() + 5s;
             outcome_of(*now, packet) != want && std::chrono::steady_clock::now() < end;) {
            if (auto next = dynamic_cast<nf::Changeable&>(*now).next()) now = std::move(next);
            else std::this_thread::sleep_for(1ms);
        }
        EXPECT_EQ(outcome_of(*now, packet), want);
        return now;
    }
    /// By the device half and the CPU half.
    static std::string outcome_of(nf::NetworkFunction& nf, const std::string& text, uint16_t in_port = kNoPort,
                                  uint16_t segment_bytes = 0) {
        const nf::Type& type = *nf::find_type("router");
        Frame frame = build_packet(text);
        Packet packet;
        packet.attach(frame.data(), static_cast<uint32_t>(frame.size()), static_cast<uint32_t>(frame.size()), 0, 0);
        packet.parse();
        packet.set_in_port(in_port);
        packet.set_segment_bytes(segment_bytes);
        Frame other = frame;
        Packet again;
        again.attach(other.data(), static_cast<uint32_t>(other.size()), static_cast<uint32_t>(other.size()), 0, 0);
        again.parse();
        again.set_in_port(in_port);
        again.set_segment_bytes(segment_bytes);
        const Decision decision = type.process_with(1)(packet, nf.image().tables());
        Packet* const both[] = {&again};
        Decision by_cpu;
        nf.make_cpu_half()->process(both, &by_cpu);
        EXPECT_EQ(decision, by_cpu);
        EXPECT_EQ(frame, other);
        const std::string way = nf.explain(decision);
        std::string name = type.outcomes[decision.outcome].name;
        if (decision.outcome != nf::router::Router::kForward) return name;
        return name + " " + way + " " + mac_text({frame[0], frame[1], frame[2], frame[3], frame[4], frame[5]});
    }
    static uint64_t statistic(const nf::NetworkFunction& nf, const std::string& name) {
        for (const nf::Statistic& statistic : nf.statistics())
            if (statistic.name == name) return statistic.value;
        ADD_FAILURE() << name;
        return 0;
    }
};

constexpr const char* kToNeighbour = "{ipv4: {src: 198.51.100.1, dst: 10.0.0.7}, udp: {}}";
constexpr const char* kToFar = "{ipv4: {src: 198.51.100.1, dst: 203.0.113.1}, udp: {}}";

TEST_F(KernelRouterLive, HasAllThatTheKernelHasFromTheStart) {
    NfRunner runner("router", Config::parse(kOptions), live());
    nf::NetworkFunction& nf = runner.nf();
    EXPECT_EQ(outcome_of(nf, kToNeighbour), "forward via 10.0.0.7 on lan0 02:00:00:00:00:07");
    EXPECT_EQ(outcome_of(nf, "{ipv6: {src: '2001:db8:1::1', dst: '2001:db8::7'}, udp: {}}"),
              "forward via 2001:db8::7 on lan0 02:00:00:00:00:27");
    EXPECT_EQ(outcome_of(nf, "{ipv4: {src: 198.51.100.1, dst: 10.0.0.8}, udp: {}}"), "no-neighbour");
    EXPECT_EQ(outcome_of(nf, "{ipv4: {src: 198.51.100.1, dst: 10.1.0.1}, udp: {}}"), "local");
    EXPECT_EQ(outcome_of(nf, "{ipv6: {src: '2001:db8:1::1', dst: '2001:db8::1'}, udp: {}}"), "local");
    EXPECT_EQ(outcome_of(nf, "{ipv4: {src: 198.51.100.1, dst: 10.0.0.7, ttl: 1}, udp: {}}"), "ttl-expired");
    EXPECT_EQ(outcome_of(nf, kToFar), "no-route");
    EXPECT_EQ(statistic(nf, "neighbours"), 3u);
    Rng rng(7);
    check_halves_agree("router", Config::parse(kOptions), random_packets(rng, 500, {}), live());
}

TEST_F(KernelRouterLive, FollowsChanges) {
    std::shared_ptr<nf::NetworkFunction> now = nf::find_type("router")->create(Config::parse(kOptions), live());
    const auto first = now;
    ip("route add 203.0.113.0/24 via 10.1.0.7");
    now = follow(now, kToFar, "forward via 10.1.0.7 on wan0 02:00:00:00:00:17");
    EXPECT_EQ(outcome_of(*first, kToFar), "no-route") << "a generation stays as it is";
    ip("neighbour replace 10.1.0.7 lladdr 02:00:00:00:00:18 dev wan0");
    const auto before = now;
    now = follow(now, kToFar, "forward via 10.1.0.7 on wan0 02:00:00:00:00:18");
    EXPECT_EQ(before->image().arrays()[0].data, now->image().arrays()[0].data) << "the lookup table is the same";
    ip("link set wan0 mtu 1400");
    const std::string longest = "{ipv4: {src: 198.51.100.1, dst: 203.0.113.1}, udp: {}, payload: {repeat: x, count: ";
    now = follow(now, longest + "1373}}", "too-big");
    EXPECT_EQ(outcome_of(*now, longest + "1372}}"), "forward via 10.1.0.7 on wan0 02:00:00:00:00:18");
    // What is yet to be cut is as long as its segments; 28 bytes of headers.
    EXPECT_EQ(outcome_of(*now, longest + "9000}}", kNoPort, 1373), "too-big");
    EXPECT_EQ(outcome_of(*now, longest + "9000}}", kNoPort, 1372), "forward via 10.1.0.7 on wan0 02:00:00:00:00:18");
    ip("route replace prohibit 203.0.113.0/24");
    now = follow(now, kToFar, "kernel");
    ip("route del prohibit 203.0.113.0/24");
    now = follow(now, kToFar, "no-route");
    ip("link del lan0");
    now = follow(now, kToNeighbour, "no-route");
    EXPECT_GE(statistic(*now, "generations"), 5u);
}

TEST_F(KernelRouterLive, LeavesFramesForOthersAloneAndOptionsToTheKernel) {
    std::shared_ptr<nf::NetworkFunction> now = nf::find_type("router")->create(Config::parse(kOptions), live());
    const std::string good = "forward via 10.0.0.7 on lan0 02:00:00:00:00:07";
    const std::string packet = "ipv4: {src: 198.51.100.1, dst: 10.0.0.7}, udp: {}}";
    const auto from = [&](uint16_t port, const std::string& frame) { return outcome_of(*now, frame, port); };
    EXPECT_EQ(from(2, "{eth: {dst: '02:00:00:00:02:00'}, " + packet), good);
    EXPECT_EQ(from(1, "{eth: {dst: '02:00:00:00:01:00'}, " + packet), good);
    EXPECT_EQ(from(1, "{eth: {dst: '02:00:00:00:02:00'}, " + packet), "other-host");
    EXPECT_EQ(from(2, "{eth: {dst: '02:00:00:00:02:01'}, " + packet), "other-host");
    EXPECT_EQ(from(2, "{eth: {dst: 'ff:ff:ff:ff:ff:ff'}, " + packet), "local");
    EXPECT_EQ(from(2, "{eth: {dst: '01:00:5e:00:00:01'}, " + packet), "local");
    EXPECT_EQ(from(0, "{eth: {dst: '02:00:00:00:02:01'}, " + packet), good) << "no interface stands for that port";
    EXPECT_EQ(from(2, "{eth: {dst: '02:00:00:00:02:00'}, vlan: {id: 5}, " + packet), "kernel");
    ip("link set wan0 address 02:00:00:00:02:09");
    now = follow(now, kToNeighbour, good);
    for (int i = 0; i < 500 && from(2, "{eth: {dst: '02:00:00:00:02:09'}, " + packet) != good; ++i) {
        if (auto next = dynamic_cast<nf::Changeable&>(*now).next()) now = std::move(next);
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(from(2, "{eth: {dst: '02:00:00:00:02:09'}, " + packet), good);
    EXPECT_EQ(from(2, "{eth: {dst: '02:00:00:00:02:00'}, " + packet), "other-host");
}

TEST_F(KernelRouterLive, TellsOnceThatThereAreChanges) {
    std::shared_ptr<nf::NetworkFunction> now = nf::find_type("router")->create(Config::parse(kOptions), live());
    std::atomic<int> told{0};
    const auto told_within = [&](int want) {
        for (const auto end = std::chrono::steady_clock::now() + 5s;
             told < want && std::chrono::steady_clock::now() < end;)
            std::this_thread::sleep_for(1ms);
        std::this_thread::sleep_for(50ms);
        return told.load();
    };
    const auto changeable = [&] { return dynamic_cast<nf::Changeable*>(now.get()); };
    while (auto next = changeable()->next()) now = std::move(next);
    changeable()->on_change([&] { ++told; });
    for (const char* last : {"1", "2", "3"}) ip(std::string("route add 203.0.113.") + last + " via 10.1.0.7");
    EXPECT_EQ(told_within(1), 1);
    now = follow(now, "{ipv4: {src: 198.51.100.1, dst: 203.0.113.3}, udp: {}}",
                 "forward via 10.1.0.7 on wan0 02:00:00:00:00:17");
    ip("route del 203.0.113.1");
    EXPECT_EQ(told_within(2), 2) << "the next generation has those before, and hears of what follows";
    now = follow(now, kToFar, "no-route");
    changeable()->on_change({});
    ip("route add 203.0.113.1 via 10.1.0.7");
    now = follow(now, kToFar, "forward via 10.1.0.7 on wan0 02:00:00:00:00:17");
    EXPECT_EQ(told, 2);
}

TEST_F(KernelRouterLive, FollowsRoutesThatGoInSilence) {
    ip("route add 203.0.113.0/24 via 10.1.0.7");
    std::shared_ptr<nf::NetworkFunction> now = nf::find_type("router")->create(Config::parse(kOptions), live());
    EXPECT_EQ(outcome_of(*now, kToFar), "forward via 10.1.0.7 on wan0 02:00:00:00:00:17");
    ip("link set wan0 down && ip link set wan0 up");
    now = follow(now, kToFar, "no-route");
    for (const auto end = std::chrono::steady_clock::now() + 5s;
         statistic(*now, "resyncs") == 0 && std::chrono::steady_clock::now() < end;)
        std::this_thread::sleep_for(1ms);
    EXPECT_GE(statistic(*now, "resyncs"), 1u);
    EXPECT_EQ(outcome_of(*now, kToFar), "no-route");
    EXPECT_EQ(outcome_of(*now, kToNeighbour), "forward via 10.0.0.7 on lan0 02:00:00:00:00:07");
}

TEST_F(KernelRouterLive, FollowsNexthopObjects) {
    const std::string by_7 = "forward via 10.1.0.7 on wan0 02:00:00:00:00:17";
    const std::string by_8 = "forward via 10.1.0.8 on wan0 02:00:00:00:00:18";
    ip("link set lo up");  // a blackhole asks for it
    ip("neighbour add 10.1.0.8 lladdr 02:00:00:00:00:18 dev wan0");
    for (const char* mode : {"0", "1"}) {  // whether the kernel tells their hops with routes that name them
        std::ofstream("/proc/sys/net/ipv4/nexthop_compat_mode") << mode;
        ip("nexthop add id 7 via 10.1.0.7 dev wan0");
        ip("nexthop add id 8 via 10.1.0.8 dev wan0");
        ip("nexthop add id 10 group 7");
        ip("route add 203.0.113.0/24 nhid 10");
        std::shared_ptr<nf::NetworkFunction> now = nf::find_type("router")->create(Config::parse(kOptions), live());
        EXPECT_EQ(outcome_of(*now, kToFar), by_7) << "as it was at the start";
        ip("nexthop replace id 10 group 8");
        now = follow(now, kToFar, by_8);
        ip("nexthop replace id 8 via 10.1.0.7 dev wan0");
        now = follow(now, kToFar, by_7);
        ip("nexthop replace id 8 via 10.1.0.8 dev wan0 && ip nexthop replace id 10 group 7/8,255");
        now = follow(now, kToFar, by_8);  // as almost any packet
        ip("nexthop del id 8");
        now = follow(now, kToFar, by_7);
        ip("nexthop add id 9 blackhole && ip nexthop replace id 10 group 9");
        now = follow(now, kToFar, "no-route");
        ip("nexthop replace id 10 group 7");
        now = follow(now, kToFar, by_7);
        ip("nexthop del id 7");
        now = follow(now, kToFar, "no-route");
        EXPECT_EQ(statistic(*now, "resyncs"), 0u) << "the kernel need not be asked for everything again";
        EXPECT_EQ(statistic(*now, "malformed-messages"), 0u);
        ip("nexthop flush");
    }
}

TEST_F(KernelRouterLive, FollowsNexthopObjectsThatGoInSilence) {
    std::ofstream("/proc/sys/net/ipv4/nexthop_compat_mode") << "0";
    ip("nexthop add id 7 via 10.1.0.7 dev wan0");
    ip("nexthop add id 8 via 10.0.0.7 dev lan0");
    ip("nexthop add id 10 group 7/8");
    ip("route add 203.0.113.0/24 nhid 10");
    ip("route add 198.51.100.0/24 nhid 7");
    std::shared_ptr<nf::NetworkFunction> now = nf::find_type("router")->create(Config::parse(kOptions), live());
    ip("link set wan1 down");  // and so wan0's carrier goes
    now = follow(now, "{ipv4: {src: 203.0.113.1, dst: 198.51.100.1}, udp: {}}", "no-route");
    now = follow(now, kToFar, "forward via 10.0.0.7 on lan0 02:00:00:00:00:07");
    ip("link set wan1 up");
    std::this_thread::sleep_for(500ms);
    while (auto next = dynamic_cast<nf::Changeable&>(*now).next()) now = std::move(next);
    EXPECT_EQ(outcome_of(*now, kToFar), "forward via 10.0.0.7 on lan0 02:00:00:00:00:07");
    EXPECT_EQ(outcome_of(*now, "{ipv4: {src: 203.0.113.1, dst: 198.51.100.1}, udp: {}}"), "no-route");
}

TEST_F(KernelRouterLive, GoesOnWhereTheConfigurationIsReadAgain) {
    std::shared_ptr<nf::NetworkFunction> now = nf::find_type("router")->create(Config::parse(kOptions), live());
    const void* const root = now->image().arrays()[0].data;
    std::shared_ptr<nf::NetworkFunction> again = nf::find_type("router")->create(Config::parse(kOptions),
                                                                                 live(now.get()));
    EXPECT_EQ(again->image().arrays()[0].data, root) << "devices need not copy it again";
    now.reset();
    ip("route add 203.0.113.0/24 via 10.1.0.7");
    again = follow(again, kToFar, "forward via 10.1.0.7 on wan0 02:00:00:00:00:17");
    std::shared_ptr<nf::NetworkFunction> other = nf::find_type("router")->create(
        Config::parse("{kernel: {interfaces: {wan0: port2}}}"), live(again.get()));
    EXPECT_EQ(outcome_of(*other, kToFar), "forward via 10.1.0.7 on wan0 02:00:00:00:00:17");
    EXPECT_EQ(outcome_of(*other, kToNeighbour), "kernel");
}

TEST_F(KernelRouterLive, LoadsManyRoutesAndChangesFewAtATime) {
    const std::string file = testing::TempDir() + "routes.batch";
    const char* const wanted = std::getenv("MILLRACE_KERNEL_ROUTES");  // to measure
    const uint32_t count = wanted != nullptr ? static_cast<uint32_t>(std::atoi(wanted)) : 20000;
    {
        std::ofstream batch(file);
        for (uint32_t i = 0; i < count; ++i)
            batch << "route add " << 20 + (i >> 16) << "." << (i >> 8 & 255) << "." << (i & 255)
                  << ".0/24 via 10.1.0.7\n";
    }
    const auto begin = std::chrono::steady_clock::now();
    const auto lap = [last = begin](const char* what) mutable {
        const auto now = std::chrono::steady_clock::now();
        std::cout << what << ": " << std::chrono::duration<double, std::milli>(now - last).count() << " ms\n";
        last = now;
    };
    auto took = lap;
    std::shared_ptr<nf::NetworkFunction> following = nf::find_type("router")->create(Config::parse(kOptions), live());
    took("made without routes");
    ip("-batch " + file);
    took("ip has set them");
    following = follow(following, "{ipv4: {src: 198.51.100.1, dst: 20.0.0.1}, udp: {}}",
                       "forward via 10.1.0.7 on wan0 02:00:00:00:00:17");
    const uint32_t end = count - 1;
    const std::string last = std::to_string(20 + (end >> 16)) + "." + std::to_string(end >> 8 & 255) + "." +
                             std::to_string(end & 255) + ".1";
    following = follow(following, "{ipv4: {src: 198.51.100.1, dst: " + last + "}, udp: {}}",
                       "forward via 10.1.0.7 on wan0 02:00:00:00:00:17");
    took("followed");
    EXPECT_GE(statistic(*following, "kernel-routes"), count);
    std::shared_ptr<nf::NetworkFunction> now = nf::find_type("router")->create(Config::parse(kOptions), live());
    took("made anew with all routes");
    EXPECT_EQ(statistic(*now, "routes-ipv4"), statistic(*following, "routes-ipv4"));
    for (int i = 0; i < 6; ++i) {
        ip("route add 203.0.113.0/24 via 10.1.0.7");
        took("a route has come");
        now = follow(now, kToFar, "forward via 10.1.0.7 on wan0 02:00:00:00:00:17");
        took("it is there");
        ip("route del 203.0.113.0/24 via 10.1.0.7");
        took("it has gone");
        now = follow(now, kToFar, "no-route");
        took("it is not there");
    }
}

}  // namespace
}  // namespace millrace::test
