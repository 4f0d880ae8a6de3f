// Network functions of tenants give the packets that they give in a chain.
#include <gtest/gtest.h>

#include "millrace/tenancy/manager/engine.hpp"
#include "millrace/tenancy/exchange/fields.hpp"
#include "millrace/tenancy/member/function_host.hpp"
#include "millrace/packet/parse.hpp"
#include "support/engine_runner.hpp"
#include "support/sizes.hpp"
#include "tenancy/support.hpp"

namespace millrace::tenancy {
namespace {

using namespace std::chrono_literals;
using namespace millrace::test;
using test::wait_until;

std::string names_of(Fields fields) {
    std::string names;
    for (unsigned bit = 0; bit < kFieldCount; ++bit)
        if (fields.bits & (1u << bit)) names += (names.empty() ? "" : ", ") + std::string(kFieldNames[bit]);
    return "[" + names + "]";
}

/// A chain of one function, which a tenant has.
chain::Configuration configuration_of(const nf::Type& type, const TestFolder& folder) {
    std::string outcomes;
    constexpr const char* kLeads[] = {"next", "drop", "punt"};
    for (const nf::Outcome& outcome : type.outcomes)
        outcomes += (outcomes.empty() ? "" : ", ") + outcome.name + ": " +
                    kLeads[static_cast<int>(outcome.disposition)];
    const Fields reads = type.has_cpu_half ? type.cpu_reads : type.reads;
    const Fields writes = type.has_cpu_half ? type.cpu_writes : type.writes;
    chain::LoadOptions options;
    options.output_folder = folder.path();
    return chain::parse_configuration(
        "version: 1\nports: {in: {null: {}}, out: {null: {}}, third: {null: {}}}\ntenants: [{name: acme}]\n"
        "chains:\n  test:\n    input: in\n    output: out\n    nfs:\n      - tenant: acme\n        reads: " +
            names_of(reads) + "\n        writes: " + names_of(writes) + "\n        outcomes: {" + outcomes +
            "}\n        absent: drop\n        patience: 10s\n",
        "(test)", options);
}

/// What becomes of frames at a tenant.
std::vector<Outcome> run_as_tenant(const std::string& kind, const std::string& options,
                                   const std::vector<Frame>& frames, size_t burst) {
    const TestFolder folder;
    const chain::Configuration configuration = configuration_of(*nf::find_type(kind), folder);
    Manager manager(1);
    manager.follow(configuration);
    // DPDK's environment, which libraries of functions want, does not outlive a fork: processes are other tests'.
    std::jthread tenant([&](const std::stop_token& end) {
        FunctionHost host(*nf::find_type(kind), Config::parse(options), "acme", folder.path());
        Member member(folder / "tenants.sock", "acme");
        host.agree(member.terms());
        while (!end.stop_requested())
            if (const auto batch = member.next(10ms)) {
                host.answer(*batch);
                member.answer(*batch);
            }
    });
    EXPECT_TRUE(wait_until([&] { return manager.seat("acme").current() != nullptr; }));
    Collector collector;
    const auto engine = manager.engine(collector, 0, 8192);
    exec::ChainCounters counters(*configuration.chains.front());
    std::vector<rte_mbuf*> mbufs;
    for (size_t i = 0; i < frames.size(); ++i) {
        mbufs.push_back(make_mbuf(frames[i], i));
        if (mbufs.size() < burst && i + 1 < frames.size()) continue;
        engine->submit(configuration.chains.front(), counters, mbufs.data(), mbufs.size());
        mbufs.clear();
        if (engine->in_flight() > 4096) engine->drain();
    }
    engine->drain();
    EXPECT_EQ(counters.received_packets.get(), frames.size());
    const exec::TenantReport report = manager.report().front();
    EXPECT_EQ(report.packets, report.answered);
    EXPECT_EQ(report.in_flight, 0u);
    EXPECT_TRUE(report.absent.empty());
    return collector.outcomes;
}

/// The only function of a list such as "[mirror]", and its options.
std::pair<std::string, std::string> function_of(const std::string& nfs) {
    const Config entry = Config::parse(nfs).items().front();
    if (entry.is_scalar()) return {entry.text(), "{}"};
    const auto [kind, options] = entry.entries().front();
    return {kind.text(), options.written()};
}

class TenantsFunction : public testing::TestWithParam<std::string> {};

TEST_P(TenantsFunction, GivesThePacketsThatItGivesInAChain) {
    const auto& all = sized_nfs();
    const auto sized = std::find_if(all.begin(), all.end(),
                                    [](const SizedNf& one) { return one.nf == GetParam() && one.size == "usual"; });
    ASSERT_NE(sized, all.end());
    const SizedTables tables = sized->make();
    std::vector<Frame> frames = tables.others;
    for (const auto* aimed : {&tables.first, &tables.middle, &tables.last})
        for (const Aimed& one : *aimed) frames.push_back(one.frame);
    Rng random(5);
    for (const Frame& frame : random_packets(random, 1000)) frames.push_back(frame);
    const auto [kind, options] = function_of(tables.nfs);
    const auto expected = run_on_cpu(make_configuration(tables.nfs, "cpu"), frames, 64).outcomes;
    const auto actual = run_as_tenant(kind, options, frames, 64);
    ASSERT_EQ(actual.size(), expected.size());
    const auto by_number = [](std::vector<Outcome> outcomes) {
        std::stable_sort(outcomes.begin(), outcomes.end(),
                         [](const Outcome& a, const Outcome& b) { return a.number < b.number; });
        return outcomes;
    };
    const auto wanted = by_number(expected), got = by_number(actual);
    for (size_t i = 0; i < wanted.size(); ++i) {
        ASSERT_EQ(got[i].number, wanted[i].number);
        ASSERT_EQ(got[i].verdict.node, wanted[i].verdict.node) << i;
        ASSERT_EQ(got[i].verdict.target, wanted[i].verdict.target) << i;
        ASSERT_EQ(got[i].verdict.decision.outcome, wanted[i].verdict.decision.outcome) << i;
        ASSERT_EQ(hex_dump(got[i].frame), hex_dump(wanted[i].frame)) << i;
    }
}
INSTANTIATE_TEST_SUITE_P(All, TenantsFunction,
                         testing::Values("mirror", "firewall", "nids", "policer", "conntrack", "nat"),
                         [](const auto& info) { return info.param; });

TEST(FunctionHost, RefusesWhatNoTenantCanHaveOrWasNotGiven) {
    const std::string folder = testing::TempDir();
    EXPECT_THROW(FunctionHost(*nf::find_type("crc"), Config::parse("{mode: set}"), "acme", folder), std::runtime_error);
    FunctionHost host(*nf::find_type("mirror"), Config::parse("{}"), "acme", folder);
    Terms terms;
    terms.sees = terms.changes = (field::eth_dst | field::eth_src).bits;
    std::string("forward").copy(terms.outcomes[0], 31);
    host.agree(terms);
    const auto refused = [&](const Terms& other) {
        try {
            host.agree(other);
        } catch (const std::runtime_error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    Terms blind = terms, shy = terms, mute = terms;
    blind.sees = field::eth_dst.bits;
    shy.changes = field::eth_dst.bits;
    mute.outcomes[0][0] = 'F';
    EXPECT_NE(refused(blind).find("reads eth.src"), std::string::npos);
    EXPECT_NE(refused(shy).find("writes eth.src"), std::string::npos);
    EXPECT_NE(refused(mute).find("outcome 'forward'"), std::string::npos);
}

TEST(Fields, OfAPacketComeAndGoAloneAndNothingElseDoes) {
    Rng random(7);
    for (const Frame& frame : random_packets(random, 2000)) {
        const auto length = static_cast<uint32_t>(frame.size());
        const Layers layers = parse(frame.data(), length, length);
        const Fields fields{static_cast<uint32_t>(random() & ((1u << 27) - 1))};
        const uint32_t bytes = packed_bytes(length, layers, fields);
        ASSERT_LE(bytes, length);
        std::vector<uint8_t> packed(bytes);
        pack(frame.data(), length, layers, fields, packed.data());
        // Another frame with the same headers: only the fields' bytes become this one's.
        Frame other(frame.size(), 0xa5);
        unpack(packed.data(), other.data(), length, layers, fields);
        const Fields rest = field::everything - fields;
        std::vector<uint8_t> others(packed_bytes(length, layers, rest));
        pack(frame.data(), length, layers, rest, others.data());
        unpack(others.data(), other.data(), length, layers, rest);
        if (layers.ether_type != eth::kTypeArp) {
            ASSERT_EQ(other, frame);
            ASSERT_LE(length, bytes + others.size());
        }
        ASSERT_LE(bytes, most_bytes(fields, length));
        ASSERT_LE(extent(length, layers, fields), length);
    }
}

}  // namespace
}  // namespace millrace::tenancy
