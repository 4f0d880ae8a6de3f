#include <fmt/format.h>

#include <array>
#include <cstring>

#include "millrace/nf/policer/device.hpp"
#include "millrace/nf/state/keyed_table.hpp"

namespace millrace::nf::policer {
namespace {

/// A rate such as "10Mbps" or "1.5kpps".
struct Rate {
    uint64_t a_second = 0;
    bool of_bits = false;
};

Rate read_rate(const Config& text) {
    const std::string hint = "write it as 10Mbps or 500kpps: bits or packets a second, with k, M or G";
    const std::string written = text.text();
    size_t behind = 0;
    double number = 0;
    try {
        number = std::stod(written, &behind);
    } catch (const std::exception&) {
        text.fail("'" + written + "' is no rate", hint);
    }
    std::string unit = written.substr(behind);
    std::erase(unit, ' ');
    double times = 1;
    if (unit.size() == 4) {
        const size_t prefix = std::string("kMG").find(unit[0]);
        if (prefix == std::string::npos) text.fail("'" + written + "' is no rate", hint);
        times = std::array{1e3, 1e6, 1e9}[prefix];
        unit.erase(0, 1);
    }
    if (unit != "bps" && unit != "pps") text.fail("'" + written + "' is no rate", hint);
    const double rate = number * times;
    constexpr double kMax = 1e12;
    if (!(rate >= 1 && rate <= kMax)) text.fail("a rate is from 1 to 1,000 G a second", hint);
    return {static_cast<uint64_t>(rate), unit == "bps"};
}

uint32_t mask_word(unsigned length, unsigned word) {
    const unsigned bits = length <= 32 * word ? 0 : std::min(length - 32 * word, 32u);
    uint32_t host = bits == 0 ? 0 : ~uint32_t{0} << (32 - bits);
    return __builtin_bswap32(host);
}

class PolicerHost : public KeyedFunction<Policer> {
public:
    PolicerHost(const Config& options, const Environment& environment)
        : KeyedFunction(read(options), environment, "buckets") {
        Policer::Tables& own = tables();
        read_per(options, own);
        const Rate rate = read_rate(options.at("rate"));
        read_burst(options, rate, own);
        own.rate = rate.a_second;
        own.counts_bits = rate.of_bits;
        own.fill_ns = own.burst / own.rate + 1;
        summary_ = fmt::format("{} {} a second{}, {} KiB", rate.a_second, rate.of_bits ? "bits" : "packets",
                               own.per == Per::all ? "" : " each", table().bytes() >> 10);
    }
    std::string summary() const override { return summary_; }

private:
    static KeyedOptions read(const Config& options) {
        std::vector<std::string> known = KeyedOptions::names("buckets");
        known.insert(known.end(), {"rate", "burst", "per", "ipv6-prefix"});
        options.only(known);
        return KeyedOptions::read(options, "buckets",
                                  {.most = 65536, .timeout_ns = 60'000'000'000, .when_full = WhenFull::evict});
    }
    static void read_per(const Config& options, Policer::Tables& tables) {
        unsigned lengths[2] = {32, 128};
        if (const auto per = options.find("per")) {
            const std::string text = per->text();
            const size_t slash = text.find('/');
            const std::array<std::string, 4> names{"all", "source", "destination", "flow"};
            const auto found = std::find(names.begin(), names.end(), text.substr(0, slash));
            const std::string hint = "write all, source, destination or flow; a prefix as source/24";
            if (found == names.end()) per->fail("'" + text + "' is nothing that packets could share a bucket by", hint);
            tables.per = static_cast<Per>(found - names.begin());
            if (slash != std::string::npos) {
                const bool has_prefix = tables.per == Per::source || tables.per == Per::destination;
                const std::string length = text.substr(slash + 1);
                const bool number = !length.empty() && length.size() < 3 &&
                                    length.find_first_not_of("0123456789") == std::string::npos;
                if (!has_prefix || !number || std::stoul(length) > 32)
                    per->fail("'" + text + "' has no such prefix", hint);
                lengths[0] = static_cast<unsigned>(std::stoul(length));
                lengths[1] = 64;
            }
        }
        if (const auto length = options.find("ipv6-prefix"))
            lengths[1] = static_cast<unsigned>(length->integer(0, 128));
        for (unsigned family = 0; family < 2; ++family)
            for (unsigned word = 0; word < 4; ++word) tables.masks[family][word] = mask_word(lengths[family], word);
    }
    /// Unless it is said: what comes in 10 ms, but for the largest frame of Ethernet and a packet.
    static void read_burst(const Config& options, const Rate& rate, Policer::Tables& tables) {
        constexpr uint64_t kLargestFrame = 1518, kMaxBytes = 1'000'000'000;
        const uint64_t usual = rate.of_bits ? std::max(rate.a_second / 800, kLargestFrame)
                                            : std::max<uint64_t>(rate.a_second / 100, 1);
        uint64_t burst = std::min(usual, kMaxBytes);
        if (const auto given = options.find("burst")) {
            burst = given->size();
            if (burst == 0 || burst > kMaxBytes)
                given->fail("a burst is from 1 to 1 G",
                            rate.of_bits ? "it is in bytes: burst: 64Ki" : "it is in packets");
        }
        tables.burst = burst * (rate.of_bits ? 8 : 1) * kTokens;
    }

    std::string summary_;
};

const Register<Policer, PolicerHost> registration{{
    .name = "policer",
    .summary = "lets packets by up to a rate: of each flow, prefix, or all",
    .outcomes = {{"pass", Disposition::next, "it is within the rate"},
                 {"over", Disposition::drop, "it is over the rate"},
                 {"full", Disposition::drop, "there is no room for one more bucket"},
                 {"not-ip", Disposition::next, "it is not IP, and is not counted"}},
    .device_header = "millrace/nf/policer/device.hpp",
    .device_struct = "millrace::nf::policer::Policer",
}};

}  // namespace
}  // namespace millrace::nf::policer
