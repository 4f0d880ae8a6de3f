#include "nf/nids/flows/talk.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <functional>
#include <map>

#include "millrace/packet/headers.hpp"

namespace millrace::nf::nids {

Conversation::Conversation(bool tcp, uint32_t client, uint16_t port, size_t& flows, std::mt19937& rng)
    : tcp_(tcp), rng_(rng),
      ends_{{client, port, static_cast<uint32_t>(rng()), 0},
            {test::ipv4("10.77.0.1"), static_cast<uint16_t>(40000 + rng() % 3), static_cast<uint32_t>(rng()), 0}} {
    const size_t connections = tcp ? 1 + rng() % 3 : 1;
    for (size_t i = 0; i < connections; ++i) {
        flow_ = flows++;
        established_ = false;
        if (tcp) tcp_connection();
        else udp_exchange();
    }
}

std::string Conversation::words() {
    std::string text;
    for (size_t n = rng_() % 4; n > 0; --n) text += static_cast<char>('a' + rng_() % 14);
    return text;
}

void Conversation::tcp_connection() {
    for (End& end : ends_) end.seq = static_cast<uint32_t>(rng_());
    say(0, tcp::kSyn, words());
    say(1, tcp::kSyn | tcp::kAck, "");
    say(0, tcp::kAck, words());
    established_ = true;
    for (unsigned turn = 0, turns = rng_() % 14; turn < turns; ++turn) {
        say(rng_() % 2, tcp::kAck | tcp::kPsh, words());
        if (rng_() % 12 != 0) continue;
        // Far from any window: it is looked at, and changes nothing of the connection.
        const unsigned side = rng_() % 2;
        const uint32_t before = ends_[side].seq, known = ends_[1 - side].ack;
        ends_[side].seq ^= 0x40000000;
        say(side, tcp::kAck | tcp::kFin, words(), true);
        ends_[side].seq = before;
        ends_[1 - side].ack = known;
    }
    say(0, tcp::kFin | tcp::kAck, words());
    say(1, tcp::kAck, "");
    say(1, tcp::kFin | tcp::kAck, words());
    say(0, tcp::kAck, "");
}

void Conversation::udp_exchange() {
    for (unsigned turn = 0, turns = 2 + rng_() % 14; turn < turns; ++turn) {
        const unsigned side = turn == 0 ? 0 : rng_() % 2;
        if (side == 1) established_ = true;
        say(side, 0, words());
    }
}

void Conversation::say(unsigned side, unsigned flags, const std::string& text, bool forged) {
    End &from = ends_[side], &to = ends_[1 - side];
    test::PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = from.address;
    spec.ipv4->dst = to.address;
    if (tcp_) {
        spec.tcp.emplace();
        spec.tcp->src = from.port;
        spec.tcp->dst = to.port;
        spec.tcp->seq = from.seq;
        spec.tcp->ack = (flags & tcp::kAck) != 0 ? from.ack : 0;
        spec.tcp->flags = static_cast<uint8_t>(flags);
        spec.tcp->window = 20000;
    } else {
        spec.udp.emplace();
        spec.udp->src = from.port;
        spec.udp->dst = to.port;
    }
    spec.payload = test::Frame(text.begin(), text.end());
    said.push_back({test::build(spec), text, flow_, side == 0, established_, static_cast<uint8_t>(flags), forged});
    from.seq += static_cast<uint32_t>(text.size()) + ((flags & (tcp::kSyn | tcp::kFin)) != 0 ? 1 : 0);
    to.ack = from.seq;
}

std::vector<test::Frame> frames_of(const std::vector<Said>& said, size_t from, size_t to) {
    std::vector<test::Frame> frames;
    for (size_t i = from; i < std::min(to, said.size()); ++i) frames.push_back(said[i].frame);
    return frames;
}

std::vector<Said> mixed_conversations(size_t count, unsigned seed) {
    std::mt19937 rng(seed);
    std::vector<Conversation> all;
    std::vector<size_t> turns, next(count);
    size_t flows = 0;
    for (size_t i = 0; i < count; ++i) {
        // Addresses and ports that lie now below the server's, now above.
        const uint32_t client = test::ipv4(i % 2 == 0 ? "10.0.0.0" : "10.200.0.0") + static_cast<uint32_t>(i);
        all.emplace_back(rng() % 4 != 0, client, static_cast<uint16_t>(i % 3 == 0 ? 80 : 50000 + i % 1000), flows, rng);
        turns.insert(turns.end(), all.back().said.size(), i);
    }
    std::shuffle(turns.begin(), turns.end(), rng);
    std::vector<Said> mixed;
    for (const size_t i : turns) mixed.push_back(all[i].said[next[i]++]);
    return mixed;
}

const char* const kFlowRules = R"(
mode: ips
flows: {max-flows: 4k, streams: none}
rule:
- 'alert ip any any -> any any (content:"a"; flow:established,to_server; flowbits:set,one; flowbits:noalert; sid:1;)'
- 'alert ip any any -> any any (content:"b"; flowbits:isset,one; flowbits:set,two; sid:2;)'
- 'alert ip any any -> any any (content:"c"; flowbits:isset,one|two; sid:3;)'
- 'alert ip any any -> any any (content:"d"; flow:to_client; flowbits:isnotset,two; sid:4;)'
- 'alert ip any any -> any any (content:"e"; flowbits:unset,one; sid:5;)'
- 'alert ip any any -> any any (content:"f"; flowbits:toggle,three; sid:6;)'
- 'drop ip any any -> any any (content:"g"; flowbits:isset,three; sid:7;)'
- 'pass ip any any -> any any (content:"h"; flowbits:isset,two; sid:8;)'
- 'alert ip any any -> any any (content:"i"; flow:established; sid:9;)'
- 'alert ip any any -> any any (content:"j"; sid:10;)'
- 'alert ip any any -> any any (content:"k"; flow:not_established; sid:11;)'
- 'alert ip any any -> any any (content:"f"; flowbits:isset,three; sid:12;)'
- 'alert ip any any -> any any (content:"l"; flowbits:isset,one&three; sid:13;)'
- 'drop ip any any -> any any (content:"m"; flow:to_server; sid:14;)'
- 'pass ip any any -> any any (content:"n"; content:"c"; sid:15;)'
)";

