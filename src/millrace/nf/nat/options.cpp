#include "millrace/nf/nat/options.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <set>

#include "millrace/base/text/prefix.hpp"

namespace millrace::nf::nat {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;

uint32_t raw_of(uint32_t host_order) { return __builtin_bswap32(host_order); }

Prefix read_ipv4(const Config& value) {
    const Prefix prefix = value.prefix();
    if (prefix.ipv6) value.fail("'" + value.text() + "' is not of IPv4", "NAT44 leaves IPv6 as it is");
    return prefix;
}
uint32_t read_address(const Config& value) {
    const Prefix prefix = read_ipv4(value);
    if (!prefix.is_host()) value.fail("'" + value.text() + "' is not a single address", "write it without a length");
    return raw_of(prefix.ipv4());
}

class Reader {
public:
    explicit Reader(const Config& config) : config_(config) {
        config_.only({"inside", "pool", "ports", "forwards", "timeouts"});
    }
    Options read() {
        read_inside();
        read_ports();
        read_pool();
        read_forwards();
        read_timeouts();
        if (made_.pool.empty() && made_.forwards.empty())
            config_.fail("there are neither external addresses nor port forwards", "add 'pool: 198.51.100.1'");
        return std::move(made_);
    }

private:
    bool is_inside(uint32_t address) const {
        return std::ranges::any_of(made_.inside,
                                   [&](const Network& network) { return (address & network.mask) == network.address; });
    }
    void read_inside() {
        const Config inside = config_.at("inside");
        for (const Config& one : inside.items()) {
            const Prefix prefix = read_ipv4(one);
            const uint32_t mask = prefix.length == 0 ? 0 : ~uint32_t{0} << (32 - prefix.length);
            made_.inside.push_back({raw_of(prefix.ipv4()), raw_of(mask)});
            if (made_.inside.size() > kMaxInside) one.fail(fmt::format("there are more than {} prefixes", kMaxInside));
        }
        if (made_.inside.empty()) inside.fail("nobody is inside", "write inside: 10.0.0.0/8");
    }
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
            const Prefix prefix = read_ipv4(one);
            const uint64_t count = uint64_t{1} << (32 - prefix.length);
            if ((made_.pool.size() + count) * made_.groups * kGroupPorts * Options::kProtocols > kMaxPorts)
                one.fail("the pool has more than 16 Mi ports, those of three protocols counted",
                         "take fewer addresses, or fewer 'ports' of each");
            for (uint32_t i = 0; i < count; ++i) {
                const uint32_t address = raw_of(prefix.ipv4() + i);
                if (!known.insert(address).second)
                    one.fail("the pool has " + address_text(address) + " already", "take it out here");
                if (is_inside(address))
                    one.fail("the external address " + address_text(address) + " is inside",
                             "make 'inside' smaller, or take another address");
                made_.pool.push_back(address);
            }
        }
    }
    void read_forwards() {
        const auto forwards = config_.find("forwards");
        std::set<std::pair<uint64_t, uint32_t>> external, inside;
        const auto is_new = [](auto& of, const End& end) {
            return of.insert({uint64_t{end.address} << 8 | end.protocol, end.port}).second;
        };
        for (const Config& one : forwards ? forwards->items() : std::vector<Config>{}) {
            one.only({"protocol", "address", "port", "to", "to-port"});
            ForwardOptions made;
            made.where = one.where();
            const uint8_t protocol = one.at("protocol").choice({"tcp", "udp"}) == 0 ? ip::kProtocolTcp
                                                                                    : ip::kProtocolUdp;
            const auto port = static_cast<uint16_t>(one.at("port").integer(1, 65535));
            made.external = {read_address(one.at("address")), port, protocol};
            made.inside = {read_address(one.at("to")), static_cast<uint16_t>(one.integer_or("to-port", port, 1, 65535)),
                           protocol};
            if (is_inside(made.external.address))
                one.at("address").fail("the external address " + address_text(made.external.address) + " is inside");
            if (!is_inside(made.inside.address))
                one.at("to").fail(address_text(made.inside.address) + " is not inside",
                                  "add its prefix to 'inside', so that its answers are known");
            if (!is_new(external, made.external)) one.fail("there are two port forwards of " + made.text());
            if (!is_new(inside, made.inside))
                one.fail(fmt::format("{}:{} has a port forward already: its answers could be of either",
                                     address_text(made.inside.address), made.inside.port),
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
    Options made_;
};

}  // namespace

std::string address_text(uint32_t address) {
    const uint32_t host = __builtin_bswap32(address);
    return fmt::format("{}.{}.{}.{}", host >> 24, host >> 16 & 255, host >> 8 & 255, host & 255);
}

std::string ForwardOptions::text() const {
    return fmt::format("{}:{}/{}", address_text(external.address), external.port,
                       external.protocol == ip::kProtocolTcp ? "tcp" : "udp");
}

Options read_options(const Config& options) { return Reader(options).read(); }

}  // namespace millrace::nf::nat
