// Device halves as those of tenants: fenced, before packets of which only the declared fields are there, with what they
// may change brought back. The fields are copied by the code that copies them for tenants in processes.
#include <gtest/gtest.h>

#include <set>

#include "isolation/device_halves.hpp"
#include "isolation/hostile_corpus.hpp"
#include "millrace/isolation/ptx/reader.hpp"
#include "millrace/isolation/ptx/writer.hpp"
#include "millrace/isolation/rewrite.hpp"
#include "millrace/tenancy/exchange/fields.hpp"

namespace millrace::isolation {
namespace {

using test::DeviceHalf;
using test::Frame;
using test::HalfResult;

/// What a domain may run of a module; fails where it may run nothing.
ptx::Module fenced(const std::string& text, uint32_t shared_bytes = 0) {
    const ptx::Module module = ptx::read(text, "half.ptx");
    Bounds bounds;
    bounds.shared_bytes = shared_bytes;
    const Verdict verdict = verify(module, bounds);
    EXPECT_TRUE(verdict.sound()) << ConfigError(verdict.refusals).what();
    RewriteOptions options;
    options.window = test::kTestWindow;
    options.shared_bytes = shared_bytes;
    ptx::Limits limits;
    limits.reserved_names = true;
    return ptx::read(ptx::write(rewrite(module, verdict, options).module), "fenced.ptx", limits);
}

Layers layers_of(const Frame& frame) {
    return parse(frame.data(), static_cast<uint32_t>(frame.size()), static_cast<uint32_t>(frame.size()));
}

/// These fields of a frame, behind one another, and nothing else of it.
std::vector<uint8_t> packed(const Frame& frame, const Layers& layers, Fields fields) {
    const auto length = static_cast<uint32_t>(frame.size());
    std::vector<uint8_t> bytes(tenancy::packed_bytes(length, layers, fields));
    tenancy::pack(frame.data(), length, layers, fields, bytes.data());
    return bytes;
}
/// A frame with bytes in the places of these fields.
Frame with(Frame frame, const Layers& layers, Fields fields, const std::vector<uint8_t>& bytes) {
    tenancy::unpack(bytes.data(), frame.data(), static_cast<uint32_t>(frame.size()), layers, fields);
    return frame;
}

class DeclaredFields : public testing::TestWithParam<test::HalfCase> {};

TEST_P(DeclaredFields, AreAllThatADeviceHalfNeeds) {
    const auto [compiler, why] = test::isolation_compiler();
    if (compiler == nullptr) GTEST_SKIP() << why;
    DeviceHalf half(GetParam().type, GetParam().options);
    const Fields changes = half.type().writes, sees = half.type().reads | changes;
    // What changes lengths is none for a tenant.
    ASSERT_FALSE(changes.overlaps(field::length));
    const std::string bare = half.ptx();
    half.stage(ptx::read(bare, "half.ptx"));
    const ptx::Module module = fenced(bare, half.type().block_bytes);
    test::Rng rng(23);
    test::RandomOptions random;
    random.max_payload = 300;
    size_t asked = 0, hidden = 0, changed = 0;
    uint64_t steps = 0;
    for (const Frame& frame : test::random_packets(rng, 200, random)) {
        const HalfResult want = half.run_host(frame);
        if (!want.parsed) continue;
        ++asked;
        const Layers layers = layers_of(frame);
        const Frame shown = with(Frame(frame.size(), 0), layers, sees, packed(frame, layers, sees));
        hidden += shown != frame;
        const HalfResult made = half.run(module, shown, steps, &layers);
        ASSERT_EQ(made.decision, want.decision) << test::hex_dump(frame);
        const Frame back = with(frame, layers, changes, packed(made.frame, layers, changes));
        ASSERT_EQ(back, want.frame) << "in:\n" << test::hex_dump(frame) << "\nout:\n" << test::hex_dump(back);
        changed += back != frame;
    }
    EXPECT_GT(asked, 100u);
    EXPECT_GT(steps, asked) << "the device half ran";
    if (!sees.contains(field::everything)) {
        EXPECT_GT(hidden, asked / 2);
    }
    EXPECT_EQ(changed > 0, !changes.empty());
}

std::vector<test::HalfCase> cases_for_tenants() {
    std::vector<test::HalfCase> cases;
    for (const test::HalfCase& one : test::half_cases())
        // These may change lengths.
        if (const std::string type = one.type; type != "switch" && type != "crc") cases.push_back(one);
    return cases;
}
INSTANTIATE_TEST_SUITE_P(Own, DeclaredFields, testing::ValuesIn(cases_for_tenants()),
                         [](const auto& info) { return std::string(info.param.name); });

/// A function that looks through a frame for bytes that are not zero, beyond its first 34, writes its mark over all of
/// it, and gives their number as outcome.
constexpr const char* kNosy =
    "ld.u64 %rd3, [%rd1];\nmov.u64 %rd4, 0;\nmov.u32 %r1, 0;\n"
    "LOOP:\nadd.s64 %rd5, %rd3, %rd4;\nld.u8 %r2, [%rd5];\nsetp.ne.u32 %p1, %r2, 0;\nsetp.gt.u64 %p2, %rd4, 33;\n"
    "and.pred %p1, %p1, %p2;\n@%p1 add.u32 %r1, %r1, 1;\nst.u8 [%rd5], 238;\nadd.s64 %rd4, %rd4, 1;\n"
    "setp.lt.u64 %p1, %rd4, 90;\n@%p1 bra LOOP;\n";

TEST(DeclaredFields, AreAllThatAHostileFunctionReadsOrChanges) {
    const ptx::Module module = fenced(
        ".version 9.0\n.target sm_90\n.address_size 64\n.visible .func (.param .align 4 .b8 result[8]) nosy(.param "
        ".b64 "
        "packet, .param .b64 tables)\n{\n.reg .pred %p<3>;\n.reg .b32 %r<3>;\n.reg .b64 %rd<6>;\n"
        "ld.param.u64 %rd1, [packet];\n" +
        std::string(kNosy) + "st.param.b32 [result], %r1;\nst.param.b32 [result+4], %r1;\nret;\n}\n");
    test::ptx_machine::Window window(test::kTestWindow, RewriteOptions().guard_bytes);
    const auto ask = [&](const Frame& shown) {
        constexpr uint64_t kHandle = 0x100, kFrame = 0x10000;
        const uint64_t frame_at = window.begin() + kFrame;
        window.clear();
        std::memcpy(window.at(window.begin() + kHandle, sizeof frame_at).data(), &frame_at, sizeof frame_at);
        std::ranges::copy(shown, window.at(frame_at, shown.size()).begin());
        const auto outcome = test::ptx_machine::Machine(module, window).run("nosy", {window.begin() + kHandle, 0});
        EXPECT_TRUE(outcome.harmless()) << outcome.violation.what;
        uint32_t found = 0;
        std::memcpy(&found, outcome.result.data(), sizeof found);
        const auto bytes = window.at(frame_at, shown.size());
        return std::pair(found, Frame(bytes.begin(), bytes.end()));
    };
    test::Rng rng(24);
    test::RandomOptions random;
    random.max_payload = 300;
    size_t asked = 0, secrets = 0;
    for (const Frame& frame : test::random_packets(rng, 200, random)) {
        const Layers layers = layers_of(frame);
        if (layers.malformed != Malformed::no || !layers.is_ipv4() || layers.l3_offset != 14) continue;
        ++asked;
        secrets += ask(frame).first > 0;
        constexpr Fields kSees = field::ip_src, kChanges = field::ip_ttl;
        const auto [found, after] = ask(
            with(Frame(frame.size(), 0), layers, kSees | kChanges, packed(frame, layers, kSees | kChanges)));
        EXPECT_EQ(found, 0u) << "it saw what it did not declare";
        const Frame back = with(frame, layers, kChanges, packed(after, layers, kChanges));
        for (size_t i = 0; i < frame.size(); ++i) EXPECT_EQ(back[i], i == 14 + 8 ? 238 : frame[i]) << i;
    }
    EXPECT_GT(asked, 20u);
    EXPECT_GT(secrets, asked / 2) << "there was something to see";
}

}  // namespace
}  // namespace millrace::isolation
