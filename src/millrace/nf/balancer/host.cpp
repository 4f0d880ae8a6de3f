#include <fmt/format.h>

#include <algorithm>
#include <bit>
#include <cstring>

#include "millrace/nf/balancer/device.hpp"
#include "millrace/nf/balancer/maglev.hpp"
#include "millrace/nf/balancer/options.hpp"
#include "millrace/nf/names_ports.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::nf::balancer {
namespace {

EndPoint end_point(const Prefix& address, uint16_t port, uint8_t protocol) {
    EndPoint end{};
    std::memcpy(end.address, address.bytes.data(), address.ipv6 ? 16 : 4);
    end.port = port;
    end.protocol = protocol;
    end.ipv6 = address.ipv6;
    return end;
}

/// The hash table of end points while it is filled.
class Directory {
public:
    explicit Directory(size_t most) : entries_(std::bit_ceil(std::max<size_t>(2 * most, 4))) {}

    /// The entry of an end point; one that is free where there is none yet.
    Entry& at(const EndPoint& end) {
        size_t at = hash_of(end) & (entries_.size() - 1);
        while (entries_[at].kind != Entry::kFree && !(entries_[at].end == end)) at = (at + 1) & (entries_.size() - 1);
        return entries_[at];
    }
    void put(const EndPoint& end, Entry::Kind kind, uint32_t number) {
        at(end) = {end, kind, number};
        forms_ |= end.port != 0 ? kWithPort : end.protocol != 0 ? kWithProtocol : kAddressAlone;
    }
    /// The address of an end point that has a port or a protocol, so that others of it are known as well.
    void put_address(EndPoint end, bool of_service) {
        end.port = 0;
        end.protocol = 0;
        Entry& known = at(end);
        if (known.kind == Entry::kFree) put(end, Entry::kAddress, of_service);
        else if (known.kind == Entry::kAddress && of_service) known.number = 1;
    }

    uint32_t forms() const { return forms_; }
    std::vector<Entry> take() { return std::move(entries_); }

private:
    std::vector<Entry> entries_;
    uint32_t forms_ = 0;
};

class BalancerHost : public NetworkFunction, public NamesPorts {
public:
    BalancerHost(const Config& options, const Environment& environment)
        : options_(read_options(options, environment.ports)) {
        tables().follows_errors = options_.follows_errors ? 1 : 0;
        fill_directory();
        fill_services();
    }

    const Image& image() const override { return image_; }
    bool names_ports() const override {
        return std::ranges::any_of(options_.services, [](const ServiceOptions& service) {
            return std::ranges::any_of(service.back_ends, [](const auto& one) { return one.out_port != kNoPort; });
        });
    }
    Fields reads(Fields of_type) const override { return without_quotes(of_type); }
    Fields writes(Fields of_type) const override { return without_quotes(of_type); }

    std::string explain(const Decision& decision) const override {
        if (decision.outcome == Balancer::kReturned && decision.detail < options_.services.size())
            return "from " + options_.services[decision.detail].text();
        if (decision.outcome != Balancer::kBalanced || decision.detail >= places_.size()) return {};
        const auto [service, number] = places_[decision.detail];
        return "to " + options_.services[service].back_ends[number].name + " of " + options_.services[service].text();
    }

    std::optional<ShownTable> show(std::string_view topic, size_t most) const override {
        if (topic != "back-ends") return {};
        ShownTable table{{"service", "back-end", "weight", "slots", "of-slots"}, {}, places_.size()};
        for (size_t i = 0; i < places_.size() && i < most; ++i) {
            const ServiceOptions& service = options_.services[places_[i].first];
            const BackEndOptions& own = service.back_ends[places_[i].second];
            table.rows.push_back(
                {service.text(), own.name, uint64_t{own.weight}, slots_of_[i], uint64_t{service.slots}});
        }
        return table;
    }

    std::vector<Statistic> statistics() const override {
        return {{"services", options_.services.size(), "services that there are"},
                {"back-ends", places_.size(), "back ends of all of them"},
                {"table-bytes", image_.array_bytes(), "bytes of all tables"}};
    }

    std::string summary() const override {
        return fmt::format("{} service{}, {} back end{}, {} KiB of tables", options_.services.size(),
                           options_.services.size() == 1 ? "" : "s", places_.size(), places_.size() == 1 ? "" : "s",
                           image_.array_bytes() / 1024);
    }

private:
    BalancerTables& tables() {
        if (image_.tables() == nullptr) tables_ = &image_.start<BalancerTables>();
        return *tables_;
    }
    Fields without_quotes(Fields of_type) const { return options_.follows_errors ? of_type : of_type - field::payload; }

