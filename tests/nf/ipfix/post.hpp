// What tests of messages and of the log share: records, and somebody who takes messages.
#pragma once

#include <array>
#include <cstring>
#include <utility>

#include "millrace/nf/ipfix/record_log.hpp"
#include "nf/ipfix/reader.hpp"

namespace millrace::test {

using namespace nf::ipfix;

inline constexpr uint64_t kOneSecond = 1'000'000'000, kNow = 1'700'000'000 * kOneSecond;

inline Note ipv4_note() {
    Note note{};
    const uint8_t source[] = {10, 0, 0, 1}, destination[] = {192, 0, 2, 7};
    std::memcpy(note.key.source, source, 4);
    std::memcpy(note.key.destination, destination, 4);
    note.key.source_port = 1000;
    note.key.destination_port = 443;
    note.key.protocol = 6;
    note.key.vlan = 100;
    note.key.in_port = 0;
    note.count = {.packets = 3,
                  .octets = 0x1234,
                  .first_ns = 1'600'000'000'123'999'999,
                  .last_ns = 1'600'000'001'000'000'000,
                  .out_port = 2,
                  .tos = 0xb8,
                  .tcp_flags = 0x1b,
                  .ended = 1,
                  .reserved = {}};
    note.reason = EndReason::end_of_flow;
    return note;
}

inline Note ipv6_note() {
    Note note{};
    for (uint8_t i = 0; i < 16; ++i) {
        reinterpret_cast<uint8_t*>(note.key.source)[i] = static_cast<uint8_t>(0xa0 + i);
        reinterpret_cast<uint8_t*>(note.key.destination)[i] = static_cast<uint8_t>(0xb0 + i);
    }
    note.key.icmp = 0x8001;
    note.key.protocol = 58;
    note.key.is_ipv6 = 1;
    note.key.in_port = kNoPort;
    note.count = {.packets = 1,
                  .octets = 64,
                  .first_ns = 1'000'000,
                  .last_ns = 2'000'000,
                  .out_port = kNoPort,
                  .tos = 0,
                  .tcp_flags = 0,
                  .ended = 0,
                  .reserved = {}};
    note.reason = EndReason::idle;
    return note;
}

/// Takes messages, or refuses them with the next of `errors`.
struct Post {
    std::vector<std::vector<uint8_t>> messages;
    std::vector<int> errors;  ///< of the next messages, the first one last
    int refused = 0;
    int rooms = 0;  ///< how often it may be waited for room
};
class TestSender : public Sender {
public:
    TestSender(Post& post, size_t most) : post_(post), most_(most) {}
    int send(std::span<const uint8_t> message) override {
        if (!post_.errors.empty()) {
            const int error = post_.errors.back();
            post_.errors.pop_back();
            if (error != 0) return error;
        }
        post_.messages.emplace_back(message.begin(), message.end());
        return 0;
    }
    int refused() override { return std::exchange(post_.refused, 0); }
    bool wait_for_room() override { return post_.rooms-- > 0; }
    size_t most_bytes() const override { return most_; }

private:
    Post& post_;
    const size_t most_;
};

struct Clock {
    std::shared_ptr<uint64_t> now = std::make_shared<uint64_t>(kNow);
    std::function<uint64_t()> function() const {
        return [now = now] { return *now; };
    }
};

}  // namespace millrace::test
