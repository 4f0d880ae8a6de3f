// Every kind of NF and every example chain compiles for the newest generation of GPUs that was measured, and one chain
// for those before and after. No GPU is needed.
#include <fmt/format.h>
#include <gtest/gtest.h>

#include <array>
#include <filesystem>
#include <set>

#include "millrace/chain/classification/classified.hpp"
#include "millrace/chain/configuration.hpp"
#include "millrace/device/cuda/compile/compiler.hpp"
#include "millrace/isolation/kernel.hpp"
#include "support/data.hpp"
#include "support/engine_runner.hpp"
#include "support/test_folder.hpp"

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

/// The lanes that kernels are made for: ProgramSource.
enum class Lanes { usual, one, most };

/// What is linked for an architecture.
struct LinkedWay {
    StepOptions steps;
    Lanes lanes = Lanes::usual;
    bool links = true;  ///< else NVRTC takes all of it, and nothing is linked
};

struct ChainCompile {
    const char* name;
    const char* architecture;
    std::vector<LinkedWay> linked;
};
void PrintTo(const ChainCompile& compile, std::ostream* out) {
    *out << compile.name << " for " << compile.architecture;
}

constexpr StepOptions kFused{.mode = Mode::fused, .gather = true, .pack = true};
constexpr StepOptions kPipelined{.mode = Mode::pipelined, .gather = true, .pack = true};
constexpr StepOptions kTimed{.mode = Mode::fused, .timed = true};
constexpr StepOptions kPersistent{.mode = Mode::persistent, .gather = true, .pack = true};

class CompileChain : public testing::TestWithParam<ChainCompile> {};

/// Units that NVRTC has taken, with their architecture.
std::set<std::string>& taken() {
    static std::set<std::string> all;
    return all;
}
std::vector<TranslationUnit> units_of(const ChainSource& source) {
    std::vector<TranslationUnit> units = source.nfs;
    units.push_back(source.chain);
    return units;
}

/// Those of all cubins, by step.
std::vector<Kernel> kernels_of(const ChainSource& source) {
    std::vector<Kernel> all;
    for (const std::vector<Kernel>& cubin : source.cubins) all.insert(all.end(), cubin.begin(), cubin.end());
    std::ranges::sort(all, {}, &Kernel::step);
    return all;
}

void expect_units(const Compiler& compiler, const ChainSource& source, const std::string& architecture) {
    for (const TranslationUnit& unit : units_of(source))
        if (taken().insert(architecture + unit.text).second) {
            EXPECT_FALSE(compiler.compile(unit, architecture).empty()) << unit.name;
        }
}

void expect_kernels(Compiler& compiler, const ChainSource& source, const std::string& architecture) {
    const Cubins cubins = compiler.build({&source}, architecture).front();
    for (const TranslationUnit& unit : units_of(source)) taken().insert(architecture + unit.text);
    ASSERT_EQ(cubins.size(), source.cubins.size());
    const std::vector<Kernel> all = kernels_of(source);
    for (size_t i = 0; i < cubins.size(); ++i) {
        // A cubin is an ELF file with a section for each of its kernels.
        ASSERT_TRUE(cubins[i].starts_with("\177ELF"));
        for (const Kernel& kernel : all) {
            const bool has = cubins[i].find(".text." + kernel.name + '\0') != std::string::npos;
            const bool own = std::any_of(source.cubins[i].begin(), source.cubins[i].end(),
                                         [&](const Kernel& one) { return one.name == kernel.name; });
            EXPECT_EQ(has, own) << kernel.name << " in cubin " << i;
        }
    }
}

TEST_P(CompileChain, ForAnArchitecture) {
    const auto& [name, architecture, linked] = GetParam();
    const auto [compiler, why] = shared_compiler();
    if (compiler == nullptr) GTEST_SKIP() << why;
    chain::LoadOptions options;
    options.device = "sim";
    const chain::Configuration configuration = chain::load_configuration(test::source_path("examples/") + name,
                                                                         options);
    for (const auto& program : chain::programs_of(configuration)) {
        for (const auto& [steps, lanes, links] : linked) {
            const std::vector<Step> planned = plan_steps(*program, steps);
            const ProgramSource source = make_program_source(*program, planned);
            EXPECT_EQ(source.usual.chain.text.find("timer") != std::string::npos, steps.timed)
                << "what is not asked for costs nothing";
            const std::array sources{&source.usual, &source.one_lane, &source.most_lanes};
            const ChainSource& own = *sources[static_cast<size_t>(lanes)];
            EXPECT_FALSE(own.cubins.empty());
            EXPECT_EQ(kernels_of(source.usual).size(), steps.mode == Mode::persistent ? 1 : planned.size());
            if (links) expect_kernels(*compiler, own, architecture);
            for (const ChainSource* other : sources)
                if (!other->cubins.empty()) expect_units(*compiler, *other, architecture);
            // Profilers show kernels by these names, which say what lanes they have: only what is different with others
            // is there for others.
            for (const auto& [some, prefix] : {std::pair(&source.one_lane, "millrace_one_lane_step_"),
                                               std::pair(&source.most_lanes, "millrace_most_lanes_step_")})
                for (const Kernel& kernel : kernels_of(*some)) {
                    EXPECT_EQ(kernel.name,
                              prefix + std::to_string(kernel.step) + "_of_" + std::to_string(planned.size()));
                    EXPECT_EQ(planned[kernel.step].kind, Step::Kind::nodes);
                }
            if (steps.mode == Mode::persistent) {
                EXPECT_TRUE(source.most_lanes.cubins.empty());
            }
        }
    }
}

