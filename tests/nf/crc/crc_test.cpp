#include <gtest/gtest.h>
#include <zlib.h>

#include "millrace/nf/crc/device.hpp"
#include "millrace/nf/crc/libraries.hpp"
#include "support/data.hpp"
#include "support/devices.hpp"
#include "support/engine_runner.hpp"
#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

using namespace nf::crc;

constexpr Polynomial kPolynomials[] = {Polynomial::ethernet, Polynomial::castagnoli};

/// Bit by bit, as a CRC is defined; the polynomial in its usual order, 0x04c11db7 or 0x1edc6f41.
uint32_t by_definition(Polynomial polynomial, std::span<const uint8_t> bytes) {
    const uint64_t divisor = polynomial == Polynomial::ethernet ? 0x04c11db7u : 0x1edc6f41u;
    uint32_t remainder = ~0u;
    for (const uint8_t byte : bytes)
        for (unsigned bit = 0; bit < 8; ++bit) {
            const bool top = (remainder >> 31 ^ (byte >> bit & 1)) != 0;
            remainder = remainder << 1 ^ (top ? static_cast<uint32_t>(divisor) : 0);
        }
    uint32_t crc = 0;
    for (unsigned bit = 0; bit < 32; ++bit) crc |= (~remainder >> bit & 1) << (31 - bit);
    return crc;
}

/// The device half's tables of a polynomial, and its computation.
struct OnDevice {
    explicit OnDevice(Polynomial polynomial)
        : steps(make_steps(reflected(polynomial))), powers(make_powers(reflected(polynomial))) {
        tables.polynomial = reflected(polynomial);
        tables.steps = {steps.data(), steps.size()};
        tables.powers = {powers.data(), powers.size()};
    }
    template <unsigned L>
    uint32_t crc(std::span<const uint8_t> bytes) const {
        return crc_of(bytes.data(), static_cast<uint32_t>(bytes.size()), tables, Lanes<L>{});
    }
    std::vector<uint32_t> steps, powers;
    CrcTables tables;
};

std::vector<uint8_t> random_bytes(Rng& rng, size_t count) {
    std::vector<uint8_t> bytes(count);
    for (uint8_t& byte : bytes) byte = static_cast<uint8_t>(rng());
    return bytes;
}

/// A frame of so many bytes: UDP, or what is not IP where that is too short.
Frame frame_of(Rng& rng, size_t bytes) {
    PacketSpec spec;
    if (bytes >= 42) {
        spec.ipv4.emplace();
        spec.udp.emplace();
        spec.payload = random_bytes(rng, bytes - 42);
        return build(spec);
    }
    Frame frame = random_bytes(rng, bytes);
    if (bytes >= 14) frame[12] = 0x88, frame[13] = 0xcc;
    return frame;
}

constexpr size_t kFrameSizes[] = {14, 15,  16,  17,  18,   31,   32,   33,   42,   60,   61,   62,  63,
                                  64, 127, 128, 129, 1023, 1024, 1025, 1514, 1515, 1516, 1517, 1518};

TEST(CrcRemainder, HasThePublishedCheckValues) {
    const std::string_view text = "123456789";
    const std::span bytes(reinterpret_cast<const uint8_t*>(text.data()), text.size());
    constexpr uint32_t kWanted[] = {0xcbf43926u, 0xe3069283u};
    for (const Polynomial polynomial : kPolynomials) {
        const uint32_t wanted = kWanted[static_cast<size_t>(polynomial)];
        const OnDevice device(polynomial);
        EXPECT_EQ(by_definition(polynomial, bytes), wanted);
        EXPECT_EQ(device.crc<1>(bytes), wanted);
        EXPECT_EQ(device.crc<8>(bytes), wanted);
        EXPECT_EQ(device.crc<32>(bytes), wanted);
        for (const Library& library : libraries())
            EXPECT_EQ(library.of[static_cast<size_t>(polynomial)](bytes.data(), bytes.size()), wanted) << library.name;
    }
}

