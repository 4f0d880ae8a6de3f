#include "millrace/nf/nids/flows/options.hpp"

#include "millrace/nf/flows/stream.hpp"
#include "millrace/nf/flows/timeouts.hpp"

namespace millrace::nf::nids {
namespace {

constexpr uint32_t of(Kept kept) { return static_cast<uint32_t>(kept); }
/// Those of Suricata's own configuration.
constexpr flows::Timeout kTimeouts[] = {{"tcp-new", of(Kept::tcp_new), 60},
                                        {"tcp-established", of(Kept::tcp_established), 600},
                                        {"tcp-closed", of(Kept::tcp_closed), 60},
                                        {"udp-new", of(Kept::udp_new), 30},
                                        {"udp-established", of(Kept::udp_established), 300},
                                        {"icmp-new", of(Kept::icmp_new), 30},
                                        {"icmp-established", of(Kept::icmp_established), 300},
                                        {"other-new", of(Kept::other_new), 30},
                                        {"other-established", of(Kept::other_established), 300}};

/// A pattern that is searched for, and some bytes before it.
constexpr uint64_t kLeastTail = 64;

constexpr KeyedOptions kUsual{.most = 65'536, .timeout_ns = 30'000'000'000, .when_full = WhenFull::evict};

constexpr uint64_t kLeastHead = 128, kLeastBody = 64, kMaxHead = 16 * 1024, kMaxRooms = 32, kMaxDecoders = 64 * 1024;

uint32_t size_between(const Config& given, const char* name, uint32_t usual, uint64_t least, uint64_t most,
                      const char* range, const char* why) {
    const auto found = given.find(name);
    if (!found) return usual;
    const uint64_t bytes = found->size();
    if (bytes < least || bytes > most) found->fail("'" + std::string(name) + "' is from " + range, why);
    return static_cast<uint32_t>((bytes + 7) / 8 * 8);
}

/// `http: none`, `http: usual`, or how much is kept of messages.
void read_messages(const Config& given, FlowOptions& options) {
    options.messages = true;
    if (given.is_scalar()) {
        options.messages = given.choice({"none", "usual"}) == 1;
        return;
    }
    given.only({"messages", "head", "body", "decoders", "inflate"});
    if (const auto rooms = given.find("messages")) options.rooms = static_cast<uint32_t>(rooms->integer(1, kMaxRooms));
    options.head = size_between(given, "head", options.head, kLeastHead, kMaxHead, "128 B to 16 KiB",
                                "each message that is under way has so many bytes");
    options.body = size_between(given, "body", options.body, kLeastBody, kMaxHead, "64 B to 16 KiB",
                                "each message that is under way has so many bytes");
    options.inflate = size_between(given, "inflate", options.inflate, 0, 1u << 30, "0 to 1 GiB",
                                   "a body is decompressed to so many bytes at most");
    if (const auto decoders = given.find("decoders"))
        options.decoders = static_cast<uint32_t>(decoders->integer(0, kMaxDecoders));
}

/// `streams: none`, or how much is kept of them.
void read_streams(const Config& given, FlowOptions& options) {
    if (given.is_scalar()) {
        given.choice({"none"});
        options.streams = false;
        return;
    }
    given.only({"tail", "late-segments", "http"});
    options.streams_asked = true;
    if (const auto tail = given.find("tail")) {
        const uint64_t bytes = tail->size();
        if (bytes < kLeastTail || bytes > flows::StreamMemory::kMaxTail)
            tail->fail("'tail' is from 64 B to 16 KiB", "each direction of each flow has so many bytes");
        options.tail = static_cast<uint32_t>((bytes + 7) / 8 * 8);
    }
    if (const auto messages = given.find("http")) read_messages(*messages, options);
    if (const auto early = given.find("late-segments"))
        options.early = static_cast<uint32_t>(early->integer(0, flows::StreamMemory::kMaxEarly));
}

}  // namespace

FlowOptions read_flow_options(const std::optional<Config>& given) {
    FlowOptions options;
    options.table = kUsual;
    if (given && given->is_scalar()) {
        given->choice({"none"});
        options.followed = false;
        return options;
    }
    if (given) {
        given->only({"max-flows", "when-full", "midstream", "timeouts", "streams"});
        options.table = KeyedOptions::read(*given, "flows", kUsual);
        options.rules.midstream = given->boolean_or("midstream", false);
        if (const auto streams = given->find("streams")) read_streams(*streams, options);
    }
    flows::read_timeouts(given ? given->find("timeouts") : std::nullopt, kTimeouts, options.rules.kept_ns);
    return options;
}

}  // namespace millrace::nf::nids
