#include "nf/nids/streams/sessions.hpp"

#include <algorithm>

namespace millrace::nf::nids {

Session::Session(uint32_t number, uint32_t client_seq, uint32_t server_seq)
    : number_(number), client_seq_(client_seq), server_seq_(server_seq) {
    add(true, client_seq, "", tcp::kSyn);
    add(false, server_seq, "", tcp::kSyn | tcp::kAck);
    add(true, client_seq + 1, "", tcp::kAck);
}

void Session::add(bool from_client, uint32_t seq, const std::string& bytes, uint8_t flags) {
    test::PacketSpec spec;
    spec.ipv4.emplace();
    const uint32_t client = test::ipv4("10.1.0.0") + number_, server = test::ipv4("10.200.0.1");
    spec.ipv4->src = from_client ? client : server;
    spec.ipv4->dst = from_client ? server : client;
    spec.tcp.emplace();
    spec.tcp->src = from_client ? 40000 : 80;
    spec.tcp->dst = from_client ? 80 : 40000;
    spec.tcp->seq = seq;
    spec.tcp->ack = (flags & tcp::kAck) == 0 ? 0 : (from_client ? server_seq_ : client_seq_) + 1;
    spec.tcp->flags = flags;
    spec.tcp->window = 60000;
    spec.payload = test::Frame(bytes.begin(), bytes.end());
    frames.push_back(test::build(spec));
}

std::vector<Sent> random_pieces(std::mt19937& rng, size_t bytes, size_t most, bool in_order) {
    std::vector<Sent> pieces;
    for (size_t at = 0; at < bytes;) {
        const size_t length = std::min(bytes - at, 1 + rng() % most);
        pieces.push_back({at, length});
        at += length;
    }
    if (in_order) return pieces;
    for (size_t i = 0; i + 1 < pieces.size(); i += 2 + rng() % 3)
        if (rng() % 2 == 0) std::swap(pieces[i], pieces[i + 1]);
    std::vector<Sent> all;
    for (Sent piece : pieces) {
        const size_t back = rng() % 3 == 0 ? std::min<size_t>(piece.at, rng() % 8) : 0;
        all.push_back({piece.at - back, piece.bytes + back});
        if (rng() % 5 == 0) all.push_back(all[rng() % all.size()]);
    }
    return all;
}

}  // namespace millrace::nf::nids