namespace {

struct ModelRule {
    uint32_t number;
    const char* letters;
    enum { alerts, drops, passes, silent } what;
    std::function<bool(const Said&)> flow;
    std::function<bool(const std::set<int>&)> asks;
    std::function<void(std::set<int>&)> does;
};

bool any_flow(const Said&) { return true; }
bool asks_nothing(const std::set<int>&) { return true; }
void does_nothing(std::set<int>&) {}
auto sets(int bit) {
    return [bit](std::set<int>& bits) { bits.insert(bit); };
}

/// In the order in which Suricata asks them: by action; then those that set, that do both, that ask, and the others.
std::vector<ModelRule> model_rules() {
    using R = ModelRule;
    const auto has = [](int bit) { return [bit](const std::set<int>& bits) { return bits.contains(bit); }; };
    return {
        {7, "h", R::passes, any_flow, has(2), does_nothing},
        {14, "nc", R::passes, any_flow, asks_nothing, does_nothing},
        {6, "g", R::drops, any_flow, has(3), does_nothing},
        {13, "m", R::drops, [](const Said& said) { return said.to_server; }, asks_nothing, does_nothing},
        {0, "a", R::silent, [](const Said& said) { return said.established && said.to_server; }, asks_nothing, sets(1)},
        {4, "e", R::alerts, any_flow, asks_nothing, [](std::set<int>& bits) { bits.erase(1); }},
        {5, "f", R::alerts, any_flow, asks_nothing,
         [](std::set<int>& bits) {
             if (bits.erase(3) == 0) bits.insert(3);
         }},
        {1, "b", R::alerts, any_flow, has(1), sets(2)},
        {2, "c", R::alerts, any_flow, [](const std::set<int>& bits) { return bits.contains(1) || bits.contains(2); },
         does_nothing},
        {3, "d", R::alerts, [](const Said& said) { return !said.to_server; },
         [](const std::set<int>& bits) { return !bits.contains(2); }, does_nothing},
        {11, "f", R::alerts, any_flow, has(3), does_nothing},
        {12, "l", R::alerts, any_flow, [](const std::set<int>& bits) { return bits.contains(1) && bits.contains(3); },
         does_nothing},
        {8, "i", R::alerts, [](const Said& said) { return said.established; }, asks_nothing, does_nothing},
        {9, "j", R::alerts, any_flow, asks_nothing, does_nothing},
        {10, "k", R::alerts, [](const Said& said) { return !said.established; }, asks_nothing, does_nothing},
    };
}

}  // namespace

std::vector<Judged> judge(const std::vector<Said>& said) {
    const std::vector<ModelRule> rules = model_rules();
    std::map<size_t, std::set<int>> bits_of_flow;
    std::vector<Judged> all;
    for (const Said& packet : said) {
        std::set<int>& bits = bits_of_flow[packet.flow];
        Judged judged;
        bool passes = false, drops = false;
        for (const ModelRule& rule : rules) {
            const std::string letters = rule.letters;
            const bool has = std::all_of(letters.begin(), letters.end(),
                                         [&](char letter) { return packet.text.find(letter) != std::string::npos; });
            if (!has || !rule.flow(packet) || !rule.asks(bits)) continue;
            rule.does(bits);
            passes = passes || rule.what == ModelRule::passes;
            drops = drops || rule.what == ModelRule::drops;
            if (rule.what == ModelRule::alerts || rule.what == ModelRule::drops) judged.alerts.insert(rule.number);
        }
        if (passes) judged.alerts.clear();
        judged.outcome = passes ? 0 : drops ? 2 : judged.alerts.empty() ? 0 : 1;
        all.push_back(std::move(judged));
    }
    return all;
}

void run_in_batches(test::NfRunner& runner, const test::Half& half, const std::vector<Said>& said,
                    const std::function<void(size_t, const std::set<uint32_t>&, uint32_t)>& each) {
    std::mt19937 rng(half.lanes);
    for (size_t from = 0; from < said.size();) {
        const size_t to = std::min(said.size(), from + 1 + rng() % 400);
        const auto result = runner.run(frames_of(said, from, to), half);
        std::vector<std::set<uint32_t>> told(to - from);
        for (const Event& event : result.events)
            EXPECT_TRUE(told[event.packet].insert(event.code).second) << "told twice";
        for (size_t i = from; i < to && !testing::Test::HasFatalFailure(); ++i)
            each(i, told[i - from], result.decisions[i - from].outcome);
        if (testing::Test::HasFatalFailure()) return;
        from = to;
    }
}

}  // namespace millrace::nf::nids
