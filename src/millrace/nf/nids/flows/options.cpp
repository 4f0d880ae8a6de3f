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

/// `streams: none`, or how much is kept of them.
void read_streams(const Config& given, FlowOptions& options) {
    if (given.is_scalar()) {
        given.choice({"none"});
        options.streams = false;
        return;
    }
    given.only({"tail", "late-segments"});
    options.streams_asked = true;
    if (const auto tail = given.find("tail")) {
        const uint64_t bytes = tail->size();
        if (bytes < kLeastTail || bytes > flows::StreamMemory::kMostTail)
            tail->fail("'tail' is from 64 B to 16 KiB", "each direction of each flow has so many bytes");
        options.tail = static_cast<uint32_t>((bytes + 7) / 8 * 8);
    }
    if (const auto early = given.find("late-segments"))
        options.early = static_cast<uint32_t>(early->integer(0, flows::StreamMemory::kMostEarly));
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
