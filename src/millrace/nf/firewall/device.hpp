// Firewall (G-NET, section 2): permits or denies a packet by the first rule that it matches.
#pragma once

#include "millrace/nf/classify/classifier.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf::firewall {

struct Firewall {
    enum Outcome : uint32_t { kPermit, kDeny };

    static constexpr Fields reads = field::five_tuple | field::tcp_flags;
    static constexpr Fields writes = field::none;
    /// Rules, classes or tables are looked at concurrently, whatever the engine takes; see README.md.
    static constexpr unsigned lanes = 8;

    struct Tables {
        classify::Classifier::Tables classifier;
        View<uint8_t> actions;  ///< Outcome of each rule
        uint32_t default_outcome = kDeny;
        uint32_t non_ip_outcome = kPermit;
    };

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        return decide(packet, tables,
                      [&] { return classify::Classifier::find(tables.classifier, classify::key_of(packet), lanes); });
    }

    /// The decision on `packet`, where `find` gives the index of the first rule that matches it.
    template <class Find>
    MILLRACE_DEVICE static Decision decide(const Packet& packet, const Tables& tables, Find&& find) {
        // Chains drop malformed packets first; should one come, what it hides is not let through.
        if (packet.layers().malformed != Malformed::no) return {kNoDetail, kDeny};
        if (!packet.layers().is_ip()) return {kNoDetail, tables.non_ip_outcome};
        const uint32_t rule = find();
        if (rule == classify::kNoRule) return {kNoDetail, tables.default_outcome};
        return {rule, tables.actions[rule]};
    }
};

}  // namespace millrace::nf::firewall
