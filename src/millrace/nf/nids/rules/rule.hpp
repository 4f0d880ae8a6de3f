// A rule as it was read: everything resolved that the text alone tells, nothing laid out for a device.
#pragma once

#include <algorithm>
#include <cstdint>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <variant>
#include <vector>

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/nf/nids/rules/address_set.hpp"
#include "millrace/nf/nids/tables.hpp"

namespace millrace::nf::nids {

/// A number in an option, or the variable that byte_extract puts it in.
struct Number {
    int64_t value = 0;
    int slot = -1;  ///< >= 0: the variable
};

/// `content` (or `uricontent`) with its modifiers.
struct Content {
    std::string bytes;
    bool negated = false, nocase = false, ends_with = false;
    std::optional<Number> offset, depth, distance, within;
    bool fast_pattern = false;
    std::optional<std::pair<uint32_t, uint32_t>> fast_part;  ///< offset and length
};
struct Regex {
    std::string pattern, flags;
    bool negated = false, relative = false;
};
struct DataAt {
    Number offset;
    bool negated = false, relative = false;
};
/// How byte_* options read a number.
struct NumberFormat {
    uint32_t count = 0;
    Number offset;
    bool relative = false, little_endian = false;
    uint16_t string = 0;  ///< Op::kHex, kDecimal, kOctal, or 0
    uint32_t mask = 0;
};
struct ByteTest {
    NumberFormat format;
    Comparison comparison = Comparison::equal;
    bool negated = false;
    Number operand;
};
struct ByteJump {
    NumberFormat format;
    uint32_t multiplier = 1;
    int32_t post_offset = 0;
    bool align = false, from_beginning = false, from_end = false;
};
struct ByteExtract {
    NumberFormat format;
    uint32_t multiplier = 1;
    bool align = false;
    int slot = 0;
};
struct BufferBytes {
    uint32_t low = 0, high = 0xffffffff;
    bool negated = false;
};
struct FieldRange {
    Field field{};
    uint32_t low = 0, high = 0xffffffff;
    bool negated = false;
};
struct FieldMask {
    Field field{};
    uint32_t mask = 0xffffffff, value = 0;
    Comparison comparison = Comparison::equal;
};
struct SameIp {};

/// `flowbits`: what a rule asks of its flow, or makes of it when it matches.
struct FlowBits {
    StateVerb verb = StateVerb::is_set;
    std::vector<std::string> names;
    bool all = false;  ///< all of several names are asked for, and not any of them
    bool asks() const { return nids::asks(verb); }
};
/// `stream_size`: how many bytes ends of a connection have sent when the packet comes, it included.
struct StreamSize {
    StreamEnds ends = StreamEnds::either;
    Comparison comparison = Comparison::equal;
    uint32_t bytes = 0;
};
/// `flowint`: what a rule asks of a number of its flow, or makes of it when it matches.
struct FlowInt {
    StateVerb verb = StateVerb::int_is_set;
    Comparison comparison = Comparison::equal;
    std::string name;
    std::string other;  ///< the number that it is compared with, or changed by; empty: `value`
    uint32_t value = 0;
    bool asks() const { return nids::asks(verb); }
};

/// `xbits`: what a rule asks of a host, or of two, when its alert is told, or makes of it.
struct HostBit {
    enum class Track : uint8_t { source, destination, pair };
    StateVerb verb = StateVerb::is_set;
    std::string name;
    Track track = Track::source;
    uint32_t seconds = 30;  ///< for how long it is set
    bool asks() const { return nids::asks(verb); }
};

/// One option that a packet is checked for, and the buffer it looks at.
struct Term {
    std::variant<Content, Regex, DataAt, ByteTest, ByteJump, ByteExtract, BufferBytes, FieldRange, FieldMask, SameIp>
        option;
    Buffer buffer = Buffer::payload;
    bool dot_prefix = false;
    uint32_t at = 0;  ///< where it stands in the rule's text
    bool looks_at_buffer() const { return option.index() <= 6; }
};

/// `threshold`, `detection_filter` and `event_filter`: which of a rule's alerts are told.
struct Threshold {
    enum class Type { limit, threshold, both, detection };
    enum class Track { by_src, by_dst, by_both, by_rule };
    Type type = Type::limit;
    Track track = Track::by_src;
    uint32_t count = 1;
    uint32_t seconds = 1;
};

/// `suppress`: alerts that are never told.
struct Suppression {
    bool src = false, dst = false;  ///< which of the packet's addresses are looked at; neither: every alert
    AddressRanges addresses;
};

enum class Action { alert, log, pass, drop, reject, silent_drop };

/// The protocol that a rule asks for beyond what the IP header says.
enum class Application : uint8_t { none, http, tls, ports };

struct Rule {
    Action action = Action::alert;
    uint16_t header = 0;  ///< RuleHeader's flags
    Application application = Application::none;
    std::string application_name;  ///< such as "http", empty for plain protocols
    PortRanges application_ports;
    bool both_ways = false;
    AddressRanges src, dst;
    PortRanges src_ports, dst_ports;
    std::vector<Term> terms;

    std::string message;
    uint32_t sid = 0, gid = 1, revision = 0;
    std::string class_type;
    std::optional<uint32_t> priority;
    std::vector<std::string> references;
    std::vector<std::pair<std::string, std::string>> metadata;
    std::optional<Threshold> threshold;
    std::vector<Suppression> suppressions;
    bool silent = false;     ///< noalert
    bool no_stream = false;  ///< it is of one packet
    std::vector<FlowBits> flow_bits;
    std::vector<StreamSize> stream_sizes;
    std::vector<FlowInt> flow_ints;
    std::vector<HostBit> host_bits;

    Location where;
    std::string unsupported;        ///< why it cannot be applied; empty when it can
    std::string unsupported_group;  ///< the same without what differs from rule to rule

    /// Whether it asks for what other packets have left, or leaves something.
    bool uses_state() const {
        return !flow_bits.empty() || !stream_sizes.empty() || !flow_ints.empty() || !host_bits.empty();
    }
    bool sets_flow_state() const { return sets_some(flow_bits) || sets_some(flow_ints); }
    bool sets_state() const { return sets_flow_state() || sets_some(host_bits); }
    bool asks_host_bits() const {
        return std::any_of(host_bits.begin(), host_bits.end(), [](const HostBit& bit) { return bit.asks(); });
    }
    void refuse(const std::string& group, const std::string& detail = {}) {
        if (!unsupported.empty()) return;
        unsupported_group = group;
        unsupported = detail.empty() ? group : group + ": " + detail;
    }

private:
    template <class Option>
    static bool sets_some(const std::vector<Option>& options) {
        return std::any_of(options.begin(), options.end(), [](const Option& option) { return !option.asks(); });
    }
};

}  // namespace millrace::nf::nids
