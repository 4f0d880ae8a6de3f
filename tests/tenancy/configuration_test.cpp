// Tenants in configurations: where chains are cut, and what is refused.
#include <gtest/gtest.h>

#include "millrace/chain/configuration.hpp"
#include "millrace/chain/tenants/parts.hpp"
#include "millrace/device/device.hpp"
#include "millrace/device/node_counters.hpp"
#include "millrace/exec/transfer/transfer.hpp"
#include "millrace/tenancy/manager/manager.hpp"

namespace millrace::chain {
namespace {

constexpr const char* kHead =
    "version: 1\nports: {in: {null: {}}, out: {null: {}}}\n"
    "tenants: [{name: acme.dpi}, {name: b, user: 7, socket: b.sock}]\n";

Configuration load(const std::string& nfs, const std::string& device = "cpu", const std::string& more = "") {
    LoadOptions options;
    options.device = device;
    options.output_folder = "/tmp/here";
    return parse_configuration(
        kHead + ("chains:\n  c:\n    input: in\n    output: out\n    punt: out\n" + more + "    nfs: " + nfs + "\n"),
        "(test)", options);
}

std::string mistake_of(const std::string& nfs, const std::string& more = "") {
    try {
        load(nfs, "cpu", more);
    } catch (const ConfigError& e) {
        return e.diagnostics().front().message + " | " + e.diagnostics().front().hint;
    }
    return "";
}

std::string node_of(const std::string& tenant, const std::string& more = "") {
    return "{tenant: " + tenant + ", outcomes: {ok: next, bad: drop}, absent: bypass" + more + "}";
}

std::string text_of(const Configuration& configuration) {
    std::string text;
    constexpr const char* kKinds[] = {"node", "output", "port", "chain", "drop", "punt"};
    for (const auto& program : configuration.chains) {
        text += std::to_string(program->index) + " " + program->name + (program->is_tenants ? " (tenant)" : "") + ":";
        for (const Node& node : program->nodes) {
            text += " " + node.name + "(";
            for (const Target& target : node.targets)
                text += std::string(&target == node.targets.data() ? "" : ",") + kKinds[static_cast<int>(target.kind)] +
                        (target.kind == Target::Kind::node || target.kind == Target::Kind::chain
                             ? " " + std::to_string(target.value)
                             : "");
            text += ")";
        }
        text += "\n";
    }
    return text;
}

TEST(TenantFunctions, SayWhereTheyMayRun) {
    const auto function_of = [](const Configuration& configuration) {
        return tenant_of(configuration.chains.front()->nodes.front());
    };
    const Configuration plain = load("[" + node_of("b") + "]"),
                        checked = load("[" + node_of("b", ", runs-on: gpu, isolation: checked") + "]"),
                        process = load("[" + node_of("b", ", runs-on: process") + "]");
    EXPECT_TRUE(function_of(plain)->may_run_on_gpu());
    EXPECT_EQ(function_of(plain)->isolation(), isolation::Isolation::fenced);
    EXPECT_NE(function_of(plain)->summary().find("; runs in its process, or on the run's GPU, fenced"),
              std::string::npos);
    EXPECT_EQ(function_of(checked)->isolation(), isolation::Isolation::checked);
    EXPECT_NE(function_of(checked)->summary().find("GPU, checked"), std::string::npos);
    EXPECT_FALSE(function_of(process)->may_run_on_gpu());
    EXPECT_EQ(function_of(process)->summary().find("GPU"), std::string::npos);
}

TEST(TenantParts, BeginAtTenantsAndBehindThem) {
    for (const char* device : {"cpu", "sim"})
        EXPECT_EQ(text_of(load("[mirror, {mirror: {}, name: m2}, " + node_of("acme.dpi") + ", {mirror: {}, name: m3}]",
                               device)),
                  "0 c: mirror(node 1) m2(chain 1)\n"
                  "1 c/acme.dpi (tenant): acme.dpi(chain 2,drop,chain 2)\n"
                  "2 c/m3: m3(output)\n");
}

TEST(TenantParts, OfTenantsAloneAreTheWholeChain) {
    const Configuration two = load("[" + node_of("b") + ", " + node_of("acme.dpi", ", on: {bad: output}") + "]");
    EXPECT_EQ(text_of(two),
              "0 c (tenant): b(chain 1,drop,chain 1)\n1 c/acme.dpi (tenant): acme.dpi(output,output,output)\n");
    EXPECT_EQ(two.chains[1]->whole, "c");
    EXPECT_EQ(two.promises.size(), 2u);
    EXPECT_EQ(two.tenants[1].user, 7u);
    EXPECT_EQ(two.tenants[1].socket, "/tmp/here/b.sock");
}

TEST(TenantParts, BeginWhereOutcomesLeapOverTenants) {
    // The leap from f1 to f4 makes a cut, which the one from f3 to f5 crosses then.
    const auto wall = [](const std::string& name, const std::string& on) {
        return "{firewall: {default: permit, rules: [permit ip from any]}, name: " + name + on + "}";
    };
    EXPECT_EQ(text_of(load("[" + wall("f1", ", on: {deny: f4}") + ", " + node_of("acme.dpi") + ", " +
                           wall("f3", ", on: {deny: f5}") + ", " + wall("f4", "") + ", " + wall("f5", "") + "]")),
              "0 c: f1(chain 1,chain 3)\n1 c/acme.dpi (tenant): acme.dpi(chain 2,drop,chain 2)\n"
              "2 c/f3: f3(chain 3,chain 4)\n3 c/f4: f4(chain 4,drop)\n4 c/f5: f5(output,drop)\n");
}

TEST(TenantConfiguration, SaysWhatIsWrong) {
    const auto expect = [](const std::string& nfs, const std::string& part, const std::string& more = "") {
        EXPECT_NE(mistake_of(nfs, more).find(part), std::string::npos) << nfs << ": " << mistake_of(nfs, more);
    };
    expect("[" + node_of("acme") + "]", "there is no tenant 'acme'");
    expect("[{tenant: b, absent: drop}]", "'outcomes' is missing");
    expect("[{tenant: b, outcomes: {ok: next}}]", "'absent' is missing");
    expect("[{tenant: b, outcomes: {absent: next}, absent: drop}]", "'absent' is what packets get");
    expect("[" + node_of("b", ", reads: [ip.srce]") + "]", "did you mean 'ip.src'?");
    expect("[" + node_of("b", ", writes: [length]") + "]", "can't change a packet's length");
    expect("[" + node_of("b", ", memory: 1k") + "]", "from 64Ki to 1Gi");
    expect("[" + node_of("b", ", patience: 1us") + "]", "within 100us to 10s");
    expect("[" + node_of("b", ", runs-on: cpu") + "]", "process");
    expect("[" + node_of("b", ", isolation: some") + "]", "fenced");
    expect("[" + node_of("b", ", runs-on: process, isolation: fenced") + "]", "isolated by itself");
    expect("[" + node_of("b", ", lanes: 8") + "]", "lanes");
    expect("[" + node_of("b", ", latency: 5ms") + "]", "promised up to a rate");
    expect("[" + node_of("b", ", rate: 0") + "]", "1 packet a second at least");
    expect("[" + node_of("b", ", rate: 1M, latency: 50us") + "]", "no latency below that can be kept");
    expect("[" + node_of("b", ", rate: 1M, latency: 5ms, patience: 6ms") + "]",
           "latency: 5ms is promised, and for 6ms packets may wait for an answer that does not come");
    expect(
        "[" + node_of("acme.dpi") + ", " + node_of("b", ", patience: 20ms") + "]",
        "latency: 100 ms are promised, and packets may wait 120 ms for tenants that do not answer: acme.dpi 100 ms, b "
        "20 ms",
        "    rate: 1M\n    latency: 100ms\n");
    expect("[" + node_of("b", ", rate: 1M") + "]",
           "rate: 2e+06 packets a second are promised to the chain, and 1e+06 to tenant 'b'", "    rate: 2M\n");
    expect("[" + node_of("b") + ", " + node_of("b", ", name: c") + "]", "stands in chain 'c' already");
    expect("[" + node_of("b") + "]", "goes without 'inner'", "    inner: [gre]\n");
}

TEST(TenantConfiguration, TakesPromisesThatCanHold) {
    const std::string chain = "    rate: 2M\n    latency: 100ms\n";
    EXPECT_EQ(mistake_of("[mirror, " + node_of("b", ", rate: 1M, latency: 5ms") + "]", chain), "")
        << "not all packets need come to it";
    EXPECT_EQ(mistake_of("[" + node_of("b", ", rate: 1M, latency: 5ms, patience: 5ms") + "]"), "");
    const Configuration made = load("[" + node_of("b", ", rate: 1M, latency: 5ms") + "]");
    const TenantFunction& function = *tenant_of(made.chains[0]->nodes[0]);
    EXPECT_EQ(function.promise().rate, 1e6);
    EXPECT_TRUE(function.summary().ends_with("; is promised 1000000 packets a second within 5 ms"))
        << function.summary();
    EXPECT_EQ(function.patience(), std::chrono::milliseconds(5)) << "no longer than its latency";
    EXPECT_EQ(tenant_of(load("[" + node_of("b", ", rate: 1M, latency: 5s") + "]").chains[0]->nodes[0])->patience(),
              std::chrono::milliseconds(100));
    // 64 tenants may each take their part of what the chain was promised, and not one more.
    std::string tenants, nodes;
    for (int i = 0; i < 64; ++i) {
        tenants += ", {name: t" + std::to_string(i) + "}";
        nodes += (i > 0 ? ", " : "") + node_of("t" + std::to_string(i), ", patience: 1ms");
    }
    for (const auto& [latency, part] : {std::pair("64ms", ""), std::pair("63ms", "packets may wait 64 ms")}) {
        std::string why;
        try {
            parse_configuration("version: 1\nports: {in: {null: {}}, out: {null: {}}}\ntenants: [{name: b}" + tenants +
                                    "]\nchains: {c: {input: in, output: out, rate: 1M, latency: " + latency +
                                    ", nfs: [" + nodes + "]}}\n",
                                "(test)");
        } catch (const ConfigError& e) {
            why = e.diagnostics().front().message;
        }
        EXPECT_EQ(why.empty(), std::string(part).empty()) << why;
        EXPECT_NE(why.find(part), std::string::npos) << why;
    }
}

TEST(TenantConfiguration, HasRoomForPacketsInTheMemoryOfATenant) {
    const Configuration configuration = load("[" + node_of("b", ", reads: [payload], memory: 1Mi") + "]");
    const TenantFunction& function = *tenant_of(configuration.chains[0]->nodes[0]);
    const tenancy::Shape one = tenancy::shape_of(function, 1, {}), four = tenancy::shape_of(function, 4, {});
    EXPECT_TRUE(one.sound() && four.sound());
    EXPECT_LE(tenancy::all_question_bytes(one) + tenancy::all_answer_bytes(one), 1u << 20);
    EXPECT_LE(tenancy::all_question_bytes(four) + tenancy::all_answer_bytes(four), 1u << 20);
    EXPECT_GT(one.packets, four.packets);
    EXPECT_THROW(tenancy::shape_of(function, 64, {}), ConfigError);
}

TEST(ChainsInOnePiece, BringHeadsUnlessSomebodyAsksForMore) {
    const auto prefixes_of = [](const std::string& keys) {
        return exec::prefixes_of(load("[" + node_of("b", keys) + "]", "sim").chains.front()->undivided->plan);
    };
    const exec::Prefixes none = prefixes_of(""), some = prefixes_of(", reads: [ip.ttl], writes: [ip.ttl]"),
                         payload = prefixes_of(", reads: [payload]");
    EXPECT_EQ(none.in, kUndividedHead);
    EXPECT_EQ(none.back, 0u) << "nobody writes";
    EXPECT_EQ(some.in, kUndividedHead);
    EXPECT_EQ(some.back, kUndividedHead) << "fields lie anywhere in the head";
    EXPECT_EQ(payload.in, kWholeFrame);
    EXPECT_EQ(payload.back, 0u);
}

TEST(ChainsInOnePiece, SayWhyThePacketsThatTheCpuHasAreAbsent) {
    const Configuration configuration = load("[" + node_of("b") + "]");
    const Node& node = configuration.chains.front()->nodes.front();
    for (const auto& [headers, why] : {std::pair{uint16_t{0}, AbsentFor::away},
                                       {uint16_t{kUndividedHead}, AbsentFor::away},
                                       {uint16_t{kUndividedHead + 1}, AbsentFor::too_long}}) {
        Layers layers;
        layers.payload_offset = headers;
        Packet packet;
        packet.set_layers(layers);
        for (const auto process : node.type->process) {
            const Decision decision = process(packet, node.nf->image().tables());
            EXPECT_EQ(decision.outcome, tenant_of(node)->absent());
            EXPECT_EQ(decision.detail, static_cast<uint32_t>(why)) << headers;
        }
    }
}

TEST(ChainsInOnePiece, AreThoseThatADeviceCanTakeSo) {
    const auto undivided = [](const std::string& nfs, const std::string& device = "sim", const std::string& more = "") {
        return load(nfs, device, more).chains.front()->undivided;
    };
    const std::string nfs = "[mirror, " + node_of("b") + ", {mirror: {}, name: last}]";
    const auto whole = undivided(nfs);
    ASSERT_NE(whole, nullptr);
    EXPECT_EQ(whole->name, "c");
    ASSERT_EQ(whole->nodes.size(), 3u);
    EXPECT_EQ(whole->nodes[1].target(0), (Target{Target::Kind::node, 2}));
    EXPECT_FALSE(whole->plan.whole_frames);
    EXPECT_EQ(whole->plan.least_head, kUndividedHead) << "who decides elsewhere on a packet finds its tenant absent";
    EXPECT_EQ(whole->max_batch, kMaxUndividedBatch);
    using Kind = device::Step::Kind;
    std::vector<Kind> kinds;
    for (const device::Step& step : device::plan_steps(*whole, {})) kinds.push_back(step.kind);
    EXPECT_EQ(kinds, (std::vector{Kind::nodes, Kind::confined, Kind::nodes}));
    const auto alone = device::plan_steps(*undivided("[" + node_of("b") + ", " + node_of("acme.dpi") + "]"), {});
    ASSERT_EQ(alone.size(), 1u) << "neighbours are one step, which parses and ends, too";
    EXPECT_EQ(alone.front().kind, Kind::confined);
    EXPECT_TRUE(alone.front().begin && alone.front().end);
    EXPECT_EQ(alone.front().last, 2u);
    // A device counts three more of each tenant's node, and has room for 32.
    for (const auto& [outcomes, fits] : {std::pair{28, true}, {29, false}, {30, false}}) {
        std::string names;
        for (int i = 0; i < outcomes; ++i) names += (i > 0 ? ", o" : "o") + std::to_string(i) + ": next";
        const auto one = undivided("[{tenant: b, outcomes: {" + names + "}, absent: drop}]");
        EXPECT_EQ(one != nullptr, fits) << outcomes;
        if (one != nullptr) {
            EXPECT_EQ(device::counters_of_node(*one), size_t{millrace::kMaxOutcomes});
        }
    }
    EXPECT_EQ(undivided(nfs, "cpu"), nullptr);
    EXPECT_EQ(undivided("[mirror]"), nullptr) << "it has no parts";
    EXPECT_EQ(undivided("[" + node_of("b", ", runs-on: process") + "]"), nullptr);
    EXPECT_EQ(undivided("[" + node_of("b", ", rate: 1k, latency: 1s") + "]"), nullptr);
    EXPECT_EQ(undivided(nfs, "sim", "    rate: 1k\n    latency: 1s\n"), nullptr);
    EXPECT_EQ(undivided("[{policer: {per: flow, rate: 1Gbps}}, " + node_of("b") + "]"), nullptr) << "it has an order";
    std::string ports, tenants, chains;
    for (int i = 0; i < 1000; ++i) {
        const std::string n = std::to_string(i);
        ports += ", in" + n + ": {null: {}}";
        tenants += "  - {name: t" + n + "}\n";
        chains += "  c" + n + ": {input: in" + n + ", output: out, nfs: [" + node_of("t" + n) + "]}\n";
    }
    LoadOptions options;
    options.device = "sim";
    options.output_folder = "/tmp/here";
    const Configuration many = parse_configuration(
        "version: 1\nports: {out: {null: {}}" + ports + "}\ntenants:\n" + tenants + "chains:\n" + chains, "(test)",
        options);
    EXPECT_EQ(std::ranges::count_if(many.chains, [](const auto& chain) { return chain->undivided != nullptr; }), 16)
        << "each has an engine of its own, for each worker";
    std::string outcomes;
    for (int i = 0; i < 30; ++i) outcomes += (i > 0 ? ", o" : "o") + std::to_string(i) + ": next";
    EXPECT_EQ(undivided("[{tenant: b, outcomes: {" + outcomes + "}, absent: drop}]"), nullptr);
}

}  // namespace
}  // namespace millrace::chain
