#include "millrace/nf/mappings/options.hpp"

#include <arpa/inet.h>
#include <fmt/format.h>

#include <algorithm>
#include <cstring>
#include <set>
#include <tuple>
#include <type_traits>

namespace millrace::nf::mappings {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

uint32_t raw_of(uint32_t host_order) { return __builtin_bswap32(host_order); }

std::string end_text(const End& end) { return fmt::format("{}:{}", address_text(end.address), end.port); }
std::string end_text(const EndOf<Ipv6Address>& end) {
    return fmt::format("[{}]:{}", address_text(end.address), end.port);
}

/// A single address of a family.
template <class Address>
Address read_address(const Config& value) {
    constexpr bool kIpv6 = std::is_same_v<Address, Ipv6Address>;
    const Prefix prefix = read_prefix(value, kIpv6, kIpv6 ? "endpoints inside have IPv6" : "external ports are IPv4's");
    if (!prefix.is_host()) value.fail("'" + value.text() + "' is not a single address", "write it without a length");
    Address address;
    read_address_of(prefix, address);
    return address;
}

template <class Address>
class Reader {
public:
    Reader(const Config& config, const std::function<bool(const Address&)>& is_inside,
           const std::function<bool(uint32_t)>& is_external_inside)
        : config_(config), is_inside_(is_inside), is_external_inside_(is_external_inside) {}
    Options<Address> read() {
        read_ports();
        read_pool();
        read_forwards();
        read_timeouts();
        if (made_.pool.empty() && made_.forwards.empty())
            config_.fail("there are neither external addresses nor port forwards", "add 'pool: 198.51.100.1'");
        return std::move(made_);
    }

private:
    void read_ports() {
        uint32_t first = 1024, last = 65535;
        if (const auto ports = config_.find("ports")) {
            const std::string text = ports->text(), hint = "write 1024-65535";
            const size_t dash = text.find('-');
            const auto number = [&](const std::string& digits) -> uint32_t {
                const bool good = !digits.empty() && digits.size() <= 5 &&
                                  digits.find_first_not_of("0123456789") == std::string::npos;
                if (!good || std::stoul(digits) > 65535) ports->fail("'" + text + "' is no range of ports", hint);
                return static_cast<uint32_t>(std::stoul(digits));
            };
            if (dash == std::string::npos) ports->fail("'" + text + "' is no range of ports", hint);
            first = number(text.substr(0, dash));
            last = number(text.substr(dash + 1));
            if (last < first) ports->fail("'" + text + "' ends before it begins", hint);
            if (first % kGroupPorts != 0 || (last + 1) % kGroupPorts != 0)
                ports->fail(fmt::format("ports come in groups of {0}: the first is a multiple of {0}, and the last one "
                                        "less than a multiple",
                                        kGroupPorts),
                            fmt::format("write {}-{}", first / kGroupPorts * kGroupPorts,
                                        last / kGroupPorts * kGroupPorts + kGroupPorts - 1));
            if (first == 0) ports->fail("port 0 is nobody's", "begin with 64, or with 1024");
        }
        made_.first_group = first / kGroupPorts;
        made_.groups = (last + 1 - first) / kGroupPorts;
    }
    void read_pool() {
        const auto pool = config_.find("pool");
        std::set<uint32_t> known;
        for (const Config& one : pool ? pool->items() : std::vector<Config>{}) {
            const Prefix prefix = read_prefix(one, false, "external addresses are IPv4's");
            const uint64_t count = uint64_t{1} << (32 - prefix.length);
            if ((made_.pool.size() + count) * made_.groups * kGroupPorts * Options<Address>::kProtocols > kMaxPorts)
                one.fail("the pool has more than 16 Mi ports, those of three protocols counted",
                         "take fewer addresses, or fewer 'ports' of each");
            for (uint32_t i = 0; i < count; ++i) {
                const uint32_t address = raw_of(prefix.ipv4() + i);
                if (!known.insert(address).second)
                    one.fail("the pool has " + address_text(address) + " already", "take it out here");
                if (is_external_inside_(address))
                    one.fail("the external address " + address_text(address) + " is inside",
                             "make 'inside' smaller, or take another address");
                made_.pool.push_back(address);
            }
        }
    }
    void read_forwards() {
        const auto forwards = config_.find("forwards");
        std::set<std::tuple<std::string, uint8_t, uint16_t>> external, inside;
        const auto is_new = [](auto& of, const auto& end) {
            return of.emplace(address_text(end.address), end.protocol, end.port).second;
        };
        for (const Config& one : forwards ? forwards->items() : std::vector<Config>{}) {
            one.only({"protocol", "address", "port", "to", "to-port"});
            ForwardOptions<Address> made;
            made.where = one.where();
            const uint8_t protocol = one.at("protocol").choice({"tcp", "udp"}) == 0 ? ip::kProtocolTcp
                                                                                    : ip::kProtocolUdp;
            const auto port = static_cast<uint16_t>(one.at("port").integer(1, 65535));
            made.external = {read_address<uint32_t>(one.at("address")), port, protocol};
            made.inside = {read_address<Address>(one.at("to")),
                           static_cast<uint16_t>(one.integer_or("to-port", port, 1, 65535)), protocol};
            if (is_external_inside_(made.external.address))
                one.at("address").fail("the external address " + address_text(made.external.address) + " is inside");
            if (!is_inside_(made.inside.address))
                one.at("to").fail(address_text(made.inside.address) + " is not inside",
                                  "add its prefix to 'inside', so that its answers are known");
            if (!is_new(external, made.external)) one.fail("there are two port forwards of " + made.text());
            if (!is_new(inside, made.inside))
                one.fail(end_text(made.inside) + " has a port forward already: its answers could be of either",
                         "give it a 'to-port' of its own");
            made_.forwards.push_back(std::move(made));
            if (made_.forwards.size() > kMaxForwards)
                one.fail(fmt::format("there are more than {} port forwards", kMaxForwards));
        }
    }
    void read_timeouts() {
        static constexpr struct {
            const char* name;
            uint64_t seconds;  ///< RFC 4787, REQ-5; RFC 5382, REQ-5; RFC 5508, REQ-2
        } kTimeouts[kKept] = {{"udp", 300}, {"tcp", 7440}, {"tcp-transitory", 240}, {"icmp", 60}};
        made_.journal = config_.boolean_or("journal", made_.journal);
        const auto timeouts = config_.find("timeouts");
        if (timeouts) timeouts->only({"udp", "tcp", "tcp-transitory", "icmp"});
        for (unsigned i = 0; i < kKept; ++i) {
            made_.kept_ns[i] = kTimeouts[i].seconds * kSecond;
            const auto given = timeouts ? timeouts->find(kTimeouts[i].name) : std::nullopt;
            if (!given) continue;
            if (given->duration().count() <= 0)
                given->fail("a time-out of 0 forgets ports at once", fmt::format("write {}s", kTimeouts[i].seconds));
            made_.kept_ns[i] = static_cast<uint64_t>(given->duration().count());
        }
    }

