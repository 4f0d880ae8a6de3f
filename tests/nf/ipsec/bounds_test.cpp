// Nothing is read or written outside of a packet and its room: pages around it that fault on any touch.
#include <gtest/gtest.h>

#include <sys/mman.h>
#include <unistd.h>

#include <cstring>

#include "nf/ipsec/esp_oracle.hpp"

namespace millrace::test {
namespace {

/// Memory of `bytes` bytes between two pages that nobody may touch: hard against the first or the second.
class Guarded {
public:
    Guarded(size_t bytes, bool at_end) : page_(static_cast<size_t>(sysconf(_SC_PAGESIZE))) {
        const size_t inner = (bytes + page_ - 1) / page_ * page_;
        size_ = inner + 2 * page_;
        base_ = static_cast<uint8_t*>(mmap(nullptr, size_, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0));
        EXPECT_EQ(mprotect(base_ + page_, inner, PROT_READ | PROT_WRITE), 0);
        data_ = base_ + page_ + (at_end ? inner - bytes : 0);
    }
    ~Guarded() { munmap(base_, size_); }
    Guarded(const Guarded&) = delete;
    Guarded& operator=(const Guarded&) = delete;
    uint8_t* data() const { return data_; }

private:
    size_t page_, size_ = 0;
    uint8_t* base_ = nullptr;
    uint8_t* data_ = nullptr;
};

/// Runs one frame with exactly this room around it, by every half; the outcome's name and the bytes.
std::vector<std::pair<std::string, Frame>> run_tight(const std::string& options, const Frame& frame, uint32_t headroom,
                                                     uint32_t tailroom) {
    std::vector<std::pair<std::string, Frame>> results;
    const Config parsed = Config::parse(options);
    for (const bool at_end : {false, true}) {
        for (const Half& half : host_halves(*nf::find_type("ipsec"))) {
            NfRunner runner("ipsec", parsed);
            const Guarded memory(headroom + frame.size() + tailroom, at_end);
            std::memcpy(memory.data() + headroom, frame.data(), frame.size());
            Packet packet;
            const auto length = static_cast<uint32_t>(frame.size());
            packet.attach(memory.data() + headroom, length, length, headroom, tailroom);
            packet.parse();
            Decision decision;
            const void* tables = runner.nf().image().tables();
            if (half.lanes == 0) {
                Packet* packets[] = {&packet};
                runner.nf().make_cpu_half()->process(packets, &decision);
            } else {
                runner.type().order_key(packet, tables);
                decision = runner.type().process_with(half.lanes)(packet, tables);
                decision = runner.type().commit(packet, tables, decision);
            }
            results.emplace_back(outcome_name(runner, decision), Frame(packet.data(), packet.data() + packet.length()));
        }
    }
    return results;
}

TEST(IpsecBounds, NeedsNoByteMoreThanItDeclaresAndTouchesNone) {
    for (Tunnel tunnel : all_tunnels()) {
        tunnel.policy_extra = "mtu: 0";
        const EspOracle oracle(tunnel);
        const auto head = static_cast<uint32_t>(tunnel.head_bytes());
        for (const size_t payload :
             {0u, 1u, 2u, 3u, 4u, 5u, 13u, 14u, 15u, 16u, 17u, 31u, 32u, 33u, 1023u, 1024u, 1025u}) {
            SCOPED_TRACE(tunnel.text() + ", payload of " + std::to_string(payload));
            const Frame frame = clear_frame(payload, payload % 2 == 1);
            const size_t inner = frame.size() - 14, unit = tunnel.alignment();
            const auto tail = static_cast<uint32_t>((inner + 2 + unit - 1) / unit * unit - inner + tunnel.icv_bytes());
            for (const auto& [outcome, bytes] : run_tight(near_end(tunnel), frame, head, tail)) {
                EXPECT_EQ(outcome, "protected");
                const auto opened = oracle.open(bytes);
                ASSERT_TRUE(opened.has_value());
                EXPECT_EQ(opened->inner, inner_of(frame));
            }
            for (const auto& [outcome, bytes] : run_tight(near_end(tunnel), frame, head - 1, tail)) {
                EXPECT_EQ(outcome, "no-room");
                EXPECT_EQ(bytes, frame);
            }
            for (const auto& [outcome, bytes] : run_tight(near_end(tunnel), frame, head, tail - 1)) {
                EXPECT_EQ(outcome, "no-room");
                EXPECT_EQ(bytes, frame);
            }
            const nf::Type& type = *nf::find_type("ipsec");
            EXPECT_LE(head, type.head_growth);
            EXPECT_LE(tail, type.tail_growth);
            for (const auto& [outcome, bytes] : run_tight(far_end(tunnel), oracle.seal(inner_of(frame), 1), 0, 0)) {
                EXPECT_EQ(outcome, "unprotected");
                EXPECT_EQ(bytes, frame);
            }
        }
    }
    EXPECT_EQ(nf::find_type("ipsec")->head_growth, 40u + 8 + 8 + 16);
    EXPECT_EQ(nf::find_type("ipsec")->tail_growth, 15u + 2 + 16);
}

TEST(IpsecBounds, HoldForEspCutOffAnywhere) {
    for (const Tunnel& tunnel : all_tunnels()) {
        const EspOracle oracle(tunnel);
        for (size_t cut = 0; cut < 60; ++cut) {
            const Frame frame = oracle.seal(inner_of(clear_frame(2)), {.sequence = 1, .cut = cut});
            for (const auto& [outcome, bytes] : run_tight(far_end(tunnel), frame, 0, 0))
                EXPECT_TRUE(cut == 0 ? outcome == "unprotected" : outcome != "unprotected")
                    << tunnel.text() << ": " << cut << " " << outcome;
        }
    }
}

}  // namespace
}  // namespace millrace::test
