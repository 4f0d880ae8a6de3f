// Flows in several parts, some of which have gone or are others now: the same packets on every device.
#include <fstream>

#include "millrace/nf/changeable.hpp"
#include "millrace/nf/switch/device.hpp"
#include "nf/switch/scratch.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"

namespace millrace {
namespace {

using namespace millrace::test;
using nf::flow_switch::Switch;

std::string number(Rng& rng, uint64_t below) { return std::to_string(rng() % below); }

/// Flows that overlap, hide each other and have the same match with other priorities.
std::string random_change(Rng& rng, bool wide) {
    std::string match = "priority=" + number(rng, 9) + (rng() % 4 == 0 ? ",udp6" : ",udp");
    if (match.ends_with("udp") && rng() % 2)
        match += ",nw_src=10.0.0." + number(rng, 16) + "/" + std::to_string(28 + rng() % 5);
    if (match.ends_with("udp6") && rng() % 2) match += ",ipv6_src=2001:db8::" + number(rng, 8);
    if (rng() % 2) match += ",tp_dst=" + number(rng, 16);
    if (wide && rng() % 2) match += ",metadata=0";
    const std::string actions = ",actions=mod_nw_ttl:" + std::to_string(1 + rng() % 200) +
                                ",output:" + std::to_string(1 + rng() % 3);
    switch (rng() % 8) {
        case 0:
        case 1: return "delete_strict " + match;
        case 2: return "modify_strict " + match + actions;
        default: return "add " + match + actions;
    }
}

class Parts : public testing::TestWithParam<std::tuple<const char*, bool>> {};

TEST_P(Parts, GiveTheSamePacketsOnEveryDevice) {
    const auto [engine, wide] = GetParam();
    Rng rng(11);
    const std::string file = scratch_file("parts", "");
    const auto append = [&](unsigned changes) {
        std::ofstream out(file, std::ios::app);
        while (changes-- > 0) out << random_change(rng, wide) << "\n";
    };
    std::vector<Frame> frames;
    for (unsigned i = 0; i < 400; ++i) {
        const std::string last = number(rng, 17), udp = ", udp: {dst: " + number(rng, 17) + "}}";
        frames.push_back(build_packet(rng() % 4 == 0 ? "{ipv6: {src: '2001:db8::" + last + "'}" + udp
                                                     : "{ipv4: {src: 10.0.0." + last + "}" + udp));
    }
    append(300);
    for (const std::string& name : offload_devices()) {
        MILLRACE_NEEDS_DEVICE(name);
        chain::Configuration configuration = make_configuration(
            "[switch: {engine: " + std::string(engine) + ", changes: " + file + "}]", name);
        unsigned most_parts = 0;
        for (unsigned round = 0; round < 6; ++round) {
            for (const unsigned changes : {600u, 90u, 9u}) {
                auto next = dynamic_cast<nf::Changeable&>(*configuration.chains[0]->nodes[0].nf).next();
                if (next != nullptr) {
                    auto program = std::make_shared<chain::Program>(*configuration.chains[0]);
                    program->nodes[0].nf = std::move(next);
                    configuration.chains[0] = std::move(program);
                }
                append(changes);
            }
            const auto& tables = *static_cast<const Switch::Tables*>(
                configuration.chains[0]->nodes[0].nf->image().tables());
            most_parts = std::max(most_parts, tables.used_parts);
            EXPECT_EQ(tables.wide != 0, wide);
            const EngineRun cpu = run_on_cpu(configuration, frames, 100);
            const EngineRun device = run_on_device(open_device(name), configuration, frames, 100);
            ASSERT_EQ(cpu.outcomes, device.outcomes) << name << " " << round;
        }
        EXPECT_GE(most_parts, 3u);
    }
}

INSTANTIATE_TEST_SUITE_P(Engines, Parts,
                         testing::Combine(testing::Values("linear", "tuple", "merged", "auto"), testing::Bool()),
                         [](const auto& info) {
                             return std::string(std::get<0>(info.param)) + (std::get<1>(info.param) ? "Wide" : "");
                         });

}  // namespace
}  // namespace millrace
