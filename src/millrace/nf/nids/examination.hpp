// The tables of the NF, and what of a packet its rules are held against.
#pragma once

#include "millrace/nf/nids/confirm.hpp"
#include "millrace/nf/nids/pattern/device.hpp"
#include "millrace/nf/nids/rule_notes.hpp"

namespace millrace::nf::nids {

/// Rules that no pattern leads to, with the same header.
struct alignas(16) RuleGroup {
    uint32_t header = 0;            ///< the RuleHeader's number
    uint32_t first = 0, count = 0;  ///< in `grouped_rules`
    uint16_t flags = 0;             ///< the header's
};
static_assert(sizeof(RuleGroup) == 16);

/// Lists of groups by ranges of a number: the groups for `value` are those of the last start <= value, which lies
/// between two entries of `tops`.
struct RangeIndex {
    View<uint32_t> starts;  ///< ascending, the first is 0
    View<uint32_t> tops;    ///< by value >> shift, and one more: the last start <= that value << shift
    View<uint32_t> begin;   ///< by start, and one more: where its groups begin in `groups`
    View<Listed> groups;    ///< RuleGroups
    uint32_t shift = 0;
};

/// A rule as lists name it: by its number, and whether all packets that the list is for meet it.
namespace named_rule {
inline constexpr uint32_t kAlways = 0x80000000u;  ///< they do: no look at the rule is needed, its action stands here,
                                                  ///< too
inline constexpr uint32_t kActionShift = 28, kActions = 7;
inline constexpr uint32_t kNumbers = (1u << kActionShift) - 1;  ///< the highest bit of them is free
}  // namespace named_rule

/// The rules that look for a pattern.
struct alignas(16) PatternRules {
    Listed only;         ///< where there is one alone
    uint32_t first = 0;  ///< where they begin in `pattern_rules`, else
    uint32_t count = 0;
};
static_assert(sizeof(PatternRules) == 16);

/// The tables of the NF.
struct NidsTables {
    View<CompiledRule> rules;
    HeaderTables header;
    OptionTables options;
    pattern::PatternTables patterns;
    View<PatternRules> by_pattern;
    View<Listed> pattern_rules;  ///< named rules
    // Rules without a content to look for stand in one of these.
    RangeIndex by_source;            ///< by IPv4 source
    RangeIndex by_destination;       ///< by IPv4 destination
    View<Listed> only_ipv6;          ///< groups of the two above that have IPv6 addresses
    RangeIndex by_source_port;       ///< by protocol << 16 | source port
    RangeIndex by_destination_port;  ///< by protocol << 16 | destination port
    View<RuleGroup> groups;
    View<uint32_t> grouped_rules;   ///< numbers of rules, by group
    bool without_pattern = false;   ///< whether there are any of these
    bool asks_more = false;         ///< whether any rule that looks for a pattern asks for more than that
    bool spans_from_start = false;  ///< whether any rule is CompiledRule::kAtStart
    bool follows_messages = false;  ///< whether any rule is CompiledRule::kOfMessage
    RuleNotes notes;                ///< where rules ask for flows
};

/// Protocols in the keys of indexes by port.
enum class PortKey : uint32_t { tcp, udp, icmp, other };

/// What a rule is held against.
struct StartOfBytes {
    const uint8_t* data = nullptr;
    uint32_t bytes = 0;
    bool is_http_head = false;
};

/// Whether a packet has the fields of a rule, or all but those at its start.
enum class HasFields : uint8_t { no, not_at_start, yes };

namespace detail {
MILLRACE_DEVICE uint32_t first_bytes(const StartOfBytes& start) {
    if (start.bytes >= 4) return load_be32(start.data);
    uint32_t value = 0;
    for (uint32_t i = 0; i < 4; ++i) value = value << 8 | (i < start.bytes ? start.data[i] : 0u);
    return value;
}
MILLRACE_DEVICE_CALL HasFields has_fields(const Packet& packet, const OptionTables& tables, const CompiledRule& rule,
                                          StartOfBytes start) {
    bool at_start = true;
    for (uint32_t i = 0; i < rule.fields; ++i) {
        const Op& op = tables.ops[rule.first_op + i];
        const auto field = static_cast<Field>(op.mode);
        if (field < Field::first_bytes) {
            if (!has_field(packet, op)) return HasFields::no;
            continue;
        }
        const uint32_t value = field == Field::first_bytes ? first_bytes(start) : start.is_http_head;
        at_start = at_start && (value & op.data) == op.value;
    }
    return at_start ? HasFields::yes : HasFields::not_at_start;
}
template <class Lanes, bool kOfMessages>
MILLRACE_DEVICE_CALL bool has_options(const Packet& packet, const OptionTables& tables,
                                      PayloadBuffers<Lanes, kOfMessages>& buffers, const CompiledRule& rule,
                                      Lanes lanes) {
    Trail trail;
    return Confirmation<Lanes, kOfMessages>(packet, tables, buffers, trail, lanes).run(rule);
}
}  // namespace detail

/// What of one packet rules are held against. `kOfMessages`: as of PayloadBuffers.
template <class Lanes, bool kOfMessages>
class Examination {
public:
    using Buffers = PayloadBuffers<Lanes, kOfMessages>;
    /// `flow`: as of header_flags.
    MILLRACE_DEVICE Examination(const Packet& packet, const NidsTables& tables, Buffers& buffers, Lanes lanes,
                                uint16_t flow)
        : packet_(packet), tables_(tables), buffers_(buffers), lanes_(lanes), flow_(flow) {}
    /// Looks at the packet, by all lanes, before it is asked of headers.
    MILLRACE_DEVICE void look() {
        if (flags_ != 0) return;
        flags_ = header_flags(packet_, buffers_, flow_);
        ports_ = ports_of(tables_.header, packet_);
    }
    /// The same, where its header_flags and the classes of its ports are known.
    MILLRACE_DEVICE void know(uint16_t flags, PortPair ports) {
        flags_ = flags;
        ports_ = ports;
    }
    /// As the function of that name; `any_body`: also where nothing but an HTTP message's begin is missing.
    MILLRACE_DEVICE bool may_be_for(const Listed& listed, bool any_body) const {
        const auto has = static_cast<uint16_t>(flags_ | (any_body ? RuleHeader::kHttp : 0));
        return nids::may_be_for(listed, tables_.header, has, ports_);
    }
    /// Whether the packet has a header; `flags` are that header's. Each lane may ask of another one. Most are refused
    /// by their flags, without a call.
    MILLRACE_DEVICE bool has_header(uint16_t flags, uint32_t header) const {
        return has_flags(flags, flags_) &&
               (!(flags & RuleHeader::kEndpoints) || has_endpoints(header, tables_.header, packet_, ports_));
    }
    MILLRACE_DEVICE bool begins_http() const { return (flags_ & RuleHeader::kHttp) != 0; }
    /// Whether it has a header, but for that an HTTP message begins with it.
    MILLRACE_DEVICE bool may_have_header(uint16_t flags, uint32_t header) const {
        return has_header(static_cast<uint16_t>(flags & ~RuleHeader::kHttp), header);
    }
    /// Whether it has what a rule asks for of other headers, and at the start. Each lane may ask of another rule.
    MILLRACE_DEVICE HasFields has_fields(const CompiledRule& rule) const {
        if (rule.fields == 0) return HasFields::yes;
        return detail::has_fields(packet_, tables_.options, rule, {buffers_.data(), buffers_.bytes(), begins_http()});
    }
    /// Whether it has what a rule asks for besides headers, and besides the pattern that led to it. By all lanes.
    MILLRACE_DEVICE bool has_options(const CompiledRule& rule) {
        return rule.fields == rule.ops || detail::has_options(packet_, tables_.options, buffers_, rule, lanes_);
    }
    /// The same, where the packet is taken for a part of a message.
    MILLRACE_DEVICE bool has_options(const CompiledRule& rule, TakenFor taken_for)
        requires kOfMessages
    {
        buffers_.take_for(taken_for);
        const bool has = has_options(rule);
        buffers_.take_for(TakenFor::what_it_is);
        return has;
    }

private:
    const Packet& packet_;
    const NidsTables& tables_;
    Buffers& buffers_;
    Lanes lanes_;
    PortPair ports_;
    const uint16_t flow_;
    uint16_t flags_ = 0;  ///< header_flags of the packet; 0: not looked at yet
};

}  // namespace millrace::nf::nids
