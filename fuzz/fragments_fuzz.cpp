// Any frames as fragments, in any order, at any time: nothing is lost, nothing is read behind a frame, and what comes
// out whole is a packet that can be cut again.
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <memory>
#include <vector>

#include "fuzz/entry.hpp"
#include "millrace/nftest/packets/frame_pool.hpp"
#include "millrace/chain/configuration.hpp"
#include "millrace/exec/fragments/splitter.hpp"
#include "millrace/packet/parse.hpp"

namespace fragments_fuzz {

using namespace millrace;

void require(bool holds, const char* what) {
    if (holds) return;
    std::fprintf(stderr, "%s\n", what);
    std::abort();
}

/// Cuts it into fragments that are such.
void cut(rte_mbuf* whole, exec::WholePackets& buffers, uint32_t mtu) {
    const std::span frame(rte_pktmbuf_mtod(whole, const uint8_t*), whole->data_len);
    const auto split = exec::Split::plan(frame, mtu, buffers.mark(whole));
    if (!split || split->count() > exec::Partial::kMaxPieces) return;
    std::vector<uint8_t> piece(split->most_bytes());
    for (uint32_t i = 0; i < split->count(); ++i) {
        const uint32_t bytes = split->write(i, piece.data());
        require(bytes <= piece.size(), "a fragment is longer than it says");
        const auto fragment = exec::read_fragment({piece.data(), bytes}, 0);
        require(fragment.has_value(), "a fragment is none");
        require(fragment->more == (i + 1 < split->count()) || fragment->key.version == 4,
                "the last one is not the last");
    }
}

MILLRACE_FUZZER(fragments)(const uint8_t* data, size_t size) {
    static const chain::Configuration configuration = [] {
        nftest::frame_pool();  // starts DPDK's environment
        return chain::parse_configuration(
            "version: 1\nports: {in: {source: {count: 1}}, out: {sink: {}}}\n"
            "chains: {c: {input: in, output: out, nfs: [mirror]}}\n",
            "(fuzz)");
    }();
    static exec::WholePackets buffers(64, 128, 64);
    const chain::Program& program = *configuration.chains[0];
    exec::ChainCounters counters(program);
    uint64_t added = 0, whole = 0, added_bytes = 0, whole_bytes = 0;
    {
        exec::Reassembler reassembler({.max_packets = 8, .max_per_source = 3, .timeout = std::chrono::nanoseconds(200)},
                                      buffers, 2, counters);
        uint64_t now = 1;
        // Each frame: how much time has passed, its port and MTU, its length in two bytes, its bytes.
        while (size >= 4) {
            const size_t length = std::min<size_t>(size - 4, (data[2] | data[3] << 8) % 2048);
            now += data[0];
            const uint16_t port = data[1] & 1;
            // A copy of that size lets the sanitizer watch its end.
            const auto frame = std::make_unique<uint8_t[]>(length);
            std::memcpy(frame.get(), data + 4, length);
            const auto fragment = exec::read_fragment({frame.get(), length}, port);
            require(!fragment || !exec::is_plainly_whole(frame.get(), static_cast<uint32_t>(length)),
                    "a fragment passes for a whole packet");
            if (fragment) {
                require(size_t{fragment->payload_at} + fragment->payload_bytes <= length, "it ends behind the frame");
                rte_mbuf* const mbuf = nftest::make_mbuf(nftest::Frame(frame.get(), frame.get() + length), ++added);
                added_bytes += length;
                reassembler.advance(port, now);
                if (rte_mbuf* const packet = reassembler.add(mbuf, *fragment)) {
                    ++whole;
                    whole_bytes += packet->data_len;
                    require(packet->data_off >= 128, "it grew into its headroom");
                    cut(packet, buffers, 68u + data[1] * 8u);
                    rte_pktmbuf_free(packet);
                }
                require(reassembler.held() == counters.in_flight(), "fragments are lost");
                require(buffers.pool().available() + 8 >= buffers.pool().packets(), "it holds more than it may");
            }
            data += 4 + length;
            size -= 4 + length;
        }
    }
    uint64_t dropped = 0;
    for (const auto& reason : counters.fragment_drops) dropped += reason.get();
    require(added == dropped + counters.joined.get() + whole, "fragments are lost at the end");
    require(counters.received_bytes.get() + whole_bytes == added_bytes, "bytes are counted twice");
    require(buffers.pool().available() == buffers.pool().packets(), "buffers are lost");
    return 0;
}

}  // namespace fragments_fuzz