TEST(CrcRemainder, HasTheValuesOfRfc3720) {
    // Section B.4: 32 bytes of zeros, of ones, rising, falling.
    std::vector<uint8_t> zeros(32, 0), ones(32, 0xff), rising, falling;
    for (uint8_t i = 0; i < 32; ++i) rising.push_back(i), falling.push_back(static_cast<uint8_t>(31 - i));
    const OnDevice device(Polynomial::castagnoli);
    const std::pair<std::vector<uint8_t>, uint32_t> cases[] = {
        {zeros, 0x8a9136aau}, {ones, 0x62a8ab43u}, {rising, 0x46dd794eu}, {falling, 0x113fdb5cu}};
    for (const auto& [bytes, wanted] : cases) {
        EXPECT_EQ(device.crc<1>(bytes), wanted);
        EXPECT_EQ(device.crc<8>(bytes), wanted);
        EXPECT_EQ(device.crc<32>(bytes), wanted);
    }
}

TEST(CrcRemainder, IsTheSameByEveryWayForEverySize) {
    Rng rng(1);
    std::vector<size_t> sizes;
    for (size_t size = 0; size <= 300; ++size) sizes.push_back(size);
    for (const size_t size : {511, 512, 513, 1023, 1024, 1025, 1514, 1518, 4095, 4096, 4097, 8999, 9000, 9001})
        sizes.push_back(size);
    for (const Polynomial polynomial : kPolynomials) {
        const OnDevice device(polynomial);
        for (const size_t size : sizes) {
            // At each distance from a word's border.
            const std::vector<uint8_t> memory = random_bytes(rng, size + 3);
            const std::span bytes(memory.data() + size % 4, size);
            const uint32_t wanted = by_definition(polynomial, bytes);
            if (polynomial == Polynomial::ethernet) {
                ASSERT_EQ(crc32(0, bytes.data(), static_cast<uInt>(size)), wanted) << size;
            }
            ASSERT_EQ(device.crc<1>(bytes), wanted) << size;
            ASSERT_EQ(device.crc<8>(bytes), wanted) << size;
            ASSERT_EQ(device.crc<32>(bytes), wanted) << size;
            for (const Library& library : libraries())
                ASSERT_EQ(library.of[static_cast<size_t>(polynomial)](bytes.data(), size), wanted)
                    << library.name << ", " << size;
        }
    }
}

TEST(Crc, DoesWhatItsGoldenPacketsSay) { run_golden("crc"); }

TEST(Crc, IsSetAndCheckedAlikeByEveryHalf) {
    Rng rng(2);
    std::vector<Frame> frames = random_packets(rng, 1100, {});
    for (const size_t size : kFrameSizes) frames.push_back(frame_of(rng, size));
    for (const std::string polynomial : {"ethernet", "castagnoli"}) {
        const std::string options = ", polynomial: " + polynomial + "}";
        check_halves_agree("crc", "{mode: set" + options, frames);
        std::vector<Frame> with = NfRunner("crc", "{mode: set" + options).run(frames, {0}).frames;
        for (size_t i = 0; i < with.size(); i += 3)  // some wrong ones
            if (!with[i].empty()) with[i][rng() % with[i].size()] ^= static_cast<uint8_t>(1 << rng() % 8);
        check_halves_agree("crc", "{mode: check" + options, with);
        check_halves_agree("crc", "{mode: check, strip: false" + options, with);
    }
}

TEST(Crc, IsTheOneOfZlibForFramesOfEverySize) {
    Rng rng(3);
    NfRunner runner("crc", "{mode: set}");
    std::vector<Frame> frames;
    for (const size_t size : kFrameSizes) frames.push_back(frame_of(rng, size));
    frames.push_back(frame_of(rng, 9000));
    for (const Half& half : halves(runner.type())) {
        const NfResult result = runner.run(frames, half);
        for (size_t i = 0; i < frames.size(); ++i) {
            Frame wanted = frames[i];
            const auto crc = static_cast<uint32_t>(crc32(0, wanted.data(), static_cast<uInt>(wanted.size())));
            for (unsigned byte = 0; byte < 4; ++byte) wanted.push_back(static_cast<uint8_t>(crc >> 8 * byte));
            ASSERT_EQ(result.decisions[i].outcome, Crc::kSet) << half.text();
            ASSERT_EQ(result.frames[i], wanted) << half.text() << ", " << frames[i].size() << " B";
        }
    }
}

