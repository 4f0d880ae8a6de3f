// The compiled rules, flat, as every device holds them.
//
// A rule is a header (protocol, addresses, ports, flow), checked first, and a run of `Op`s, checked in
// order. Many rules have the same header, which is one entry then. Rules are numbered in the order of the files; every
// index below is such a number or the index of an array of this file. Offsets and lengths are bytes.
#pragma once

#include "millrace/packet/packet.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::nids {

/// What the options of a rule look at. Everything but `payload` is found within one packet.
enum class Buffer : uint8_t {
    payload,
    http_method,  // parts of the start line, up to http_response_line
    http_uri,
    http_protocol,
    http_request_line,
    http_stat_code,
    http_stat_msg,
    http_response_line,
    http_header,
    http_start,
    http_request_body,
    http_response_body,
    http_header_names,
    http_host,
    http_host_raw,
    http_user_agent,
    http_cookie,
    http_referer,
    http_content_type,
    http_content_len,
    http_accept,
    http_accept_lang,
    http_accept_enc,
    http_connection,
    http_location,
    http_server,
    file_data,               ///< the body that begins in this packet
    file_data_part,          ///< the body, or the whole payload where no HTTP head begins the packet
    http_request_body_part,  ///< what of the body is at hand, wherever in it that is
    http_response_body_part,
    tls_sni,
    dns_query,
};

MILLRACE_DEVICE constexpr bool is_in_start_line(Buffer buffer) {
    return buffer >= Buffer::http_method && buffer <= Buffer::http_response_line;
}

MILLRACE_DEVICE constexpr bool is_of_http(Buffer buffer) {
    return buffer >= Buffer::http_method && buffer <= Buffer::http_response_body_part;
}

MILLRACE_DEVICE constexpr bool is_of_whole_body(Buffer buffer) {
    return buffer == Buffer::file_data || buffer == Buffer::http_request_body || buffer == Buffer::http_response_body;
}
MILLRACE_DEVICE constexpr bool is_of_body(Buffer buffer) {
    return is_of_whole_body(buffer) || buffer == Buffer::file_data_part || buffer == Buffer::http_request_body_part ||
           buffer == Buffer::http_response_body_part;
}

/// A number that a packet's headers hold, or what lies at the start of what a rule is held against.
enum class Field : uint8_t {
    payload_bytes,
    ip_ttl,
    ip_tos,
    ip_id,
    ip_protocol,
    ip_fragment_offset,
    ip_fragment_bits,  ///< 4 reserved, 2 don't fragment, 1 more fragments
    tcp_seq,
    tcp_ack,
    tcp_window,
    tcp_flags,
    icmp_type,
    icmp_code,
    icmp_id,
    icmp_seq,
    // No rule asks for these; see start_checks.
    first_bytes,   ///< four, the first one highest; 0 for those behind the payload's end
    is_http_head,  ///< 1 where an HTTP message begins
};

enum class OpKind : uint8_t {
    select_buffer,  ///< `mode`: the Buffer; starts it with the cursor at 0
    content,
    regex,
    data_at,
    byte_test,
    byte_jump,
    byte_extract,
    buffer_bytes,  ///< low <= size <= high
    field_range,   ///< `mode`: the Field; low <= value <= high
    field_mask,    ///< `mode`: the Field; `comparison` of value & mask with `value`
    same_ip,
};

enum class Comparison : uint8_t {
    less,
    less_equal,
    equal,
    greater_equal,
    greater,
    not_equal,
    any_bit,
    xor_bits,
    none_bit
};

/// Step of a rule. Which members count depends on `kind`; a slot of kNoSlot says that the number is constant.
struct Op {
    static constexpr uint16_t kNegated = 1, kRelative = 2, kNocase = 4, kLimited = 8, kEndsWith = 16;
    static constexpr uint16_t kDotPrefix = 32, kLittleEndian = 64, kFromBeginning = 128, kFromEnd = 256, kAlign = 512;
    static constexpr uint16_t kHex = 1024, kDecimal = 2048, kOctal = 4096;
    static constexpr uint16_t kString = kHex | kDecimal | kOctal;
    /// Another occurrence may be tried when a later option fails, as that is relative to this one.
    static constexpr uint16_t kRetry = 8192;
    static constexpr uint8_t kNoSlot = 0xff;

