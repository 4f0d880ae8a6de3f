// Every kind of NF and every example chain compiles for the newest generation of GPUs that was measured, and one chain
// for those before and after. No GPU is needed.
#include <gtest/gtest.h>

#include <filesystem>

#include "millrace/chain/classified.hpp"
#include "millrace/chain/configuration.hpp"
#include "millrace/device/cuda/compiler.hpp"
#include "support/data.hpp"
#include "support/engine_runner.hpp"

namespace millrace::device::cuda {
namespace {

/// One compiler for all tests, so that each NF is compiled once for each architecture; null, and why, without NVRTC.
std::pair<Compiler*, std::string> shared_compiler() {
    static std::string why;
    static const std::unique_ptr<Compiler> compiler = []() -> std::unique_ptr<Compiler> {
        // Wheels are looked for below the working directory.
        std::filesystem::current_path(test::source_path(""));
        try {
            return std::make_unique<Compiler>();
        } catch (const CompileError& e) {
            why = e.what();
            return nullptr;
        }
    }();
    return {compiler.get(), why};
}

struct ChainCompile {
    const char* name;
    const char* architecture;
    bool every_size;  ///< also the kernels for short frames and few packets, which have other lanes
};

class CompileChain : public testing::TestWithParam<ChainCompile> {};

TEST_P(CompileChain, ForAnArchitecture) {
    const auto& [name, architecture, every_size] = GetParam();
    const auto [compiler, why] = shared_compiler();
    if (compiler == nullptr) GTEST_SKIP() << why;
    chain::LoadOptions options;
    options.device = "sim";
    const chain::Configuration configuration = chain::load_configuration(test::source_path("examples/") + name,
                                                                         options);
    for (const auto& program : chain::programs_of(configuration)) {
        std::vector<StepOptions> ways = {{.mode = Mode::fused, .gather = true, .pack = true}};
        // The same NFs in other kernels: one chain with an order tells, and the one that compiles fastest.
        if (std::string(name) == "switch.yaml")
            ways.insert(ways.end(), {{.mode = Mode::pipelined, .gather = true, .pack = true},
                                     {.mode = Mode::fused, .timed = true}});
        if (std::string(name) == "gateway.yaml" && std::string(architecture) == "sm_90")
            ways.push_back({.mode = Mode::persistent, .gather = true, .pack = true});
        for (const StepOptions& steps : ways) {
            const std::vector<Step> planned = plan_steps(*program, steps);
            const ProgramSource source = make_program_source(*program, planned);
            EXPECT_EQ(source.usual.chain.text.find("timer") != std::string::npos, steps.timed)
                << "what is not asked for costs nothing";
            std::vector<const ChainSource*> parts{&source.usual};
            if (every_size && steps.mode != Mode::persistent)
                parts.insert(parts.end(), {&source.one_lane, &source.most_lanes});
            const std::vector<std::string> cubins = compiler->build(parts, architecture);
            ASSERT_EQ(cubins.size(), parts.size());
            for (size_t i = 0; i < parts.size(); ++i) {
                // A cubin is an ELF file that holds the kernels by name.
                ASSERT_TRUE(cubins[i].starts_with("\177ELF"));
                EXPECT_EQ(parts[i]->kernels.size(), source.usual.kernels.size());
                for (const Kernel& kernel : parts[i]->kernels)
                    EXPECT_NE(cubins[i].find(kernel.name), std::string::npos) << kernel.name;
            }
            // Profilers show kernels by these names, which say what lanes they have.
            for (const auto& [own, prefix] : {std::pair(&source.one_lane, "millrace_one_lane_step_"),
                                              std::pair(&source.most_lanes, "millrace_most_lanes_step_")})
                for (size_t i = 0; i < own->kernels.size(); ++i)
                    EXPECT_TRUE(planned[i].in_order() ? own->kernels[i].name.empty()
                                                      : own->kernels[i].name.starts_with(prefix));
            if (steps.mode == Mode::persistent) EXPECT_TRUE(source.most_lanes.kernels.empty());
        }
    }
}

// Every size of a chain shows where it has all kinds of functions, and where it is the fastest to compile. The rest has
// the same functions, and its own kernels around them.
INSTANTIATE_TEST_SUITE_P(
    Examples, CompileChain,
    testing::Values(ChainCompile{"gateway.yaml", "sm_80", false}, ChainCompile{"gateway.yaml", "sm_90", true},
                    ChainCompile{"branches.yaml", "sm_90", false}, ChainCompile{"switch.yaml", "sm_90", true},
                    ChainCompile{"policer.yaml", "sm_100", false}, ChainCompile{"stateful.yaml", "sm_90", false}),
    [](const auto& info) {
        std::string name = std::string(info.param.name) + "_" + info.param.architecture;
        for (char& c : name)
            if (c == '.') c = '_';
        return name;
    });

/// A block has 48 KiB of memory for what kernels declare, however many functions number and commit packets in one.
TEST(Compile, NumbersForSeveralFunctionsInTheMemoryOfOne) {
    const auto [compiler, why] = shared_compiler();
    if (compiler == nullptr) GTEST_SKIP() << why;
    const std::string sa = R"({name: t, direction: DIRECTION, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1,
        cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f32539163, nonce: "006cb6db",
        auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98)";
    const auto gateway = [&](const char* name, const char* direction, const char* more) {
        std::string text = sa;
        text.replace(text.find("DIRECTION"), 9, direction);
        return std::string("{ipsec: {sas: [") + text + more + "]}, name: " + name + "}";
    };
    const std::string nfs = "[" + gateway("out", "out", "}") + ", " + gateway("in", "in", ", allow: [{}]}") + ", " +
                            gateway("again", "in", ", allow: [{}]}") + "]";
    const auto configuration = test::make_configuration(nfs, "sim");
    const auto& program = *configuration.chains[0];
    for (const auto& node : program.nodes) EXPECT_EQ(node.type->name, "ipsec");
    const auto steps = plan_steps(program, {.mode = Mode::persistent, .gather = true, .pack = true});
    const ProgramSource source = make_program_source(program, steps);
    EXPECT_TRUE(compiler->build({&source.usual}, "sm_90").front().starts_with("\177ELF"));
}

TEST(Compile, EveryDeviceHalfOfTheIpsecGateway) {
    const auto [compiler, why] = shared_compiler();
    if (compiler == nullptr) GTEST_SKIP() << why;
    const std::string key = "7e24067817fae0d743d6ce1f32539163";
    for (const auto& [type, cipher] : std::vector<std::pair<std::string, std::string>>{
             {"ipsec", "aes-128-cbc, key: " + key + ", auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98"},
             {"ipsec:gcm", "aes-128-gcm, nonce: 01020304, esn: true, key: " + key},
             {"ipsec:complete", "aes-256-gcm, nonce: 01020304, encapsulation: udp, key: " + key + key}}) {
        const std::string sa = "{spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, cipher: " + cipher;
        std::string back = sa;  // with a key of its own
        back.replace(back.find("7e24"), 4, "8e24");
        const auto configuration = test::make_configuration("[ipsec: {sas: [" + sa + ", name: a, direction: out}, " +
                                                                back + ", name: b, direction: in, allow: [{}]}]}]",
                                                            "sim");
        const auto& program = *configuration.chains[0];
        EXPECT_EQ(program.nodes[0].type->name, type);
        if (type == "ipsec")
            continue;  // NumbersForSeveralFunctionsInTheMemoryOfOne compiles it, and the gateway's chain
        const auto steps = plan_steps(program, {.mode = Mode::fused, .gather = true, .pack = true});
        const ProgramSource source = make_program_source(program, steps);
        EXPECT_TRUE(compiler->build({&source.usual}, "sm_90").front().starts_with("\177ELF")) << type;
    }
}

/// Functions with state per key, one behind the other, and one that chooses by flow.
TEST(Compile, FunctionsThatKnowFlows) {
    const auto [compiler, why] = shared_compiler();
    if (compiler == nullptr) GTEST_SKIP() << why;
    const auto configuration = test::make_configuration(
        "[policer: {per: flow, rate: 1Mbps}, conntrack: {zones: vlan}, {balancer: {services: [{address: 192.0.2.10, "
        "protocol: tcp, port: 80, back-ends: [{address: 10.0.0.11}]}]}}, {nat: {inside: 10.0.0.0/8, pool: "
        "198.51.100.1, "
        "ports: 1024-2047}}, "
        "{nids: {rule: ['alert tcp any any -> any 80 (flow:established,to_server; flowbits:set,a; "
        "content:\"x\"; sid:1;)']}}, {tunnel: {local: 192.0.2.1, tunnels: {a: {kind: gre, remote: 192.0.2.2, to: "
        "10.1.0.0/16}}}}, {ipfix: {collector: 192.0.2.1}}]",
        "sim");
    const auto& program = *configuration.chains[0];
    const ProgramSource source = make_program_source(
        program, plan_steps(program, {.mode = Mode::fused, .gather = true, .pack = true}));
    EXPECT_TRUE(compiler->build({&source.usual}, "sm_90").front().starts_with("\177ELF"));
}

TEST(Compile, SaysWhatIsWrongWithASource) {
    const auto [compiler, why] = shared_compiler();
    if (compiler == nullptr) GTEST_SKIP() << why;
    try {
        compiler->compile({"broken.cu", "#include \"millrace/packet/packet.hpp\"\nint f() { return undeclared; }\n"},
                          "sm_90");
        FAIL() << "a broken source compiled";
    } catch (const CompileError& e) {
        EXPECT_NE(std::string(e.what()).find("undeclared"), std::string::npos) << e.what();
    }
}

}  // namespace
}  // namespace millrace::device::cuda
