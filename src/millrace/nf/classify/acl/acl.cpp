#include "millrace/nf/classify/acl/acl.hpp"

#include <rte_acl.h>
#include <rte_errno.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "millrace/base/eal.hpp"

namespace millrace::nf::classify {
namespace {

/// What rte_acl is given of a header: one byte first, as it wants, then fields in groups of four bytes, all in network
/// order.
template <size_t AddressBytes>
struct Input {
    uint8_t header_class;
    uint8_t unused[3];
    uint8_t ports[4];                     ///< source, destination; anything where the class has none
    uint8_t addresses[2 * AddressBytes];  ///< source, destination
};
using Ipv4Input = Input<4>;
using Ipv6Input = Input<16>;
static_assert(sizeof(Ipv4Input) == 16 && sizeof(Ipv6Input) == 40);

// Searched in this order: class, destination, ports, source. Of the orders tried, it gave the fewest tries for
// published sets.
constexpr uint32_t kFirstDstField = 1;
constexpr uint32_t kMaxFields = kFirstDstField + 2 + 8;
RTE_ACL_RULE_DEF(AclRule, kMaxFields);

/// Where the fields of one family stand in a rule.
struct FieldNumbers {
    uint32_t words;  ///< an address has so many fields of four bytes
    uint32_t src_port() const { return kFirstDstField + words; }
    uint32_t dst_port() const { return src_port() + 1; }
    uint32_t first_src() const { return dst_port() + 1; }
    uint32_t count() const { return first_src() + words; }
};
constexpr FieldNumbers fields_of(bool ipv6) { return {ipv6 ? 4u : 1u}; }

rte_acl_config config_of(bool ipv6, size_t max_bytes) {
    const FieldNumbers fields = fields_of(ipv6);
    rte_acl_config config{};
    config.num_categories = 1;
    config.num_fields = fields.count();
    config.max_size = max_bytes;
    const auto define = [&](uint32_t index, uint32_t type, uint32_t size, uint32_t group, size_t offset) {
        config.defs[index] = {static_cast<uint8_t>(type), static_cast<uint8_t>(size), static_cast<uint8_t>(index),
                              static_cast<uint8_t>(group), static_cast<uint32_t>(offset)};
    };
    constexpr size_t kPortsAt = offsetof(Ipv4Input, ports), kAddressesAt = offsetof(Ipv4Input, addresses);
    static_assert(kPortsAt == offsetof(Ipv6Input, ports) && kAddressesAt == offsetof(Ipv6Input, addresses));
    define(0, RTE_ACL_FIELD_TYPE_RANGE, 1, 0, offsetof(Ipv4Input, header_class));
    for (uint32_t i = 0; i < fields.words; ++i) {
        define(kFirstDstField + i, RTE_ACL_FIELD_TYPE_MASK, 4, 1 + i, kAddressesAt + 4 * (fields.words + i));
        define(fields.first_src() + i, RTE_ACL_FIELD_TYPE_MASK, 4, 2 + fields.words + i, kAddressesAt + 4 * i);
    }
    define(fields.src_port(), RTE_ACL_FIELD_TYPE_RANGE, 2, 1 + fields.words, kPortsAt);
    define(fields.dst_port(), RTE_ACL_FIELD_TYPE_RANGE, 2, 1 + fields.words, kPortsAt + 2);
    return config;
}

void set_address(const Prefix& prefix, uint32_t words, rte_acl_field* fields) {
    for (uint32_t i = 0; i < words; ++i) {
        fields[i].value.u32 = load_be32(prefix.bytes.data() + 4 * i);
        const int bits = prefix.length - 32 * static_cast<int>(i);
        fields[i].mask_range.u32 = static_cast<uint32_t>(bits < 0 ? 0 : bits > 32 ? 32 : bits);
    }
}

/// The rule of a box, but for the class of headers. `userdata` may not be 0.
AclRule rule_of(const Box& box, bool ipv6, size_t position, size_t count) {
    const FieldNumbers fields = fields_of(ipv6);
    AclRule rule{};
    rule.data.category_mask = 1;
    rule.data.priority = static_cast<int32_t>(count - position);
    rule.data.userdata = box.rule + 1;
    rule.field[fields.src_port()].value.u16 = box.src_port.low;
    rule.field[fields.src_port()].mask_range.u16 = box.src_port.high;
    rule.field[fields.dst_port()].value.u16 = box.dst_port.low;
    rule.field[fields.dst_port()].mask_range.u16 = box.dst_port.high;
    set_address(box.dst, fields.words, rule.field + kFirstDstField);
    set_address(box.src, fields.words, rule.field + fields.first_src());
    return rule;
}

uint8_t version_of(const HeaderKey& key) { return key.ip_version; }
template <class Input>
void fill(const HeaderKey& key, const HeaderClasses& classes, Input& input) {
    input.header_class = key.has_flags() ? classes.of_tcp(key.connection, key.tcp_flags, key.has_ports())
                                         : classes.of(key.connection, key.protocol, key.has_ports());
    store_be16(input.ports, key.src_port);
    store_be16(input.ports + 2, key.dst_port);
    if constexpr (std::is_same_v<Input, Ipv4Input>) {
        store_be32(input.addresses, static_cast<uint32_t>(key.src_high >> 32));
        store_be32(input.addresses + 4, static_cast<uint32_t>(key.dst_high >> 32));
    } else {
        store_be64(input.addresses, key.src_high);
        store_be64(input.addresses + 8, key.src_low);
        store_be64(input.addresses + 16, key.dst_high);
        store_be64(input.addresses + 24, key.dst_low);
    }
}

/// The same straight from the headers, which are in network order already: see key_of.
uint8_t version_of(const Packet* packet) {
    const Layers& layers = packet->layers();
    return layers.is_ipv4() ? 4 : layers.is_ipv6() ? 6 : 0;
}
template <class Input>
void fill(const Packet* packet, const HeaderClasses& classes, Input& input) {
    const Layers& layers = packet->layers();
    const bool has_ports = layers.has_ports();
    const Connection connection = packet->connection();
    input.header_class = layers.is_tcp() ? classes.of_tcp(connection, packet->tcp_flags(), true)
                                         : classes.of(connection, layers.protocol, has_ports);
    store_raw(input.ports, has_ports ? load_raw<uint32_t>(packet->l4()) : 0u);
    if constexpr (std::is_same_v<Input, Ipv4Input>) store_raw(input.addresses, load_raw<uint64_t>(packet->l3() + 12));
    else copy_bytes(input.addresses, packet->l3() + 8, 32);
}

void require(int result, const char* what) {
    if (result != 0) throw std::runtime_error(std::string("rte_acl cannot ") + what + ": " + std::strerror(-result));
}

/// Picks the best method that the CPU and DPDK's settings allow, and names it.
const char* choose_method(rte_acl_ctx* context) {
    static constexpr std::pair<enum rte_acl_classify_alg, const char*> kMethods[] = {
        {RTE_ACL_CLASSIFY_AVX512X32, "avx512x32"},
        {RTE_ACL_CLASSIFY_AVX512X16, "avx512x16"},
        {RTE_ACL_CLASSIFY_AVX2, "avx2"},
        {RTE_ACL_CLASSIFY_SSE, "sse"},
        {RTE_ACL_CLASSIFY_NEON, "neon"}};
    for (const auto& [method, name] : kMethods)
        if (rte_acl_set_ctx_classify(context, method) == 0) return name;
    return "scalar";
}

}  // namespace

void Acl::Free::operator()(rte_acl_ctx* context) const { rte_acl_free(context); }

Acl::Acl(const RuleSet& rules, size_t max_bytes) : classes_(rules.boxes) {
    start_eal();
    const std::vector<uint32_t> order = rules.in_order();
    ipv4_ = compile(rules, order, false, max_bytes);
    ipv6_ = compile(rules, order, true, max_bytes);
}

Acl::Context Acl::compile(const RuleSet& rules, std::span<const uint32_t> order, bool ipv6, size_t max_bytes) {
    std::vector<AclRule> compiled;
    for (size_t position = 0; position < order.size(); ++position) {
        const Box& box = rules.boxes[order[position]];
        if (!(ipv6 ? box.ipv6 : box.ipv4)) continue;
        AclRule rule = rule_of(box, ipv6, position, order.size());
        for (const auto& [first, last] : classes_.ranges_of(box)) {
            rule.field[0].value.u8 = first;
            rule.field[0].mask_range.u8 = last;
            compiled.push_back(rule);
        }
    }
    if (compiled.empty()) return nullptr;

    static std::atomic<unsigned> number{0};
    const std::string name = "millrace_acl_" + std::to_string(number++);
    rte_acl_param param{};
    param.name = name.c_str();
    param.socket_id = SOCKET_ID_ANY;
    param.rule_size = static_cast<uint32_t>(RTE_ACL_RULE_SZ(fields_of(ipv6).count()));
    param.max_rule_num = static_cast<uint32_t>(compiled.size());
    Context context(rte_acl_create(&param));
    if (!context) throw std::runtime_error(std::string("rte_acl cannot hold the rules: ") + rte_strerror(rte_errno));
    for (const AclRule& rule : compiled)
        require(rte_acl_add_rules(context.get(), reinterpret_cast<const rte_acl_rule*>(&rule), 1), "take a rule");
    const rte_acl_config config = config_of(ipv6, max_bytes);
    require(rte_acl_build(context.get(), &config), "compile the rules");
    method_ = choose_method(context.get());
    return context;
}

/// Searches the keys of one family: key `origins[i]` is the i-th of them.
template <class Input, class Key>
void Acl::find_family(const Context& context, std::span<const Key> keys, std::span<const uint32_t> origins,
                      uint32_t* rules) const {
    if (!context) {
        for (const uint32_t origin : origins) rules[origin] = kNoRule;
        return;
    }
    Input inputs[kMaxKeys];
    const uint8_t* data[kMaxKeys];
    uint32_t results[kMaxKeys];
    for (size_t i = 0; i < origins.size(); ++i) {
        fill(keys[origins[i]], classes_, inputs[i]);
        data[i] = reinterpret_cast<const uint8_t*>(&inputs[i]);
    }
    // It fails only for a number of categories that is not ours.
    rte_acl_classify(context.get(), data, results, static_cast<uint32_t>(origins.size()), 1);
    static_assert(0u - 1 == kNoRule);
    for (size_t i = 0; i < origins.size(); ++i) rules[origins[i]] = results[i] - 1;
}

template <class Key>
void Acl::find_all(std::span<const Key> keys, uint32_t* rules) const {
    uint32_t ipv4[kMaxKeys], ipv6[kMaxKeys];
    uint32_t ipv4_count = 0, ipv6_count = 0;
    for (uint32_t i = 0; i < keys.size(); ++i) {
        const uint8_t version = version_of(keys[i]);
        if (version == 4) ipv4[ipv4_count++] = i;
        else if (version == 6) ipv6[ipv6_count++] = i;
        else rules[i] = kNoRule;
    }
    if (ipv4_count > 0) find_family<Ipv4Input>(ipv4_, keys, {ipv4, ipv4_count}, rules);
    if (ipv6_count > 0) find_family<Ipv6Input>(ipv6_, keys, {ipv6, ipv6_count}, rules);
}

std::vector<uint8_t> Acl::prepare(std::span<const HeaderKey> keys) const {
    std::vector<uint8_t> prepared(keys.size() * sizeof(Ipv4Input));
    for (size_t i = 0; i < keys.size(); ++i) {
        Ipv4Input input{};
        fill(keys[i], classes_, input);
        std::memcpy(&prepared[i * sizeof input], &input, sizeof input);
    }
    return prepared;
}

void Acl::find(const std::vector<uint8_t>& prepared, size_t first, uint32_t count, uint32_t* rules) const {
    const uint8_t* data[kMaxKeys];
    for (uint32_t i = 0; i < count; ++i) data[i] = &prepared[(first + i) * sizeof(Ipv4Input)];
    rte_acl_classify(ipv4_.get(), data, rules, count, 1);
    for (uint32_t i = 0; i < count; ++i) rules[i] -= 1;
}

void Acl::find(std::span<const HeaderKey> keys, uint32_t* rules) const { find_all(keys, rules); }
void Acl::find(std::span<Packet* const> packets, uint32_t* rules) const { find_all(packets, rules); }

}  // namespace millrace::nf::classify