    OpKind kind = OpKind::content;
    uint8_t mode = 0;
    uint8_t count = 0;  ///< bytes that byte_* read
    Comparison comparison = Comparison::equal;
    uint16_t flags = 0;
    uint8_t from_slot = kNoSlot;    ///< variable instead of `from`
    uint8_t window_slot = kNoSlot;  ///< variable instead of `window`; of byte_extract the one written
    int32_t from = 0;               ///< offset or distance
    uint32_t window = 0;            ///< depth or within (kLimited)
    uint32_t data = 0;              ///< content: first byte in `literals`; regex: program; byte_*: bit mask
    uint32_t data_bytes = 0;        ///< content: length; byte_jump, byte_extract: multiplier
    uint64_t value = 0;             ///< byte_test: operand; ranges: low << 32 | high; byte_jump: post offset (int32_t)
};
static_assert(sizeof(Op) == 32);

/// Most operations of a rule, and variables that byte_extract may fill.
inline constexpr uint32_t kMaxOps = 64;
inline constexpr uint32_t kMaxSlots = 8;

/// What a packet's headers must be for a rule.
struct RuleHeader {
    static constexpr uint16_t kTcp = 1, kUdp = 2, kIcmp = 4, kOther = 8, kAnyProtocol = 15;
    static constexpr uint16_t kIpv4Only = 16, kIpv6Only = 32;
    static constexpr uint16_t kBothWays = 64;
    static constexpr uint16_t kEstablished = 128, kNotEstablished = 256, kToServer = 512, kToClient = 1024;
    static constexpr uint16_t kOnlyFragments = 2048, kNoFragments = 4096;
    static constexpr uint16_t kHttp = 8192, kTls = 16384;  ///< the payload must begin so
    static constexpr uint16_t kEndpoints = 32768;          ///< addresses or ports are asked for
    /// What the state of a flow tells.
    static constexpr uint16_t kFlow = kEstablished | kNotEstablished | kToServer | kToClient;
    /// All that one look at a packet tells of the flags of any rule, but for the protocols.
    static constexpr uint16_t kConditions = kIpv4Only | kIpv6Only | kEstablished | kNotEstablished | kToServer |
                                            kToClient | kOnlyFragments | kNoFragments | kHttp | kTls;

    uint16_t flags = 0;                     ///< of the constants above; of protocols, those that it is for
    uint32_t src = 0, dst = 0;              ///< address sets; 0 is any
    uint32_t src_ports = 0, dst_ports = 0;  ///< port sets; 0 is any
    uint32_t application_ports = 0;         ///< port set of either side; 0 is any
};

/// A rule but for what its header's flags do not tell.
struct alignas(16) CompiledRule {
    static constexpr uint8_t kPass = 1, kDrop = 2, kSilent = 4, kActions = 7;
    static constexpr uint8_t kSpans = 8;       ///< it may be met by several segments of a TCP stream together
    static constexpr uint8_t kAtStart = 16;    ///< and says of the stream's first bytes where they stand
    static constexpr uint8_t kOfMessage = 32;  ///< it asks of HTTP messages, which are followed across segments
    static constexpr uint8_t kOfBody = 64;     ///< and of their bodies

    uint32_t first_op = 0;
    uint32_t header = 0;  ///< the RuleHeader's number
    uint16_t flags = 0;   ///< that header's
    uint16_t ops = 0;
    uint8_t fields = 0;       ///< how many of the first operations look at a Field
    uint8_t action = 0;       ///< kPass, kDrop, kSilent: none of these is an alert; and those from kSpans on
    uint16_t state_rule = 0;  ///< its place among those of StateTables, and 1; 0: it is none of them

    /// Whether the state of a flow has a say in it, or it in that.
    MILLRACE_DEVICE bool asks_flow() const { return (flags & RuleHeader::kFlow) != 0 || state_rule != 0; }
    /// Whether it may be met across segments, of which the first is the stream's or not.
    MILLRACE_DEVICE bool spans(bool from_start) const {
        return (action & kSpans) != 0 && (from_start || (action & kAtStart) == 0);
    }
};
static_assert(sizeof(CompiledRule) == 16);