// NVRTC sees everything that each chain has, for all lanes and every mode. The linker takes nine times as long: what
// costs most, IPsec, is linked in one kernel that stays by a test below, and the NIDS in a fused one; other ways with
// cheap functions. GPUs link the rest (scripts/gpu-test).
INSTANTIATE_TEST_SUITE_P(
    Examples, CompileChain,
    testing::Values(
        ChainCompile{"gateway.yaml", "sm_80", {{kFused, Lanes::one, false}}},
        ChainCompile{"gateway.yaml", "sm_90", {{kFused, Lanes::most, false}, {kPersistent, Lanes::usual, false}}},
        ChainCompile{"branches.yaml", "sm_90", {{kFused}}},
        ChainCompile{"switch.yaml", "sm_90", {{kFused}, {kPipelined, Lanes::one}, {kTimed, Lanes::most, false}}},
        ChainCompile{"policer.yaml", "sm_80", {{kFused}}}, ChainCompile{"policer.yaml", "sm_100", {{kFused}}},
        ChainCompile{"stateful.yaml", "sm_90", {{kFused}}}),
    [](const auto& info) {
        std::string name = std::string(info.param.name) + "_" + info.param.architecture;
        for (char& c : name)
            if (c == '.') c = '_';
        return name;
    });

/// The IPsec gateway's device halves. A block has 48 KiB of memory for what kernels declare, however many functions
/// number and commit packets in one.
TEST(Compile, IpsecGatewaysInTheMemoryOfOneBlock) {
    const auto [compiler, why] = shared_compiler();
    if (compiler == nullptr) GTEST_SKIP() << why;
    const std::string key = "7e24067817fae0d743d6ce1f32539163", auth_key = "1f2e3d4c5b6a79880123456789abcdeffedcba98";
    const std::vector<std::pair<std::string, std::string>> gateways = {
        {"ipsec", "aes-128-ctr, nonce: \"006cb6db\", key: " + key + ", auth-key: " + auth_key},
        {"ipsec:gcm", "aes-128-gcm, nonce: 01020304, esn: true, key: " + key}};
    std::string nfs;
    for (const auto& [type, cipher] : gateways) {
        const std::string sa = "{spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, cipher: " + cipher;
        std::string back = sa;  // with a key of its own
        back.replace(back.find("7e24"), 4, "8e24");
        nfs += (nfs.empty() ? "[" : ", ") + ("{name: n" + std::to_string(nfs.size())) + ", ipsec: {sas: [" + sa +
               ", name: a, direction: out}, " + back + ", name: b, direction: in, allow: [{}]}]}}";
    }
    const auto configuration = test::make_configuration(nfs + "]", "sim");
    const auto& program = *configuration.chains[0];
    ASSERT_EQ(program.nodes.size(), gateways.size());
    for (size_t i = 0; i < gateways.size(); ++i) EXPECT_EQ(program.nodes[i].type->name, gateways[i].first);
    const auto steps = plan_steps(program, {.mode = Mode::persistent, .gather = true, .pack = true});
    const ProgramSource source = make_program_source(program, steps);
    EXPECT_EQ(kernels_of(source.usual).size(), 1);
    expect_kernels(*compiler, source.usual, "sm_90");
}

/// Device halves that are in no chain which is linked here: GPUs do that (scripts/gpu-test).
TEST(Compile, EveryDeviceHalfOfAFunction) {
    const auto [compiler, why] = shared_compiler();
    if (compiler == nullptr) GTEST_SKIP() << why;
    const auto nids = [](const std::string& streams, const std::string& asked) {
        return "{nids: {flows: {max-flows: 64, streams: " + streams +
               "}, rule: ['alert http any any -> any any (flow:established,to_server; flowbits:set,a; " + asked +
               "content:\"x\"; sid:1;)']}}";
    };
    const std::string numbers = "stream_size:client,<,9; ", http = "{http: usual}";
    const std::string sa =
        "{spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1, cipher: aes-256-gcm, nonce: 01020304, "
        "encapsulation: udp, name: a, direction: out, key: "
        "7e24067817fae0d743d6ce1f325391637e24067817fae0d743d6ce1f32539163}";
    for (const auto& [type, nf] :
         std::vector<std::pair<std::string, std::string>>{{"nids:flows", nids("none", "")},
                                                          {"nids:flow-numbers", nids("none", numbers)},
                                                          {"nids:streams", nids("{http: none}", "")},
                                                          {"nids:stream-numbers", nids("{http: none}", numbers)},
                                                          {"nids:messages", nids(http, "http.uri; ")},
                                                          {"nids:message-numbers", nids(http, numbers + "http.uri; ")},
                                                          {"ipsec:complete", "{ipsec: {sas: [" + sa + "]}}"}}) {
        const auto configuration = test::make_configuration("[" + nf + "]", "sim");
        const auto& program = *configuration.chains[0];
        EXPECT_EQ(program.nodes[0].type->name, type);
        const ProgramSource source = make_program_source(program, plan_steps(program, kFused));
        expect_units(*compiler, source.usual, "sm_90");
    }
}

