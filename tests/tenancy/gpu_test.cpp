// Device halves of tenants on a GPU, fenced: a real one, or the emulated one, which interprets their PTX.
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>

#include "isolation/hostile_corpus.hpp"
#include "millrace/device/cuda/driver.hpp"
#include "millrace/nf/plugin.hpp"
#include "support/data.hpp"
#include "support/packet_arena.hpp"
#include "tenancy/on_the_gpu.hpp"

namespace millrace::tenancy {
namespace {

using isolation::Isolation;
using millrace::test::Frame;
using test::Asked;
using test::half_of;
using test::OnTheGpu;
using test::reads_and_marks;
using test::some_packets;
using test::terms_for;
using test::terms_of_addresses;
using test::wait_until;

constexpr const char* kFirewallOptions =
    "{rules: ['deny tcp from any port 0-9999 to any', 'permit udp from 0.0.0.0/1 to any', 'deny udp from any to any "
    "port 1000-40000', 'permit tcp from any to 128.0.0.0/2'], default: deny}";

struct Function {
    const char* name;
    const char* type;
    const char* options;
};
class FunctionOnTheGpu : public OnTheGpu, public testing::WithParamInterface<Function> {};

/// The frames and outcomes of g++'s code, before packets of which all is there.
TEST_P(FunctionOnTheGpu, GivesWhatTheHostGivesWithEachNumberOfPackets) {
    const nf::Type* kind = nf::find_type(GetParam().type);
    if (kind == nullptr) {
        nf::load_plugin(millrace::test::plugin_path(std::string(GetParam().type) + ".so"));
        kind = nf::find_type(GetParam().type);
    }
    ASSERT_NE(kind, nullptr);
    FunctionHost host(*kind, Config::parse(GetParam().options), "acme", testing::TempDir());
    const nf::Type& type = nf::type_of(*kind, host.function());
    const Terms terms = terms_for(type);
    host.agree(terms);
    host.check_device_half();
    DEVICE_HALF_OF(half, host);
    for (const Isolation isolation : {Isolation::fenced, Isolation::checked}) {
        const auto function = place(half, terms, isolation);
        EXPECT_GT(function->instructions(), 0u);
        EXPECT_GT(function->added(), 0u);
        size_t changed = 0;
        std::set<uint32_t> outcomes;
        for (const uint32_t count :
             isolation == Isolation::fenced ? std::vector{1u, 31u, 32u, 33u, 64u} : std::vector{40u}) {
            const std::vector<Asked> packets = some_packets(count, count);
            Exchange::Taken taken;
            ASSERT_EQ(ask(*function, packets, taken), ConfinedLane::Reply::good);
            ASSERT_EQ(taken.count, count);
            for (uint32_t i = 0; i < count; ++i) {
                millrace::test::PacketArena arena(128, 128);
                Packet& packet = arena.add(packets[i].frame);
                packet.set_in_port(0);
                packet.set_time_ns(7);
                const Decision decision = type.process_with(1)(packet, host.function().image().tables());
                ASSERT_EQ(taken.outcomes[i], decision.outcome) << millrace::test::hex_dump(packets[i].frame);
                Frame back = packets[i].frame;
                unpack(taken.back.data() + size_t{i} * function->terms().shape.back_bytes, back.data(),
                       static_cast<uint32_t>(back.size()), packets[i].layers, Fields{terms.changes});
                ASSERT_EQ(millrace::test::hex_dump(back), millrace::test::hex_dump(arena.bytes(0)));
                changed += back != packets[i].frame;
                outcomes.insert(decision.outcome);
            }
        }
        EXPECT_EQ(changed > 0, terms.changes != 0);
        EXPECT_TRUE(outcomes.size() > 1 || type.outcomes.size() == 1) << "the packets differ";
        EXPECT_TRUE(function->idle());
    }
}
INSTANTIATE_TEST_SUITE_P(Own, FunctionOnTheGpu,
                         testing::Values(Function{"Mirror", "mirror", "{}"},
                                         Function{"Firewall", "firewall", kFirewallOptions},
                                         Function{"TtlGuard", "ttl-guard", "{least: 100, least-ipv6: 30}"}),
                         [](const auto& info) { return std::string(info.param.name); });

/// Where a packet's handle has the port that it shall leave by.
size_t place_of_out_port() {
    Packet packet{};
    packet.set_out_port(0x1234);
    std::vector<uint8_t> bytes(sizeof packet);
    std::memcpy(bytes.data(), static_cast<const void*>(&packet), sizeof packet);
    const uint8_t wanted[] = {0x34, 0x12};
    return static_cast<size_t>(std::search(bytes.begin(), bytes.end(), std::begin(wanted), std::end(wanted)) -
                               bytes.begin());
}

TEST_F(OnTheGpu, AFunctionThatChoosesThePortIsWrong) {
    const std::vector<Asked> packets = some_packets(40, 1);
    std::string chooses = reads_and_marks(20, 0);
    const size_t load = chooses.find("ld.u64");
    chooses.insert(load, "mov.u32 %r1, 1;\nst.u16 [%rd1+" + std::to_string(place_of_out_port()) + "], %r1;\n");
    Exchange::Taken taken;
    EXPECT_EQ(ask(*place(half_of(reads_and_marks(20, 0), "marker"), terms_of_addresses()), packets, taken),
              ConfinedLane::Reply::good);
    EXPECT_EQ(ask(*place(half_of(chooses, "marker"), terms_of_addresses()), packets, taken),
              ConfinedLane::Reply::wrong);
}

TEST_F(OnTheGpu, AFunctionSeesAndChangesWhatWasDeclaredAndNothingElse) {
    std::vector<Asked> packets = some_packets(200, 3);
    for (Asked& packet : packets) packet.frame[3] = 2;  // of the destination's address
    const Terms terms = terms_of_addresses();
    const auto function = place(half_of(reads_and_marks(3, 0xee), "marker", 3), terms);
    Exchange::Taken taken;
    ASSERT_EQ(ask(*function, packets, taken), ConfinedLane::Reply::good);
    for (size_t i = 0; i < packets.size(); ++i) {
        ASSERT_EQ(taken.outcomes[i], 2u);
        ASSERT_EQ(taken.back[i * function->terms().shape.back_bytes + 3], 0xee);
    }
    // Beyond the addresses: what the function reads there is 0, and what it writes does not come back.
    for (Asked& packet : packets) packet.frame[20] = 2;
    const auto nosy = place(half_of(reads_and_marks(20, 0xee), "marker", 3), terms);
    ASSERT_EQ(ask(*nosy, packets, taken), ConfinedLane::Reply::good);
    for (size_t i = 0; i < packets.size(); ++i) {
        ASSERT_EQ(taken.outcomes[i], 0u) << "it saw what it did not declare";
        const uint8_t* const back = taken.back.data() + i * nosy->terms().shape.back_bytes;
        ASSERT_TRUE(std::equal(back, back + 12, packets[i].frame.begin()));
    }
    // An outcome that was not agreed on.
    const auto wrong = place(half_of(reads_and_marks(3, 0), "marker", 2), terms);
    EXPECT_EQ(ask(*wrong, packets, taken), ConfinedLane::Reply::wrong);
}

/// Hostile functions, one of each kind, beside an honest one.
TEST_F(OnTheGpu, HostileFunctionsHurtNobody) {
    constexpr size_t kBeside = 1 << 20;
    const device::DeviceMemory theirs(*device_, kBeside, "somebody else's bytes");
    const auto bytes = device::host_array<uint8_t>(*device_, kBeside);
    const Streams::Lent stream(*streams_);
    const auto settle = [&] {
        device::EventId event = 0;
        ASSERT_EQ(device_->record(stream.id(), event), device::Status::ok);
        device::Status status = device::Status::pending;
        ASSERT_TRUE(wait_until([&] { return (status = device_->query(event)) != device::Status::pending; }));
        ASSERT_EQ(status, device::Status::ok);
    };
    std::fill_n(bytes.get(), kBeside, uint8_t{0x5a});
    ASSERT_EQ(device_->copy_to_device(stream.id(), theirs.address(), bytes.get(), kBeside), device::Status::ok);
    settle();
    const Terms terms = terms_of_addresses();
    const auto honest = place(half_of(reads_and_marks(0, 0x77), "marker", 1), terms);
    std::vector<Asked> packets = some_packets(3, 9);
    for (Asked& packet : packets) packet.frame[0] = 0;
    Exchange::Taken taken;
    std::string before;
    // A window takes its time, most of all where the GPU is emulated.
    const bool emulated = dlsym(dlopen("libcuda.so.1", RTLD_NOW), "emulator_inject") != nullptr;
    size_t ran = 0, refused = 0, kinds = 0;
    for (const millrace::test::HostileCase& one : millrace::test::hostile_cases()) {
        const std::string kind = one.name.substr(0, one.name.find_last_of("_."));
        if (kind == before || !one.refused.empty() || one.shared_bytes > 0) continue;
        before = kind;
        if (kinds++ % (emulated ? 2 : 1) != 0) continue;
        SCOPED_TRACE(one.name);
        for (const Isolation isolation : {Isolation::fenced, Isolation::checked}) {
            if (isolation == Isolation::checked && ran % 8 != 0) continue;
            std::unique_ptr<ConfinedFunction> hostile;
            try {
                hostile = place(half_of(one.text, "hostile", kMaxOutcomes), terms, isolation, 500);
            } catch (const std::runtime_error&) {
                ++refused;
                continue;
            }
            // What it says, nobody knows; that it ends is what counts.
            EXPECT_NE(ask(*hostile, packets, taken), ConfinedLane::Reply::lost);
            ASSERT_EQ(ask(*honest, packets, taken), ConfinedLane::Reply::good);
            for (size_t i = 0; i < packets.size(); ++i)
                ASSERT_EQ(taken.back[i * honest->terms().shape.back_bytes], 0x77);
            ++ran;
        }
    }
    EXPECT_GT(ran, emulated ? 20u : 40u);
    EXPECT_LT(refused, ran / 4);
    ASSERT_EQ(device_->copy_to_host(stream.id(), bytes.get(), theirs.address(), kBeside), device::Status::ok);
    settle();
    EXPECT_TRUE(std::all_of(bytes.get(), bytes.get() + kBeside, [](uint8_t byte) { return byte == 0x5a; }));
}

/// A batch that was given up is never heard of again, and its place is used no sooner than it has ended.
TEST_F(OnTheGpu, BatchesThatWereGivenUpComeToNothing) {
    const auto function = place(half_of(reads_and_marks(3, 1), "marker", 3), terms_of_addresses(), Isolation::fenced,
                                1 << 20, 2);
    std::vector<Asked> packets = some_packets(10, 5);
    for (Asked& packet : packets) packet.frame[3] = 1;
    Exchange::Taken taken;
    for (int i = 0; i < 20; ++i) {
        ConfinedLane& lane = function->lane(1);
        const uint8_t nothing[12] = {};
        const Shown shown{{0, 60, packets[0].layers}, nothing, 12};
        ASSERT_TRUE(wait_until([&] { return lane.has_room(); }));
        ASSERT_TRUE(lane.ask({&shown, 1}, 100));
        EXPECT_EQ(lane.give_up(), 100u);
        ASSERT_TRUE(wait_until([&] { return lane.has_room(); }));
        ASSERT_EQ(ask(*function, packets, taken, 1), ConfinedLane::Reply::good);
        EXPECT_EQ(taken.id, 1u);
        EXPECT_EQ(taken.count, packets.size());
        EXPECT_EQ(taken.outcomes[0], 1u);
    }
    EXPECT_TRUE(wait_until([&] { return function->idle(); }));
}

TEST_F(OnTheGpu, WhatCantBePlacedSaysWhy) {
    const auto why_not = [&](const DeviceHalf& half) {
        try {
            place(half, terms_of_addresses());
        } catch (const std::runtime_error& e) {
            return std::string(e.what());
        }
        return std::string();
    };
    std::string barrier = reads_and_marks(3, 1);
    barrier.insert(barrier.find("mov.u32"), "bar.sync 0;\n");
    EXPECT_NE(why_not(half_of(barrier, "marker")).find("acme.ptx:11:1"), std::string::npos)
        << why_not(half_of(barrier, "marker"));
    EXPECT_NE(why_not(half_of(reads_and_marks(3, 1), "other")).find("no function 'other'"), std::string::npos);
    EXPECT_NE(why_not(half_of("nothing", "marker")), "");
    DeviceHalf large = half_of(reads_and_marks(3, 1), "marker");
    large.arrays.push_back({8, std::vector<uint8_t>(17 << 20)});
    EXPECT_NE(why_not(large).find("'memory:' says how many"), std::string::npos);
}

/// The emulated driver refuses what it is told to.
TEST_F(OnTheGpu, CallsThatAreRefusedLeaveNothingBehind) {
    void* const library = dlopen("libcuda.so.1", RTLD_NOW);
    const auto inject = reinterpret_cast<void (*)(const char*, unsigned, int)>(dlsym(library, "emulator_inject"));
    const auto forgive = reinterpret_cast<unsigned (*)()>(dlsym(library, "emulator_forgive"));
    if (inject == nullptr) GTEST_SKIP() << "a real driver refuses nothing on demand";
    const auto free_bytes = [] {
        size_t free = 0, total = 0;
        device::cuda::Driver::get()->memory_info(&free, &total);
        return free;
    };
    const DeviceHalf half = half_of(reads_and_marks(3, 1), "marker", 3);
    place(half, terms_of_addresses());
    const size_t before = free_bytes();
    unsigned refused = 0;
    for (const char* function : {"cuMemGetAllocationGranularity", "cuMemAddressReserve", "cuMemCreate", "cuMemMap",
                                 "cuMemSetAccess", "cuMemsetD8_v2", "cuModuleLoadData", "cuModuleGetFunction",
                                 "cuFuncGetAttribute", "cuMemAlloc_v2", "cuMemHostAlloc"})
        for (const unsigned after : {0u, 1u, 4u}) {
            SCOPED_TRACE(std::string(function) + " " + std::to_string(after));
            inject(function, after, device::cuda::kOutOfMemory);
            try {
                place(half, terms_of_addresses());
            } catch (const std::runtime_error& e) {
                ++refused;
                EXPECT_NE(std::string(e.what()).find("as the emulated GPU has it"), std::string::npos) << e.what();
            }
            forgive();
            ASSERT_EQ(free_bytes(), before);
        }
    EXPECT_GT(refused, 14u);
    std::vector<Asked> packets = some_packets(10, 5);
    for (Asked& packet : packets) packet.frame[3] = 1;
    Exchange::Taken taken;
    EXPECT_EQ(ask(*place(half, terms_of_addresses()), packets, taken), ConfinedLane::Reply::good);
}

}  // namespace
}  // namespace millrace::tenancy
