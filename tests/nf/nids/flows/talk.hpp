// Conversations for tests of flows, and what rules make of them by a model of its own.
#pragma once

#include <functional>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "support/nf_runner.hpp"
#include "support/packet_builder.hpp"

namespace millrace::nf::nids {

/// A packet of some conversation, and what is known of its flow when it comes.
struct Said {
    test::Frame frame;
    std::string text;  ///< its payload
    size_t flow = 0;   ///< which connection it is of; another one of the same ends has another number
    bool to_server = true, established = false;
    uint8_t flags = 0;    ///< TCP's
    bool forged = false;  ///< its numbers are far from any window
};
/// Some of them, as frames.
std::vector<test::Frame> frames_of(const std::vector<Said>& said, size_t from = 0, size_t to = SIZE_MAX);

/// Two ends that keep to their protocol, one connection after the other: packets in order. Some are forged.
class Conversation {
public:
    /// `flows`: numbers of connections that are taken already.
    Conversation(bool tcp, uint32_t client, uint16_t port, size_t& flows, std::mt19937& rng);
    std::vector<Said> said;

private:
    struct End {
        uint32_t address;
        uint16_t port;
        uint32_t seq, ack;
    };
    void tcp_connection();
    void udp_exchange();
    void say(unsigned side, unsigned flags, const std::string& text, bool forged = false);
    std::string words();

    const bool tcp_;
    std::mt19937& rng_;
    End ends_[2];
    size_t flow_ = 0;
    bool established_ = false;
};

/// Many of them at once, mixed, each in its order.
std::vector<Said> mixed_conversations(size_t count, unsigned seed);

/// The options of a NIDS whose rules look for letters, and for all that can be asked of flows.
extern const char* const kFlowRules;

/// What they make of packets one by one: a model that knows nothing of how the NIDS does it.
struct Judged {
    std::set<uint32_t> alerts;  ///< numbers of rules
    uint32_t outcome = 0;       ///< clean, alert, block
};
std::vector<Judged> judge(const std::vector<Said>& said);

/// Runs them in batches of random sizes, and tells of each packet its number, the rules that were told of it, none of
/// them twice, and its outcome.
void run_in_batches(test::NfRunner& runner, const test::Half& half, const std::vector<Said>& said,
                    const std::function<void(size_t, const std::set<uint32_t>&, uint32_t)>& each);

}  // namespace millrace::nf::nids