/// Functions with state per key, one behind the other, and one that chooses by flow.
TEST(Compile, FunctionsThatKnowFlows) {
    const auto [compiler, why] = shared_compiler();
    if (compiler == nullptr) GTEST_SKIP() << why;
    const auto configuration = test::make_configuration(
        "[policer: {per: flow, rate: 1Mbps}, conntrack: {zones: vlan}, {balancer: {services: [{address: 192.0.2.10, "
        "protocol: tcp, port: 80, back-ends: [{address: 10.0.0.11}]}]}}, {nat: {inside: 10.0.0.0/8, "
        "pool: 198.51.100.1, ports: 1024-2047}}, "
        "{tunnel: {local: 192.0.2.1, tunnels: {a: {kind: gre, remote: 192.0.2.2, to: 10.1.0.0/16}}}}, {nat64: {pool: "
        "198.51.100.2, ports: 1024-2047}}, {ipfix: {collector: 192.0.2.1}}, "
        "{reject: {with: no-route, from: 192.0.2.1}}]",
        "sim");
    const auto& program = *configuration.chains[0];
    const ProgramSource source = make_program_source(
        program, plan_steps(program, {.mode = Mode::fused, .gather = true, .pack = true}));
    EXPECT_GT(kernels_of(source.usual).size(), 10u) << "names of two digits";
    expect_kernels(*compiler, source.usual, "sm_90");
}

/// A chain in one piece, with functions of tenants.
TEST(Compile, WaysThroughWindowsOfTenants) {
    const auto [compiler, why] = shared_compiler();
    if (compiler == nullptr) GTEST_SKIP() << why;
    const test::TestFolder folder;
    chain::LoadOptions options;
    options.device = "sim";
    options.output_folder = folder.path();
    const std::string node =
        ", reads: [headers, payload], writes: [ip.dst], outcomes: {a: next, b: drop}, absent: drop}";
    const auto configuration = chain::parse_configuration(
        "version: 1\nports: {in: {null: {}}, out: {null: {}}}\ntenants: [{name: t}, {name: u}]\nchains:\n  c: {input: "
        "in, "
        "output: out, nfs: [mirror, {tenant: t" +
            node + ", {tenant: u" + node + ", {mirror: {}, name: last}]}\n",
        "(test)", options);
    const auto whole = configuration.chains.front()->undivided;
    ASSERT_NE(whole, nullptr);
    const auto steps = plan_steps(*whole, {.mode = Mode::fused, .gather = true});
    const ProgramSource source = make_program_source(*whole, steps);
    EXPECT_EQ(kernels_of(source.usual).size() + 1, steps.size());
    expect_kernels(*compiler, source.usual, "sm_90");

    // Modules of both tenants have the same names, such as might stand in what we write around them.
    std::string variables;
    for (const char* const name :
         {"packet", "own", "given", "handle", "tables", "decision", "decisions", "count", "END"})
        variables += fmt::format(".const .u32 {} = 7;\n", name);
    const isolation::FencedText fenced{
        ".version 8.8\n.target sm_90\n.address_size 64\n" + variables +
            ".func (.param .align 4 .b8 said[8]) process(.param .b64 first, .param .b64 second)\n{\n.reg .b32 %r<2>;\n"
            "ld.const.u32 %r1, [own];\nst.param.b32 [said], %r1;\nst.param.b32 [said+4], 0;\nret;\n}\n",
        "process", 4};
    EXPECT_TRUE(compiler->assemble(isolation::with_kernel(fenced), "sm_90").starts_with("\177ELF"));
    const ConfinedSource confined = make_confined_source(*whole, steps);
    ASSERT_EQ(confined.functions, 2u);
    ASSERT_EQ(confined.kernels.size(), 1u) << "neighbours are in one kernel";
    const std::string unit = compiler->compile(confined.unit, "sm_90");
    std::vector<std::string> functions{isolation::as_function(fenced, 0), isolation::as_function(fenced, 1)};
    const std::string cubin = compiler->assemble_with(unit, functions, "sm_90");
    EXPECT_TRUE(cubin.starts_with("\177ELF"));
    EXPECT_NE(cubin.find(confined.kernels.front().name), std::string::npos);
    functions.pop_back();
    try {
        compiler->assemble_with(unit, functions, "sm_90");
        FAIL() << "a function is missing";
    } catch (const CompileError& e) {
        EXPECT_NE(std::string(e.what()).find(isolation::function_name(1)), std::string::npos) << e.what();
    }
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