    void fill_directory() {
        size_t most = 0;
        for (const ServiceOptions& service : options_.services) most += 2 * (1 + service.back_ends.size());
        Directory directory(most);
        for (uint32_t i = 0; i < options_.services.size(); ++i) {
            const ServiceOptions& service = options_.services[i];
            const EndPoint end = end_point(service.address, service.port, service.protocol);
            if (directory.at(end).kind == Entry::kService)
                throw ConfigError({service.where, "there are two services " + service.text(), "make them one"});
            directory.put(end, Entry::kService, i);
        }
        for (uint32_t i = 0; i < options_.services.size(); ++i)
            if (!options_.services[i].to_mac) add_back_ends(directory, i);
        for (const ServiceOptions& service : options_.services)
            directory.put_address(end_point(service.address, service.port, service.protocol), true);
        image_.attach(tables().entries, directory.take());
        tables().forms = directory.forms();
    }

    /// So that their answers are known. An end point can stand for one service only.
    void add_back_ends(Directory& directory, uint32_t number) {
        const ServiceOptions& service = options_.services[number];
        for (const BackEndOptions& one : service.back_ends) {
            const uint16_t port = one.port != 0 ? one.port : service.port;
            const EndPoint end = end_point(*one.address, port, service.protocol);
            const Entry& known = directory.at(end);
            if (known.kind == Entry::kService)
                throw ConfigError({service.where, "back end '" + one.name + "' is a service itself",
                                   "give it an address or a port of its own"});
            if (known.kind == Entry::kBackEnd)
                throw ConfigError({service.where,
                                   fmt::format("'{}' is a back end of {} already: its answers could come from either",
                                               one.name, options_.services[known.number].text()),
                                   "give it a port of its own for each service"});
            directory.put(end, Entry::kBackEnd, number);
            directory.put_address(end, false);
        }
    }

    void fill_services() {
        std::vector<Service> services;
        std::vector<BackEnd> back_ends;
        std::vector<uint16_t> slots;
        for (uint32_t i = 0; i < options_.services.size(); ++i) {
            const ServiceOptions& options = options_.services[i];
            std::vector<Share> shares;
            const auto first = static_cast<uint32_t>(back_ends.size());
            for (uint32_t k = 0; k < options.back_ends.size(); ++k) {
                shares.push_back({options.back_ends[k].name, options.back_ends[k].weight});
                back_ends.push_back(back_end_of(options.back_ends[k]));
                places_.emplace_back(i, k);
            }
            slots_of_.resize(places_.size(), 0);
            const std::vector<uint32_t> own = fill_slots(shares, options.slots);
            services.push_back({end_point(options.address, options.port, options.protocol),
                                static_cast<uint32_t>(slots.size()), static_cast<uint32_t>(own.size()),
                                static_cast<uint16_t>(options.to_mac), static_cast<uint16_t>(options.by_source)});
            for (const uint32_t back_end : own) {
                slots.push_back(static_cast<uint16_t>(first + back_end));
                ++slots_of_[first + back_end];
            }
        }
        image_.attach_some(tables().services, std::move(services));
        image_.attach_some(tables().back_ends, std::move(back_ends));
        image_.attach_some(tables().slots, std::move(slots));
    }

    static BackEnd back_end_of(const BackEndOptions& options) {
        BackEnd made{};
        if (options.address) {
            const EndPoint end = end_point(*options.address, 0, 0);
            std::copy(std::begin(end.address), std::end(end.address), made.address);
        }
        made.port = options.port;
        made.out_port = options.out_port;
        made.has_mac = options.mac.has_value();
        if (options.mac) std::copy(options.mac->begin(), options.mac->end(), made.mac);
        return made;
    }

    const Options options_;
    std::vector<std::pair<uint32_t, uint32_t>> places_;  ///< of each back end: its service, and its number there
    std::vector<uint64_t> slots_of_;                     ///< by back end
    BalancerTables* tables_ = nullptr;
    Image image_;
};

const Register<Balancer, BalancerHost> registration{{
    .name = "balancer",
    .summary = "shares the packets of services among back ends, a flow's all to one",
    .outcomes = {{"balanced", Disposition::next, "the packet goes to a back end"},
                 {"returned", Disposition::next, "an answer of a back end has the service's address again"},
                 {"other", Disposition::next, "neither for a service nor from a back end: not changed"},
                 {"no-service", Disposition::drop, "for the address of a service, which has no such port or protocol"},
                 {"no-back-end", Disposition::drop, "the service has no back end with a weight"},
                 {"fragment", Disposition::drop, "a fragment, whose port is not known"}},
    .device_header = "millrace/nf/balancer/device.hpp",
    .device_struct = "millrace::nf::balancer::Balancer",
    .shareable = true,
}};

}  // namespace
}  // namespace millrace::nf::balancer
