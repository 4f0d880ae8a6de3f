// Chains with tenants' functions that go through a GPU in one piece.
#include <dlfcn.h>

#include "millrace/device/cuda/driver.hpp"
#include "support/data.hpp"
#include "tenancy/chain_run.hpp"
#include "tenancy/on_the_gpu.hpp"
#include "tenancy/sender.hpp"
#include "tenancy/thread_tenant.hpp"

namespace millrace::tenancy {
namespace {

using millrace::test::Frame;
using test::ChainRun;
using test::Left;
using test::numbered;
using test::OnTheGpu;
using test::Sender;
using test::Tenant;
using test::wait_until;

class InOnePieceOnTheGpu : public OnTheGpu {};

std::string list_of(Fields fields) {
    std::string names;
    for (unsigned bit = 0; bit < kFieldCount; ++bit)
        if (fields.bits & (1u << bit)) names += (names.empty() ? "" : ", ") + std::string(kFieldNames[bit]);
    return "[" + names + "]";
}

/// A function as a tenant's, with all that it may see and say.
std::string tenant_node(const std::string& name, const std::string& kind, const std::string& memory = "64Mi") {
    const nf::Type& type = *nf::find_type(kind);
    constexpr const char* kLeads[] = {"next", "drop", "punt"};
    std::string outcomes;
    for (const nf::Outcome& outcome : type.outcomes)
        outcomes += (outcomes.empty() ? "" : ", ") + outcome.name + ": " +
                    kLeads[static_cast<int>(outcome.disposition)];
    return "{tenant: " + name + ", reads: " + list_of(type.reads | type.cpu_reads) +
           ", writes: " + list_of(type.writes | type.cpu_writes) + ", outcomes: {" + outcomes +
           "}, absent: drop, patience: 10s, memory: " + memory + "}";
}

constexpr const char* kFirewall =
    "{rules: [deny udp from any to any port 53, deny tcp from 10.0.0.0/9 to any, deny ip from any to 2001:db8::/33, "
    "permit ip from any], default: permit}";
constexpr const char* kRouter =
    "{next-hops: {a: {mac: '02:00:00:00:01:01', src-mac: '02:00:00:00:01:00'}, b: {mac: '02:00:00:00:02:01', src-mac: "
    "'02:00:00:00:02:00'}}, routes: [{prefix: 0.0.0.0/0, via: a}, {prefix: 10.0.0.0/8, via: b}, {prefix: '::/0', via: "
    "a}], local: [192.0.2.1]}";

std::vector<Frame> some_frames(size_t count) {
    millrace::test::Rng random(count);
    std::vector<Frame> frames;
    while (frames.size() < count)
        for (Frame& frame : millrace::test::random_packets(random, count))
            if (frames.size() < count) frames.push_back(std::move(frame));
    return frames;
}

/// Runs frames through `theirs`, with a firewall and a router of tenants, and through the same functions without
/// tenants, and compares. Why that can't be, if it can't.
std::string compare(const std::string& theirs, const std::vector<Frame>& frames, unsigned batch = 16384) {
    ChainRun expected(std::string("[{firewall: ") + kFirewall + "}, mirror, {router: " + kRouter + "}]", "", "cpu",
                      "max", frames);
    expected.runtime().start();
    const Left wanted = expected.finish();
    ChainRun run(theirs, "tenants: [{name: wall}, {name: way}]\n", "cuda", "max", frames, batch);
    Tenant wall(run.socket(), "wall", "firewall", kFirewall), way(run.socket(), "way", "router", kRouter);
    EXPECT_TRUE(wait_until([&] { return !wall.placement().empty() && !way.placement().empty(); }));
    if (wall.placement().find("NVRTC") != std::string::npos) return wall.placement();
    EXPECT_TRUE(wall.placement().starts_with("placed: ")) << wall.placement();
    EXPECT_TRUE(way.placement().starts_with("placed: ")) << way.placement();
    run.runtime().start();
    const Left got = run.finish();
    EXPECT_EQ(got.out.size(), wanted.out.size());
    for (size_t i = 0; i < std::min(got.out.size(), wanted.out.size()); ++i)
        if (got.out[i] != wanted.out[i]) {
            ADD_FAILURE() << "packet " << i << " differs";
            break;
        }
    EXPECT_TRUE(got.punted == wanted.punted);
    for (const char* const name : {"wall", "way"}) {
        const exec::TenantReport tenant = run.tenant(name);
        EXPECT_EQ(tenant.answered, tenant.packets) << name;
        EXPECT_TRUE(tenant.absent.empty()) << name << ": " << tenant.absent.begin()->first;
        EXPECT_EQ(tenant.chain_batches, tenant.batches) << name << ": in one piece, all of it";
        EXPECT_EQ(tenant.state, "attached");
        EXPECT_GE(tenant.answered, frames.size() > 1000 ? frames.size() / 4 : 0) << name;
    }
    for (const exec::ChainReport& chain : run.report().chains)
        EXPECT_EQ(chain.retried_on_cpu, 0u) << "a tenant would have been absent";
    return {};
}
/// Neighbours are in one kernel. With little memory a batch goes through it in several rounds.
std::string neighbours() {
    return "[mirror, " + tenant_node("wall", "firewall") + ", " + tenant_node("way", "router", "2Mi") + "]";
}

TEST_F(InOnePieceOnTheGpu, PacketsAreWhatTheyAreWithoutTenants) {
    const std::string apart = "[" + tenant_node("wall", "firewall") + ", mirror, " + tenant_node("way", "router") + "]";
    for (const auto& [count, theirs] : {std::pair(1, apart), std::pair(33, apart), std::pair(1025, apart),
                                        std::pair(1, neighbours()), std::pair(1100, neighbours())}) {
        SCOPED_TRACE(count);
        SCOPED_TRACE(theirs);
        if (const std::string why = compare(theirs, some_frames(static_cast<size_t>(count))); !why.empty())
            GTEST_SKIP() << why;
    }
}

TEST_F(InOnePieceOnTheGpu, RealPacketsAreWhatTheyAreWithoutTenants) {
    // Fragments, tunnels, extension headers, noise. Batches are short: some have packets with long headers, some none.
    constexpr size_t kOfEach = 300;
    constexpr unsigned kBatch = 16;
    MILLRACE_NEEDS_DATA("pcap/curated");
    std::vector<Frame> frames;
    for (const char* const name :
         {"suricata/denial6-6.pcap.xz", "ndpi/fuzz-2006-06-26-2594.pcap.xz", "ndpi/ip_fragmented_garbage.pcap.xz",
          "zeek/mpls-6in6-broken.pcap.gz", "zeek/gre-aruba.pcap.xz"}) {
        std::vector<Frame> own = test::frames_of(millrace::test::data_path(std::string("pcap/curated/") + name));
        own.resize(std::min(own.size(), kOfEach));
        std::ranges::move(own, std::back_inserter(frames));
    }
    ASSERT_GT(frames.size(), 4 * kOfEach);
    if (const std::string why = compare(neighbours(), frames, kBatch); !why.empty()) GTEST_SKIP() << why;
}

TEST_F(InOnePieceOnTheGpu, AsManyTenantsAreNeighboursAsAChainHasFunctions) {
    constexpr size_t kCount = device::kMaxStages, kPackets = 100;
    std::string nfs, names;
    for (size_t i = 0; i < kCount; ++i) {
        const std::string name = "t" + std::to_string(i);
        nfs += (i > 0 ? ", " : "[") + tenant_node(name, "mirror");
        names += (i > 0 ? ", {name: " : "tenants: [{name: ") + name + "}";
    }
    const std::vector<Frame> frames = some_frames(kPackets);
    ChainRun expected("[mirror, {mirror: {}, name: again}]", "", "cpu", "max", frames);  // an even number of times
    expected.runtime().start();
    const Left wanted = expected.finish();
    ChainRun run(nfs + "]", names + "]\n", "cuda", "max", frames);
    std::vector<std::unique_ptr<Tenant>> tenants;
    for (size_t i = 0; i < kCount; ++i)
        tenants.push_back(std::make_unique<Tenant>(run.socket(), "t" + std::to_string(i), "mirror", "{}"));
    for (const auto& tenant : tenants) {
        ASSERT_TRUE(wait_until([&] { return !tenant->placement().empty(); }));
        if (tenant->placement().find("NVRTC") != std::string::npos) GTEST_SKIP() << tenant->placement();
        ASSERT_TRUE(tenant->placement().starts_with("placed: ")) << tenant->placement();
    }
    run.runtime().start();
    const Left got = run.finish();
    for (size_t i = 0; i < kCount; ++i) {
        const exec::TenantReport tenant = run.tenant("t" + std::to_string(i));
        EXPECT_EQ(tenant.answered, got.out.size()) << tenant.name;
        EXPECT_EQ(tenant.chain_batches, tenant.batches) << tenant.name;
    }
    EXPECT_TRUE(got.out == wanted.out);
}

/// Frames much longer than a head, whose headers take `extensions` headers of 40 bytes and 62 others.
Frame long_frame(size_t extensions) {
    millrace::test::PacketSpec spec;
    spec.ipv6.emplace().extensions.assign(extensions, {60, Frame(38), {}});  // destination options
    spec.udp = {.src = 1, .dst = 2, .length = {}, .checksum = {}};
    spec.payload = Frame(600, 'x');
    Frame frame = millrace::test::build(spec);
    frame[6] = 0;  // what the marker says of it, behind a mirror
    return frame;
}

TEST_F(InOnePieceOnTheGpu, HeadsCrossAndTheCpuHasPacketsWithMoreHeaders) {
    constexpr size_t kCount = 300;
    for (const auto& [extensions, fits] : {std::pair<size_t, bool>{0, true}, {4, true}, {5, false}}) {
        SCOPED_TRACE(extensions);
        const std::string node =
            "{tenant: acme, reads: [eth.dst], writes: [eth.dst], outcomes: {forward: next}, absent: "
            "drop, patience: 10s}";
        ChainRun run("[mirror, " + node + "]", "tenants: [{name: acme}]\n", "cuda", "max",
                     std::vector<Frame>(kCount, long_frame(extensions)));
        Sender acme(run.socket(), "acme", test::half_of(test::reads_and_marks(0, 0), "marker"));
        ASSERT_TRUE(wait_until([&] { return !acme.text().empty(); }));
        run.runtime().start();
        EXPECT_EQ(run.finish().out.size(), fits ? kCount : 0);
        const exec::TenantReport tenant = run.tenant("acme");
        EXPECT_EQ(tenant.answered, fits ? kCount : 0);
        EXPECT_EQ(tenant.chain_batches, tenant.batches);
        const auto chain = std::ranges::find(run.report().chains, "c", &exec::ChainReport::name);
        EXPECT_EQ(chain->retried_on_cpu, fits ? 0 : kCount);
        // Where all headers lie as most do, no more crosses than of other chains.
        const auto [in, back] = extensions == 0 ? std::pair(80u, 16u)
                                                : std::pair(chain::kUndividedHead, chain::kUndividedHead);
        EXPECT_GE(chain->bytes_to_device, kCount * in);
        EXPECT_LE(chain->bytes_to_device, kCount * (in + 100)) << "of 600 bytes and more";
        EXPECT_GE(chain->bytes_to_host, kCount * back);
        EXPECT_LE(chain->bytes_to_host, kCount * (back + 100));
    }
}

TEST_F(InOnePieceOnTheGpu, OneWithLongHeadersAmongOthersGetsThrough) {
    // What a function writes beyond the usual head comes back, too.
    constexpr size_t kCount = 256, kBatch = 32;
    std::vector<Frame> frames(kCount, long_frame(0));
    for (size_t i = 0; i < kCount; i += 70) frames[i] = long_frame(4);
    for (Frame& frame : frames) frame[6] = frame[0] = 0;
    const std::string node =
        "{tenant: acme, reads: [eth.dst, l4.src-port], writes: [l4.src-port], outcomes: {forward: next}, absent: drop, "
        "patience: 10s}";
    // Behind four extension headers ports lie at 214 and 216.
    std::string marks = test::reads_and_marks(0, 0);
    marks.replace(marks.find("st.u8 [%rd1+0], %r2;"), 20, "mov.u32 %r2, 7;\nst.u8 [%rd1+214], %r2;");
    ChainRun run("[" + node + "]", "tenants: [{name: acme}]\n", "cuda", "max", frames, kBatch);
    Sender acme(run.socket(), "acme", test::half_of(marks, "marker"));
    ASSERT_TRUE(wait_until([&] { return !acme.text().empty(); }));
    ASSERT_NE(acme.text().find("fenced"), std::string::npos) << acme.text();
    run.runtime().start();
    const Left left = run.finish();
    ASSERT_EQ(left.out.size(), kCount);
    for (size_t i = 0; i < kCount; ++i) {
        Frame expected = frames[i];
        if (i % 70 == 0) expected[214] = 7;
        EXPECT_EQ(left.out[i], expected) << i;
    }
    const auto chain = std::ranges::find(run.report().chains, "c", &exec::ChainReport::name);
    EXPECT_EQ(chain->retried_on_cpu, 0u);
    EXPECT_LT(chain->bytes_to_device, kCount * 250) << "most batches have short heads";
    EXPECT_EQ(run.tenant("acme").answered, kCount);
    EXPECT_EQ(run.tenant("acme").chain_batches, run.tenant("acme").batches);
}

/// What left is what came, in its order, round after round; but for what there was no room for while the chain went
/// over from one way to the other, on a busy machine, and that was counted.
void expect_all_in_order(const Left& left, const ChainRun& run, size_t count) {
    size_t expected = 0;  // behind the last one, in all rounds
    for (const Frame& frame : left.out) {
        uint32_t number = 0;
        for (size_t b = 0; b < 4; ++b) number = number << 8 | frame[6 + b];
        expected += (number + count - expected % count) % count + 1;
    }
    const auto chain = std::ranges::find(run.report().chains, "c", &exec::ChainReport::name);
    const auto drops = chain->drops.find("exit.no-buffer");
    const uint64_t dropped = drops != chain->drops.end() ? drops->second : 0;
    EXPECT_EQ(left.out.size() + dropped, chain->received_packets);
    // One that came too early or too late would be a round less one ahead.
    EXPECT_LE(expected, chain->received_packets);
    EXPECT_GE(expected + dropped, chain->received_packets) << "the last ones, too";
}

TEST_F(InOnePieceOnTheGpu, PacketsKeepTheirOrderWhileTenantsComeAndGo) {
    constexpr size_t kCount = 1000;
    const std::string node =
        "{tenant: acme, reads: [eth.dst], writes: [eth.dst], outcomes: {forward: next}, "
        "absent: bypass, patience: 10s}";
    ChainRun run("[mirror, " + node + ", {mirror: {}, name: last}]", "tenants: [{name: acme}]\n", "cuda",
                 "1000, loop: forever", numbered(kCount), 64);
    run.runtime().start();
    const DeviceHalf half = test::half_of(test::reads_and_marks(0, 0), "marker");  // says 0 of each packet
    const auto absent = [&] { return run.tenant("acme").absent["away"]; };
    uint64_t in_chain = 0;
    for (int round = 0; round < 3; ++round) {
        SCOPED_TRACE(round);
        std::optional<Sender> acme(std::in_place, run.socket(), "acme", half);
        ASSERT_TRUE(wait_until([&] { return run.tenant("acme").chain_batches > in_chain; }))
            << acme->text() << ", " << acme->parted() << ", " << run.tenant("acme").runs_on << ", "
            << run.tenant("acme").batches << " batches";
        in_chain = run.tenant("acme").chain_batches;
        ASSERT_TRUE(wait_until([&] { return run.tenant("acme").chain_batches > in_chain + 5; }));
        in_chain = run.tenant("acme").chain_batches;
        acme.reset();
        const uint64_t away = absent();
        ASSERT_TRUE(wait_until([&] { return absent() > away; }));
    }
    run.runtime().stop();
    const Left left = run.finish();
    expect_all_in_order(left, run, kCount);
    const exec::TenantReport tenant = run.tenant("acme");
    EXPECT_GT(tenant.answered, 0u);
}

TEST_F(InOnePieceOnTheGpu, WithoutTheGpuItIsItsPartsAndItsTenantAProcess) {
    constexpr size_t kCount = 1000;
    const auto inject = reinterpret_cast<void (*)(const char*, unsigned, int)>(
        dlsym(dlopen("libcuda.so.1", RTLD_NOW), "emulator_inject"));
    if (inject == nullptr) GTEST_SKIP() << "a real driver refuses nothing on demand";
    const std::string node =
        "{tenant: acme, reads: [eth.dst], writes: [eth.dst], outcomes: {forward: next}, "
        "absent: bypass, patience: 10s}";
    ChainRun run("[mirror, " + node + ", {mirror: {}, name: last}]", "tenants: [{name: acme}]\n", "cuda",
                 "1000, loop: forever", numbered(kCount), 64);
    Sender acme(run.socket(), "acme", test::half_of(test::reads_and_marks(0, 0), "marker"));
    ASSERT_TRUE(wait_until([&] { return !acme.text().empty(); }));
    run.runtime().start();
    ASSERT_TRUE(wait_until([&] { return run.tenant("acme").chain_batches > 5; }));
    inject("cuLaunchKernel", 20, device::cuda::kOutOfMemory);
    ASSERT_TRUE(wait_until([&] { return run.tenant("acme").runs_on == "process"; }));
    const uint64_t answered = run.tenant("acme").answered;
    ASSERT_TRUE(wait_until([&] { return run.tenant("acme").answered > answered + 100; }));
    run.runtime().stop();
    const Left left = run.finish();
    expect_all_in_order(left, run, kCount);
    EXPECT_GT(run.tenant("acme").batches, run.tenant("acme").gpu_batches);
    EXPECT_EQ(run.tenant("acme").state, "attached");
}

}  // namespace
}  // namespace millrace::tenancy
