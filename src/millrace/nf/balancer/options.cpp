#include "millrace/nf/balancer/options.hpp"

#include <fmt/format.h>

#include <map>
#include <set>

#include "millrace/nf/balancer/maglev.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf::balancer {
namespace {

Prefix read_address(const Config& value) {
    const Prefix prefix = value.prefix();
    if (!prefix.is_host()) value.fail("'" + value.text() + "' is not a single address", "write it without a length");
    return prefix;
}

std::string host_text(const Prefix& address) {
    const std::string text = address.text();
    return text.substr(0, text.find('/'));
}

uint16_t read_port(const Config& value) { return static_cast<uint16_t>(value.integer(1, 65535)); }

bool is_prime(int64_t n) {
    for (int64_t by = 2; by * by <= n; ++by)
        if (n % by == 0) return false;
    return n > 1;
}

class ServiceReader {
public:
    ServiceReader(const Config& service, const std::vector<std::string>& ports) : config_(service), ports_(ports) {
        config_.only({"address", "protocol", "port", "way", "affinity", "slots", "back-ends"});
        made_.where = config_.where();
        made_.address = read_address(config_.at("address"));
        if (const auto protocol = config_.find("protocol"))
            made_.protocol = protocol->choice({"tcp", "udp"}) == 0 ? 6 : 17;
        if (const auto port = config_.find("port")) {
            made_.port = read_port(*port);
            if (made_.protocol == 0) port->fail("a port goes with a protocol", "add 'protocol: tcp' or 'udp'");
        }
        if (const auto way = config_.find("way")) made_.to_mac = way->choice({"address", "mac"}) == 1;
        if (const auto affinity = config_.find("affinity")) made_.by_source = affinity->choice({"flow", "source"}) == 1;
    }

    ServiceOptions read() {
        const std::vector<Config> all = config_.has("back-ends") ? config_.at("back-ends").items()
                                                                 : std::vector<Config>{};
        for (const Config& one : all) add(one);
        made_.slots = slots_for(made_.back_ends.size());
        if (const auto slots = config_.find("slots")) {
            const int64_t count = slots->integer(2, kMaxSlots);
            if (!is_prime(count)) slots->fail("the number of slots is a prime", "65537 is one");
            if (count < static_cast<int64_t>(made_.back_ends.size()))
                slots->fail("there are more back ends than slots", "leave 'slots' out");
            made_.slots = static_cast<uint32_t>(count);
        }
        return std::move(made_);
    }

private:
    void add(const Config& one) {
        one.only({"name", "address", "port", "mac", "via", "weight"});
        BackEndOptions made;
        made.out_port = kNoPort;
        const auto address = one.find("address"), mac = one.find("mac"), port = one.find("port");
        if (made_.to_mac) {
            if (address) address->fail("with 'way: mac' back ends have the service's address", "take 'address' out");
            if (port) port->fail("with 'way: mac' back ends have the service's port", "take 'port' out");
            if (!mac) one.fail("with 'way: mac' a back end has a MAC address", "add 'mac: \"02:00:00:00:00:01\"'");
        } else {
            if (!address) one.fail("a back end has an address", "add 'address: …', or 'way: mac' to the service");
            made.address = read_address(*address);
            if (made.address->ipv6 != made_.address.ipv6)
                address->fail("this is not of the service's address family", "translate in a function of its own");
        }
        if (port) {
            if (made_.port == 0) port->fail("a service of all ports leaves ports as they are", "take 'port' out");
            made.port = read_port(*port);
        }
        if (mac) made.mac = mac->mac();
        if (const auto via = one.find("via")) made.out_port = static_cast<uint16_t>(via->choice(ports_));
        if (const auto weight = one.find("weight")) made.weight = static_cast<unsigned>(weight->integer(0, kMaxWeight));
        made.name = one.text_or(
            "name", made.address ? host_text(*made.address) + (made.port != 0 ? fmt::format(":{}", made.port) : "")
                                 : mac->text());
        if (!names_.insert(made.name).second)
            one.fail("two back ends of this service are called '" + made.name + "'", "give each a 'name'");
        made_.back_ends.push_back(std::move(made));
    }

    const Config& config_;
    const std::vector<std::string>& ports_;
    ServiceOptions made_;
    std::set<std::string> names_;
};

}  // namespace

std::string ServiceOptions::text() const {
    const std::string host = host_text(address);
    const char* const of = protocol == 6 ? "/tcp" : protocol == 17 ? "/udp" : "";
    return port == 0 ? host + of : fmt::format(fmt::runtime(address.ipv6 ? "[{}]:{}{}" : "{}:{}{}"), host, port, of);
}

Options read_options(const Config& options, const std::vector<std::string>& ports) {
    options.only({"services", "icmp-errors"});
    Options made;
    made.where = options.where();
    made.follows_errors = options.boolean_or("icmp-errors", true);
    const Config services = options.at("services");
    size_t back_ends = 0, slots = 0;
    for (const Config& one : services.items()) {
        made.services.push_back(ServiceReader(one, ports).read());
        back_ends += made.services.back().back_ends.size();
        slots += made.services.back().slots;
        if (made.services.size() > kMaxServices) one.fail(fmt::format("there are more than {} services", kMaxServices));
        if (back_ends > kMaxBackEnds)
            one.fail(fmt::format("there are more than {} back ends", kMaxBackEnds),
                     "use a chain for each part of them");
        if (slots > kMaxSlots)
            one.fail(fmt::format("the services have more than {} slots", kMaxSlots),
                     "give those with many back ends fewer 'slots'");
    }
    return made;
}

}  // namespace millrace::nf::balancer