/// What an option asks of its flow, or does to it when its rule matches.
enum class StateVerb : uint8_t {
    // Of flowbits; the first two ask.
    is_set,
    is_not_set,
    set,
    unset,
    toggle,
    // Of numbers, up to int_is_not_set they ask.
    stream_size,
    int_compares,
    int_is_set,
    int_is_not_set,
    int_becomes,
    int_gains,
    int_loses,
};
/// Whether it asks.
MILLRACE_DEVICE constexpr bool asks(StateVerb verb) {
    return verb <= StateVerb::is_not_set || (verb >= StateVerb::stream_size && verb <= StateVerb::int_is_not_set);
}
/// Whether it is of numbers that are kept of a flow, and not of its bits.
MILLRACE_DEVICE constexpr bool is_of_numbers(StateVerb verb) { return verb >= StateVerb::stream_size; }

/// Whose bytes `stream_size` counts.
enum class StreamEnds : uint8_t { client, server, both, either };

/// Most numbers that flowint may name.
inline constexpr uint32_t kMaxFlowInts = 32;

/// One `flowbits`, `stream_size` or `flowint` of a rule.
struct StateOp {
    uint32_t first = 0;  ///< in StateTables::numbers: the bits; how many bytes; the flowint, and its operand
    uint16_t count = 0;  ///< bits; of stream_size: StreamEnds; of flowint: whether the operand is another one (1)
    StateVerb verb = StateVerb::is_set;
    uint8_t how = 0;  ///< of several bits that are asked for: any one (0), or all (1); of numbers: Comparison
};
static_assert(sizeof(StateOp) == 8);

/// A rule that asks for what other packets have left with its flow, or leaves something there.
struct StateRule {
    uint32_t rule = 0;  ///< its number
    uint32_t first_op = 0, ops = 0;
};

/// These rules, in the order in which they are asked of one packet: those that set bits before those that ask for
/// them.
struct StateTables {
    View<StateRule> rules;
    View<StateOp> ops;  ///< of each rule those that ask first
    View<uint32_t> numbers;
};

struct AddressSet {
    uint32_t first4 = 0, count4 = 0;  ///< ranges in `ranges4`
    uint32_t first6 = 0, count6 = 0;
};
struct Range4 {
    uint32_t low, high;
};
struct Range6 {
    uint64_t low[2], high[2];  ///< most significant first
};
struct PortSet {
    uint32_t first = 0, count = 0;  ///< ranges in `port_ranges`
};
struct PortRange {
    uint16_t low, high;
};
/// Which of the sets of ports that a header asks for a port is in, as PortClasses has them.
namespace port_bits {
inline constexpr uint32_t kSrc = 1, kDst = 2, kApplication = 4;
inline constexpr uint32_t kBits = 4, kInWord = 32 / kBits, kAll = (1u << kBits) - 1;
}  // namespace port_bits
/// Headers that these bits are there for, at most.
inline constexpr uint32_t kMaxClassedHeaders = 0xffff;

/// What a list has of a rule, or of a group of rules with the same header: its number, and what refuses most packets.
struct alignas(8) Listed {
    uint32_t number = 0;
    uint16_t flags = 0;                    ///< the header's, but kEndpoints: it asks for addresses
    uint16_t header = kMaxClassedHeaders;  ///< its number; kMaxClassedHeaders: that is higher
};
static_assert(sizeof(Listed) == 8);

/// The first of n sorted, disjoint ranges that ends at or behind `value`; n when none does.
template <class Ranges, class T>
MILLRACE_DEVICE uint32_t first_range_reaching(const Ranges& ranges, uint32_t first, uint32_t n, T value) {
    uint32_t low = 0, high = n;
#if MILLRACE_GPU
#pragma unroll 1
#endif
    while (low < high) {
        const uint32_t middle = (low + high) / 2;
        if (ranges[first + middle].high < value) {
            low = middle + 1;
        } else {
            high = middle;
        }
    }
    return low;
}

}  // namespace millrace::nf::nids
