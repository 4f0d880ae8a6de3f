// Device halves of tenants on a GPU, for tests: a real one, or the emulated one, which interprets their PTX.
#pragma once

#include <gtest/gtest.h>

#include "millrace/device/cuda/compiler.hpp"
#include "millrace/nf/variant.hpp"
#include "millrace/tenancy/confined.hpp"
#include "millrace/tenancy/fields.hpp"
#include "millrace/tenancy/function_host.hpp"
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
        if (device_ != nullptr) EXPECT_EQ(device_->state(), device::Status::ok) << "the context lives";
    }

    std::unique_ptr<ConfinedFunction> place(const DeviceHalf& half, const Terms& terms,
                                            isolation::Isolation isolation = isolation::Isolation::fenced, uint32_t budget = 1 << 20,
                                            uint32_t lanes = 1) {
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
#define DEVICE_HALF_OF(half, host)                                                  \
    DeviceHalf half;                                                                \
    try {                                                                           \
        half = (host).device_half((host).compile_half(device_->ptx_architecture())); \
    } catch (const device::cuda::CompileError& e) {                                  \
        GTEST_SKIP() << e.what();                                                   \
    }

}  // namespace millrace::tenancy::test