    const Config& config_;
    const std::function<bool(const Address&)>& is_inside_;
    const std::function<bool(uint32_t)>& is_external_inside_;
    Options<Address> made_;
};

}  // namespace

std::string address_text(uint32_t address) {
    const uint32_t host = __builtin_bswap32(address);
    return fmt::format("{}.{}.{}.{}", host >> 24, host >> 16 & 255, host >> 8 & 255, host & 255);
}
std::string address_text(const Ipv6Address& address) {
    char text[INET6_ADDRSTRLEN];
    return inet_ntop(AF_INET6, address.words, text, sizeof text);
}
void read_address_of(const Prefix& prefix, uint32_t& address) { address = raw_of(prefix.ipv4()); }
void read_address_of(const Prefix& prefix, Ipv6Address& address) {
    std::memcpy(address.words, prefix.bytes.data(), sizeof address.words);
}

Prefix read_prefix(const Config& value, bool ipv6, const std::string& hint) {
    const Prefix prefix = value.prefix();
    if (prefix.ipv6 != ipv6) value.fail("'" + value.text() + "' is not of " + (ipv6 ? "IPv6" : "IPv4"), hint);
    return prefix;
}

template <class Address>
std::string ForwardOptions<Address>::text() const {
    return end_text(external) + (external.protocol == ip::kProtocolTcp ? "/tcp" : "/udp");
}

template <class Address>
Options<Address> read_options(const Config& config, const std::function<bool(const Address&)>& is_inside,
                              const std::function<bool(uint32_t)>& is_external_inside) {
    return Reader<Address>(config, is_inside, is_external_inside).read();
}

template struct ForwardOptions<uint32_t>;
template struct ForwardOptions<Ipv6Address>;
template Options<uint32_t> read_options(const Config&, const std::function<bool(const uint32_t&)>&,
                                        const std::function<bool(uint32_t)>&);
template Options<Ipv6Address> read_options(const Config&, const std::function<bool(const Ipv6Address&)>&,
                                           const std::function<bool(uint32_t)>&);

}  // namespace millrace::nf::mappings
