#include "lab/reference.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "millrace/base/eal.hpp"
#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/io/metadata.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::lab {
namespace {

using exec::Verdict;

constexpr uint32_t kMaxBytes = 9216, kRoom = 256;
constexpr uint64_t kWeekNs = 604'800'000'000'000;  // longer than Linux remembers a connection

/// The sequence number of an ESP packet, else 0.
uint32_t esp_sequence(const std::vector<uint8_t>& frame) {
    Packet packet;
    const auto length = static_cast<uint32_t>(frame.size());
    packet.attach(const_cast<uint8_t*>(frame.data()), length, length, 0, 0);
    packet.parse();
    const Layers& layers = packet.layers();
    const bool esp = layers.malformed == Malformed::no && layers.protocol == ip::kProtocolEsp &&
                     layers.l4_offset + 8u <= length;
    return esp ? load_be32(frame.data() + layers.l4_offset + 4) : 0;
}

}  // namespace

struct Reference::Parts : exec::Delivery {
    Parts(chain::Configuration loaded, bool cpu_halves)
        : configuration(std::move(loaded)), engine(*this, {.use_cpu_halves = cpu_halves}) {
        start_eal();
        pool = std::make_unique<io::PacketPool>(
            "reference",
            io::PoolOptions{
                .packets = 64, .max_frame_bytes = kMaxBytes, .headroom_bytes = kRoom, .tailroom_bytes = kRoom});
        for (const auto& program : configuration.chains)
            counters.push_back(std::make_unique<exec::ChainCounters>(*program));
    }

    /// The next packet that draws a ticket shall draw that of `sequence`.
    void number_next(uint32_t sequence) const {
        for (const auto& program : configuration.chains)
            for (const chain::Node& node : program->nodes)
                if (node.type->numbered()) {
                    const MutableView<uint64_t> tickets = node.type->tickets(node.nf->image().tables());
                    for (size_t i = 0; i < tickets.size(); ++i) tickets[i] = sequence - uint64_t{1};
                }
    }

    void deliver(const chain::Program& program, exec::ChainCounters&, rte_mbuf* const* mbufs, const Verdict* verdicts,
                 size_t count) override {
        for (size_t i = 0; i < count; ++i) {
            if (verdicts[i].target.kind == Target::Kind::chain) {
                next_chain = verdicts[i].target.value;
                passed_on = mbufs[i];
                continue;
            }
            const auto* data = rte_pktmbuf_mtod(mbufs[i], const uint8_t*);
            if (verdicts[i].target.kind != Target::Kind::drop) out.emplace(data, data + mbufs[i]->data_len);
            else if (verdicts[i].node < program.nodes.size())
                dropped_by_state = std::any_of(program.nodes.begin(), program.nodes.begin() + verdicts[i].node + 1,
                                               [](const chain::Node& node) { return node.type->is_keyed(); });
            rte_pktmbuf_free(mbufs[i]);
        }
    }

    /// What becomes of a frame; nothing when it is dropped.
    std::optional<std::vector<uint8_t>> run(const std::vector<uint8_t>& frame) {
        rte_mbuf* mbuf = nullptr;
        if (frame.size() > kMaxBytes || !pool->allocate(&mbuf, 1)) return std::nullopt;
        std::memcpy(rte_pktmbuf_mtod(mbuf, void*), frame.data(), frame.size());
        mbuf->data_len = static_cast<uint16_t>(frame.size());
        mbuf->pkt_len = mbuf->data_len;
        mbuf->port = 0;
        io::set_packet_metadata(mbuf, now_ns += kWeekNs, 1);
        out.reset();
        dropped_by_state = false;
        next_chain = configuration.classification.chain_of_port(0);
        if (next_chain == chain::kNoChain) {
            Packet packet;
            exec::attach_mbuf(packet, mbuf);
            packet.parse();
            next_chain = configuration.classification.chain_of(packet);
        }
        if (next_chain == chain::kNoChain) rte_pktmbuf_free(mbuf);
        for (passed_on = next_chain == chain::kNoChain ? nullptr : mbuf; passed_on != nullptr;) {
            rte_mbuf* current = std::exchange(passed_on, nullptr);
            engine.submit(configuration.chains[next_chain], *counters[next_chain], &current, 1);
        }
        return out;
    }

    chain::Configuration configuration;
    exec::CpuEngine engine;
    std::unique_ptr<io::PacketPool> pool;
    std::vector<std::unique_ptr<exec::ChainCounters>> counters;
    bool dropped_by_state = false;
    uint64_t now_ns = 0;
    uint16_t next_chain = 0;
    rte_mbuf* passed_on = nullptr;
    std::optional<std::vector<uint8_t>> out;
};

Reference::Reference(chain::Configuration configuration, bool cpu_halves)
    : parts_(std::make_unique<Parts>(std::move(configuration), cpu_halves)) {}
Reference::~Reference() = default;

std::optional<std::string> Reference::differs(const Sample& sample) {
    if (const uint32_t sequence = esp_sequence(sample.after); sequence != 0) parts_->number_next(sequence);
    const auto expected = parts_->run(sample.before);
    if (!expected) return fmt::format("packet {} left, and the cpu drops it", sample.number);
    if (*expected == sample.after) return std::nullopt;
    const auto at = std::mismatch(expected->begin(), expected->end(), sample.after.begin(), sample.after.end()).first -
                    expected->begin();
    return fmt::format("packet {} is another one than on the cpu from byte {} on ({} bytes, there {})", sample.number,
                       at, sample.after.size(), expected->size());
}

bool Reference::dropped_by_state() const { return parts_->dropped_by_state; }

Check check(Reference& reference, const std::vector<Sample>& samples) {
    Check check;
    for (const Sample& sample : samples) {
        const auto difference = reference.differs(sample);
        if (!difference) {
            ++check.equal;
        } else if (reference.dropped_by_state()) {
            ++check.undecided;
        } else if (check.different++ == 0) {
            check.first_difference = *difference;
        }
    }
    return check;
}

}  // namespace millrace::lab
