#include <cstring>

#include "millrace/nf/nf.hpp"
#include "millrace/nf/reject/device.hpp"

namespace millrace::nf::reject {
namespace {

/// What can be told, by type and code of each family (RFC 792, RFC 1812, section 5.2.7; RFC 4443, section 3).
struct Reason {
    const char* name;
    icmp::Error ipv4, ipv6;
};
constexpr Reason kReasons[] = {
    {"no-route", {3, 0}, {1, 0}},    {"host-unreachable", {3, 1}, {1, 3}}, {"port-unreachable", {3, 3}, {1, 4}},
    {"prohibited", {3, 13}, {1, 1}}, {"time-exceeded", {11, 0}, {3, 0}},   {"too-big", {}, {}},
};
constexpr size_t kTooBig = std::size(kReasons) - 1;

class RejectHost : public NetworkFunction {
public:
    RejectHost(const Config& options, const Environment&) {
        options.only({"with", "from", "mtu"});
        Reject::Tables& tables = image_.start<Reject::Tables>();
        std::vector<std::string> names;
        for (const Reason& reason : kReasons) names.emplace_back(reason.name);
        const size_t reason = options.at("with").choice(names);
        tables.ipv4 = kReasons[reason].ipv4;
        tables.ipv6 = kReasons[reason].ipv6;
        read_from(options.at("from"), tables);
        const auto mtu = options.find("mtu");
        if (reason == kTooBig) read_mtu(options.at("mtu"), tables);
        else if (mtu) mtu->fail("only 'too-big' tells an MTU", "take it out");
        summary_ = "answers by " + names[reason];
    }
    const Image& image() const override { return image_; }
    std::string summary() const override { return summary_; }

private:
    static void read_from(const Config& from, Reject::Tables& tables) {
        for (const Config& item : from.is_scalar() ? std::vector<Config>{from} : from.items()) {
            const Prefix host = item.prefix();
            uint8_t& tells = host.ipv6 ? tables.tells_ipv6 : tables.tells_ipv4;
            if (!host.is_host())
                item.fail("'" + item.text() + "' is not a single address", "name one of this router's");
            if (tells) item.fail("a second address of the same IP version", "name one of IPv4, one of IPv6, or both");
            tells = 1;
            if (host.ipv6) std::memcpy(tables.from_ipv6, host.bytes.data(), sizeof tables.from_ipv6);
            else std::memcpy(tables.from_ipv4, host.bytes.data(), sizeof tables.from_ipv4);
        }
        if (!tables.tells_ipv4 && !tables.tells_ipv6)
            from.fail("an address is missing here", "name one of this router's");
    }
    static void read_mtu(const Config& mtu, Reject::Tables& tables) {
        const uint32_t least = tables.tells_ipv6 ? icmp::kIpv6LeastMtu : icmp::kIpv4LeastMtu;
        const auto bytes = static_cast<uint32_t>(mtu.integer(least, UINT16_MAX));
        tables.ipv4 = icmp::too_big(false, bytes);
        tables.ipv6 = icmp::too_big(true, bytes);
        tables.is_about_length = 1;
    }

    Image image_;
    std::string summary_;
};

const Register<Reject, RejectHost> registration{{
    .name = "reject",
    .summary = "answers packets by the ICMP error that tells their senders why they do not arrive",
    .outcomes = {{"told", Disposition::next, "it has become the error, for its sender"},
                 {"silent", Disposition::drop, "it may not be answered, or there is no address to answer from"}},
    .device_header = "millrace/nf/reject/device.hpp",
    .device_struct = "millrace::nf::reject::Reject",
    .head_growth = icmp::error_head_bytes(true),
    .shareable = true,
}};

}  // namespace
}  // namespace millrace::nf::reject
