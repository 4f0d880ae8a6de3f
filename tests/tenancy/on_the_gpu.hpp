// Device halves of tenants on a GPU, for tests: a real one, or the emulated one, which interprets their PTX.
#pragma once

#include <gtest/gtest.h>

#include "millrace/device/cuda/compile/compiler.hpp"
#include "millrace/nf/variant.hpp"
#include "millrace/tenancy/exchange/fields.hpp"
#include "millrace/tenancy/gpu/confined.hpp"
#include "millrace/tenancy/member/function_host.hpp"
#include "support/devices.hpp"
#include "support/packet_builder.hpp"
#include "tenancy/support.hpp"

namespace millrace::tenancy::test {

/// All that a function may be shown and say.
inline Terms terms_for(const nf::Type& type) {
    Terms terms;
    terms.changes = (type.writes | type.cpu_writes).bits;
    terms.sees = (type.reads | type.cpu_reads).bits | terms.changes;
    for (size_t i = 0; i < type.outcomes.size(); ++i) type.outcomes[i].name.copy(terms.outcomes[i], 31);
    return terms;
}

inline Shape shape_for(const Terms& terms, uint32_t lanes = 1) {
    Shape shape;
    shape.in_bytes = most_bytes(Fields{terms.sees | terms.changes}, 1500);
    shape.back_bytes = most_bytes(Fields{terms.changes}, 1500);
    shape.outcomes = kMaxOutcomes;
    shape.lanes = lanes;
    return shape;
}

/// A packet that a function is asked about.
struct Asked {
    millrace::test::Frame frame;
    Layers layers;
};
inline std::vector<Asked> some_packets(size_t count, uint64_t seed) {
    millrace::test::Rng rng(seed);
    millrace::test::RandomOptions random;
    random.max_payload = 300;
    std::vector<Asked> packets;
    while (packets.size() < count)
        for (millrace::test::Frame& frame : millrace::test::random_packets(rng, count, random)) {
            const auto length = static_cast<uint32_t>(frame.size());
            const Layers layers = parse(frame.data(), length, length);
            if (layers.malformed == Malformed::no && packets.size() < count)
                packets.push_back({std::move(frame), layers});
        }
    return packets;
}

class OnTheGpu : public testing::Test {
protected:
    void SetUp() override {
        MILLRACE_NEEDS_DEVICE("cuda");
        device_ = millrace::test::open_device("cuda");
        streams_.emplace(*device_);
        kernels_.emplace(*device_);
    }
    void TearDown() override {
        if (device_ == nullptr) return;
        EXPECT_EQ(device_->state(), device::Status::ok) << "the context lives";
    }

    std::unique_ptr<ConfinedFunction> place(const DeviceHalf& half, const Terms& terms,
                                            isolation::Isolation isolation = isolation::Isolation::fenced,
                                            uint32_t budget = 1 << 20, uint32_t lanes = 1) {
        ConfinedTerms confined;
        confined.sees = Fields{terms.sees};
        confined.changes = Fields{terms.changes};
        confined.shape = shape_for(terms, lanes);
        confined.memory_bytes = 16 << 20;
        confined.isolation = isolation;
        confined.budget = budget;
        return std::make_unique<ConfinedFunction>(*device_, *streams_, *kernels_, half, confined, "acme");
    }

    /// Asks about packets, and waits for the answer.
    ConfinedLane::Reply ask(ConfinedFunction& function, std::span<const Asked> packets, Exchange::Taken& taken,
                            uint32_t lane_number = 0) {
        const Fields sees = function.terms().sees, changes = function.terms().changes;
        std::vector<std::vector<uint8_t>> bytes;
        std::vector<Shown> shown;
        for (const Asked& packet : packets) {
            const auto length = static_cast<uint32_t>(packet.frame.size());
            bytes.emplace_back(packed_bytes(length, packet.layers, sees));
            pack(packet.frame.data(), length, packet.layers, sees, bytes.back().data());
        }
        for (size_t i = 0; i < packets.size(); ++i) {
            const auto length = static_cast<uint32_t>(packets[i].frame.size());
            shown.push_back({{7, length, packets[i].layers},
                             bytes[i],
                             static_cast<uint16_t>(packed_bytes(length, packets[i].layers, changes))});
        }
        ConfinedLane& lane = function.lane(lane_number);
        EXPECT_TRUE(lane.ask(shown, 1));
        ConfinedLane::Reply reply = ConfinedLane::Reply::none;
        EXPECT_TRUE(wait_until([&] { return (reply = lane.take(taken)) != ConfinedLane::Reply::none; }));
        return reply;
    }

    std::shared_ptr<device::Device> device_;
    std::optional<Streams> streams_;
    std::optional<TrustedKernels> kernels_;
};

/// The device half of a function, by NVRTC; skips the test without one.
#define DEVICE_HALF_OF(half, host)                                                     \
    DeviceHalf half;                                                                   \
    try {                                                                              \
        (half) = (host).device_half((host).compile_half(device_->ptx_architecture())); \
    } catch (const device::cuda::CompileError& e) {                                    \
        GTEST_SKIP() << e.what();                                                      \
    }

/// A function in PTX, and what it is called.
inline DeviceHalf half_of(const std::string& ptx, const std::string& name, uint8_t outcomes = 1) {
    DeviceHalf half;
    half.ptx = ptx;
    half.function = name;
    for (uint8_t i = 0; i < outcomes; ++i) half.to_terms.push_back(i);
    half.tables.resize(64);
    half.arrays.push_back({0, std::vector<uint8_t>(4096, 1)});
    return half;
}
inline Terms terms_of_addresses() {
    Terms terms;
    terms.sees = terms.changes = (field::eth_dst | field::eth_src).bits;
    return terms;
}
/// Gives the byte of the packet's frame at `at` as outcome, and writes `mark` there.
inline std::string reads_and_marks(uint32_t at, uint32_t mark) {
    return ".version 9.0\n.target sm_90\n.address_size 64\n"
           ".visible .func (.param .align 4 .b8 result[8]) marker(.param .b64 packet, .param .b64 tables)\n{\n"
           ".reg .b32 %r<3>;\n.reg .b64 %rd<3>;\nld.param.u64 %rd1, [packet];\nld.u64 %rd1, [%rd1];\n"
           "ld.u8 %r1, [%rd1+" +
           std::to_string(at) + "];\nmov.u32 %r2, " + std::to_string(mark) + ";\nst.u8 [%rd1+" + std::to_string(at) +
           "], %r2;\nmov.u32 %r2, 0;\nst.param.b32 [result], %r2;\nst.param.b32 [result+4], %r1;\nret;\n}\n";
}

}  // namespace millrace::tenancy::test
