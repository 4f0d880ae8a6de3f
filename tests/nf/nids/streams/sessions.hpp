// TCP sessions of which one end sends a text in pieces, for tests of streams.
#pragma once

#include <random>
#include <string>
#include <vector>

#include "millrace/packet/headers.hpp"
#include "support/packet_builder.hpp"

namespace millrace::nf::nids {

/// Bytes [at, at + bytes) of what an end sends.
struct Sent {
    size_t at, bytes;
};

/// One connection between its ends: shakes hands at once.
class Session {
public:
    /// `number`: of the client's address.
    Session(uint32_t number, uint32_t client_seq, uint32_t server_seq = 77);
    /// What the client sends of a text, which is all that it sends.
    void send(const std::string& text, Sent piece, uint8_t flags = tcp::kAck | tcp::kPsh) {
        add(true, client_seq_ + 1 + static_cast<uint32_t>(piece.at), text.substr(piece.at, piece.bytes), flags);
    }
    void answer(const std::string& text, Sent piece) {
        add(false, server_seq_ + 1 + static_cast<uint32_t>(piece.at), text.substr(piece.at, piece.bytes),
            tcp::kAck | tcp::kPsh);
    }
    void add(bool from_client, uint32_t seq, const std::string& bytes, uint8_t flags);

    std::vector<test::Frame> frames;

private:
    const uint32_t number_, client_seq_, server_seq_;
};

/// A text in pieces of up to `most` bytes; some change places with those behind them, or come twice, and some begin
/// with bytes of the one before.
std::vector<Sent> random_pieces(std::mt19937& rng, size_t bytes, size_t most, bool in_order);

}  // namespace millrace::nf::nids
