// Network functions that break one promise each: what the check of declarations finds of them, and nothing of sound
// ones.
#include <gtest/gtest.h>

#include <fstream>

#include "millrace/nftest/declared.hpp"
#include "millrace/nftest/golden.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {
namespace {

/// What a function does besides what it declares: it reads ip.ttl, and writes eth.dst with ones.
enum class Deed : uint32_t {
    nothing,
    read_source_port,
    read_to_write,
    write_ttl,
    write_same_source,
    write_behind,
    write_before,
    read_behind,
    grow,
    outcome
};

struct Rogue {
    enum Outcome : uint32_t { kFirst, kSecond };
    static constexpr Fields reads = field::ip_ttl;
    static constexpr Fields writes = field::eth_dst;
    static constexpr unsigned lanes = 8;
    struct Tables {
        Deed deed;
    };
    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        Decision decision{packet.layers().is_ip() ? packet.ip_ttl() : kNoDetail, kFirst};
        uint8_t* data = packet.data();
        lanes.once([&] {
            for (unsigned i = 0; i < 6; ++i) data[i] = 1;
            if (tables.deed == Deed::read_to_write) data[0] = data[6];
            if (tables.deed == Deed::write_ttl) --packet.l3()[8];
            if (tables.deed == Deed::write_same_source) data[6] = 2;
            if (tables.deed == Deed::write_behind) data[packet.length()] = 1;
            if (tables.deed == Deed::write_before) data[-1] = 1;
        });
        if (tables.deed == Deed::read_source_port && packet.l4_src_port() == 0) decision.outcome = kSecond;
        if (tables.deed == Deed::read_behind) decision.detail = data[packet.length()];
        if (tables.deed == Deed::grow) packet.grow_back(1);
        if (tables.deed == Deed::outcome) decision.outcome = 2;
        return decision;
    }
};
class RogueHost : public nf::NetworkFunction {
public:
    RogueHost(const Config& options, const nf::Environment&) {
        image_.start<Rogue::Tables>().deed = static_cast<Deed>(options.at("deed").integer());
    }
    const nf::Image& image() const override { return image_; }

private:
    nf::Image image_;
};
const nf::Register<Rogue, RogueHost> registration{{
    .name = "rogue",
    .summary = "breaks a promise",
    .outcomes = {{"first", nf::Disposition::next, ""}, {"second", nf::Disposition::next, ""}},
    .device_header = "none",
    .device_struct = "millrace::test::Rogue",
}};

/// All that is found, "; " between.
std::string found(Deed deed) {
    const nf::Type& type = *nf::find_type("rogue");
    const auto nf = type.create(Config::parse("{deed: " + std::to_string(static_cast<uint32_t>(deed)) + "}"), {});
    nftest::DeclarationCheck check(type, *nf);
    std::string all;
    // The first packet has nothing to say; the others say the same.
    const std::vector<Frame> frames = {build_packet("{eth: {type: 0x88cc}, payload: lldp}"),
                                       build_packet("{ipv4: {ttl: 64}, udp: {src: 7, dst: 9}, payload: text}"),
                                       build_packet("{vlan: 3, ipv4: {ttl: 64}, udp: {src: 8, dst: 9}}")};
    const std::vector<Frame> chosen(frames.begin() + (deed == Deed::write_ttl ? 1 : 0), frames.end());
    for (const nftest::Undeclared& one : check.check(chosen, 0)) all += (all.empty() ? "" : "; ") + one.message;
    EXPECT_TRUE(check.check(chosen, 0).empty()) << "each thing is told once";
    return all;
}

TEST(Declarations, OfASoundFunctionAreKept) { EXPECT_EQ(found(Deed::nothing), ""); }

TEST(Declarations, ThatLackAFieldThatIsReadAreFound) {
    EXPECT_EQ(found(Deed::read_source_port), "rogue, packet 2: it reads l4.src-port and does not declare it");
    EXPECT_EQ(found(Deed::read_to_write), "rogue, packet 1: it reads eth.src and does not declare it");
}

TEST(Declarations, ThatLackAFieldThatIsWrittenAreFound) {
    EXPECT_EQ(found(Deed::write_ttl), "rogue, packet 1: it writes ip.ttl and does not declare it");
    EXPECT_EQ(found(Deed::write_same_source), "rogue, packet 1: it writes eth.src and does not declare it");
    EXPECT_EQ(found(Deed::grow), "rogue, packet 1: it writes length and does not declare it");
}

TEST(Declarations, DoNotCoverWhatLiesBeyondThePacket) {
    EXPECT_EQ(found(Deed::write_behind), "rogue, packet 1: it writes beyond the packet");
    EXPECT_EQ(found(Deed::write_before), "rogue, packet 1: it writes beyond the packet");
    EXPECT_EQ(found(Deed::read_behind), "rogue, packet 1: what it does depends on bytes beyond the packet");
}

TEST(Declarations, ThatLackAnOutcomeAreFound) {
    EXPECT_EQ(found(Deed::outcome), "rogue, packet 1: outcome 2 is not declared");
}

TEST(Declarations, AreHeldByGoldenTables) {
    const std::string path = testing::TempDir() + "rogue-golden.yaml";
    std::ofstream(path) << "- name: steps out of line\n"
                           "  options: {deed: 3}\n"
                           "  packet: {ipv4: {ttl: 64}, udp: {}}\n"
                           "  expect: {outcome: first, detail: 64}\n";
    const nf::Type& type = *nf::find_type("rogue");
    nftest::GoldenOptions options;
    options.halves = nftest::host_halves(type);
    options.output_folder = testing::TempDir();
    EXPECT_EQ(nftest::run_golden(type, path, options).failed, 0u);
    options.checked = true;
    const nftest::GoldenReport report = nftest::run_golden(type, path, options);
    EXPECT_EQ(report.failed, 1u);
    ASSERT_EQ(report.failures.size(), 1u);
    EXPECT_EQ(report.failures[0].where.line, 3u);
    EXPECT_EQ(report.failures[0].message,
              "'steps out of line': rogue, packet 1: it writes ip.ttl and does not declare it");
}

}  // namespace
}  // namespace millrace::test