TEST(Crc, FindsEveryBitThatIsTurned) {
    Rng rng(4);
    const Frame whole = NfRunner("crc", "{mode: set}").run({frame_of(rng, 100)}, {0}).frames.front();
    std::vector<Frame> frames;
    for (size_t bit = 14 * 8; bit < whole.size() * 8; ++bit) {  // the parser is no part of this
        frames.push_back(whole);
        frames.back()[bit / 8] ^= static_cast<uint8_t>(1 << bit % 8);
    }
    NfRunner check("crc", "{mode: check}");
    for (const Half& half : host_halves(check.type())) {
        const NfResult result = check.run(frames, half);
        for (size_t i = 0; i < frames.size(); ++i) {
            const uint32_t outcome = result.decisions[i].outcome;
            EXPECT_TRUE(outcome == Crc::kBadCrc || outcome == Crc::kTooShort || outcome == kRefused) << i;
            EXPECT_EQ(result.frames[i], frames[i]);
        }
    }
}

TEST(Crc, SetAndCheckedLeavesTheFrameAsItWas) {
    Rng rng(5);
    std::vector<Frame> frames;
    for (const size_t size : kFrameSizes) frames.push_back(frame_of(rng, size));
    const std::string nfs =
        "[{crc: {mode: set, polynomial: castagnoli}, name: a}, {crc: {mode: set}, name: b}, "
        "{crc: {mode: check}, name: c}, {crc: {mode: check, polynomial: castagnoli}, name: d}]";
    const EngineRun wanted = run_on_cpu(make_configuration(nfs, "cpu"), frames, 32);
    ASSERT_EQ(wanted.outcomes.size(), frames.size());
    for (const Outcome& outcome : wanted.outcomes) EXPECT_EQ(outcome.frame, frames[outcome.number]);
    for (const std::string& device : offload_devices()) {
        MILLRACE_NEEDS_DEVICE(device);
        const auto configuration = make_configuration(nfs, device);
        expect_equal(without_visits(run_on_cpu(make_configuration(nfs, "cpu"), frames, 32)),
                     without_visits(run_on_device(open_device(device), configuration, frames, 32)), device);
        expect_equal(without_visits(run_on_cpu(make_configuration(nfs, "cpu"), frames, 32)),
                     run_contiguous(open_device(device), configuration, frames, 32), device);
    }
}

TEST(Crc, BringsNothingBackOfWhatItChecksAndKeeps) {
    const auto back = [](const std::string& options) {
        const auto configuration = make_configuration("[crc: {" + options + "}]", "sim");
        return configuration.chains.front()->plan.to_host_total();
    };
    EXPECT_TRUE(back("mode: check, strip: false").empty());
    EXPECT_FALSE(back("mode: check").empty());
    EXPECT_FALSE(back("mode: set").empty());
    EXPECT_EQ(make_configuration("[crc: {mode: set}]", "sim").chains.front()->tail_growth(), 4u);
    EXPECT_EQ(make_configuration("[crc: {mode: check}]", "sim").chains.front()->tail_growth(), 0u);
}

TEST(Crc, RefusesOptionsThatMakeNoSense) {
    const std::pair<const char*, const char*> cases[] = {
        {"{}", "mode"},
        {"{mode: verify}", "verify"},
        {"{mode: set, polynomial: koopman}", "koopman"},
        {"{mode: set, strip: true}", "goes with 'mode: check'"},
        {"{mode: check, strip: 3}", "3"},
        {"{mode: check, polynom: ethernet}", "unknown field 'polynom'"},
    };
    for (const auto& [options, want] : cases) {
        try {
            NfRunner("crc", Config::parse(options, "chain.yaml"));
            ADD_FAILURE() << "accepted: " << options;
        } catch (const ConfigError& error) {
            EXPECT_NE(std::string(error.what()).find(want), std::string::npos) << error.what();
            EXPECT_EQ(error.diagnostics().front().where.line, 1u);
        }
    }
}

}  // namespace
}  // namespace millrace::test
