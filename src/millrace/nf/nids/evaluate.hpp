// All rules against one packet, once the patterns in its payload are known.
#pragma once

#include "millrace/nf/nids/confirm.hpp"
#include "millrace/nf/nids/pattern/device.hpp"

namespace millrace::nf::nids {

/// Lists of rules by ranges of a number: the rules for `value` are those of the last start <= value.
struct RangeIndex {
    View<uint32_t> starts;  ///< ascending, the first is 0
    View<uint32_t> begin;   ///< by start, and one more: where its rules begin in `rules`
    View<uint32_t> rules;
};

/// The tables of the NF.
struct NidsTables {
    View<CompiledRule> rules;
    HeaderTables header;
    OptionTables options;
    pattern::PatternTables patterns;
    View<uint32_t> pattern_begin;  ///< by pattern, and one more: where its rules begin in `pattern_rules`
    View<uint32_t> pattern_rules;
    // Rules without a content to look for stand in one of these.
    RangeIndex by_source;       ///< by IPv4 source
    RangeIndex by_destination;  ///< by IPv4 destination
    View<uint32_t> only_ipv6;   ///< those of the two above that have IPv6 addresses
    RangeIndex by_port;         ///< by protocol << 16 | destination port
};

/// Protocols in the keys of `by_port`.
enum class PortKey : uint32_t { tcp, udp, icmp, other };

/// Outcomes of the NF.
enum Outcome : uint32_t { kClean, kAlert, kBlock };

/// Most alerts that one packet raises; an event of kMoreAlerts | n says that n further rules matched.
inline constexpr uint32_t kMaxAlerts = 15;
inline constexpr uint32_t kMoreAlerts = 0x80000000u;

/// The lowest of the rules that matched, ascending, and how many more there were.
class MatchedRules {
public:
    MILLRACE_DEVICE void add(uint32_t rule) {
        if (count_ == kMaxAlerts) {
            ++more_;
            if (rule > rules_[kMaxAlerts - 1]) return;
            --count_;
        }
        uint32_t i = count_++;
        for (; i > 0 && rules_[i - 1] > rule; --i) rules_[i] = rules_[i - 1];
        rules_[i] = rule;
    }
    MILLRACE_DEVICE uint32_t count() const { return count_; }
    MILLRACE_DEVICE uint32_t more() const { return more_; }
    MILLRACE_DEVICE uint32_t operator[](uint32_t i) const { return rules_[i]; }

private:
    uint32_t rules_[kMaxAlerts];
    uint32_t count_ = 0;
    uint32_t more_ = 0;
};

/// One packet's way through the rules: `pattern` for each pattern found, then `finish`.
template <class Lanes>
class Evaluation {
public:
    MILLRACE_DEVICE Evaluation(Packet& packet, const NidsTables& tables, Lanes lanes)
        : packet_(packet), tables_(tables), lanes_(lanes),
          buffers_(packet.payload(), packet.payload_bytes(), packet.layers().is_tcp()),
          confirmation_(packet_, tables.options, buffers_, lanes) {}

    /// Whether the rules say anything of such a packet.
    MILLRACE_DEVICE static bool concerns(const Packet& packet) {
        return packet.layers().is_ip() && packet.layers().malformed == Malformed::no;
    }

    MILLRACE_DEVICE void pattern(uint32_t id) {
        try_rules(tables_.pattern_rules.data() + tables_.pattern_begin[id],
                  tables_.pattern_begin[id + 1] - tables_.pattern_begin[id]);
    }

    /// The rules that look for no pattern, the alerts, the decision.
    MILLRACE_DEVICE Decision finish() {
        try_rules_without_pattern();
        if (pass_ != kNoDetail) return {pass_, kClean};
        for (uint32_t i = 0; i < alerts_.count(); ++i) lanes_.once([&] { packet_.emit(alerts_[i]); });
        if (alerts_.more() > 0) lanes_.once([&] { packet_.emit(kMoreAlerts | alerts_.more()); });
        if (drop_ != kNoDetail) return {drop_, kBlock};
        return alerts_.count() == 0 ? Decision{kNoDetail, kClean} : Decision{alerts_[0], kAlert};
    }

private:
    MILLRACE_DEVICE void try_rules_without_pattern() {
        const Layers& layers = packet_.layers();
        if (layers.is_ipv4()) {
            try_indexed(tables_.by_source, packet_.ipv4_src());
            try_indexed(tables_.by_destination, packet_.ipv4_dst());
        } else {
            try_rules(tables_.only_ipv6.data(), static_cast<uint32_t>(tables_.only_ipv6.size()));
        }
        const PortKey key = layers.is_tcp()    ? PortKey::tcp
                            : layers.is_udp()  ? PortKey::udp
                            : layers.is_icmp() ? PortKey::icmp
                                               : PortKey::other;
        try_indexed(tables_.by_port, static_cast<uint32_t>(key) << 16 | packet_.l4_dst_port());
    }

    MILLRACE_DEVICE void try_indexed(const RangeIndex& index, uint32_t value) {
        if (index.rules.empty()) return;
        uint32_t low = 0, high = static_cast<uint32_t>(index.starts.size());
        while (high - low > 1) {
            const uint32_t middle = (low + high) / 2;
            if (index.starts[middle] <= value) {
                low = middle;
            } else {
                high = middle;
            }
        }
        try_rules(index.rules.data() + index.begin[low], index.begin[low + 1] - index.begin[low]);
    }

    MILLRACE_NIDS_CALL void try_rules(const uint32_t* rules, uint32_t count) {
        for (uint32_t i = 0; i < count; ++i) {
            const CompiledRule& rule = tables_.rules[rules[i]];
            if (header_matches(rule, tables_.header, packet_, buffers_) && confirmation_.run(rule)) matched(rules[i], rule);
        }
    }

    MILLRACE_DEVICE void matched(uint32_t index, const CompiledRule& rule) {
        if (rule.action & CompiledRule::kPass) {
            pass_ = smaller(pass_, index);
            return;
        }
        if (rule.action & CompiledRule::kDrop) drop_ = smaller(drop_, index);
        if (!(rule.action & CompiledRule::kSilent)) alerts_.add(index);
    }

    Packet& packet_;
    const NidsTables& tables_;
    Lanes lanes_;
    PayloadBuffers buffers_;
    Confirmation<Lanes> confirmation_;
    MatchedRules alerts_;
    uint32_t pass_ = kNoDetail;
    uint32_t drop_ = kNoDetail;
};

}  // namespace millrace::nf::nids
