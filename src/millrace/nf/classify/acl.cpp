#include "millrace/nf/classify/acl.hpp"

#include <rte_acl.h>
#include <rte_errno.h>

#include <atomic>
#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "millrace/base/eal.hpp"

namespace millrace::nf::classify {
namespace {

/// What rte_acl is given of a packet. It wants one byte first, then fields in groups of four bytes,
/// all in network order. `traits` says what the packet has (HeaderKey::has).
struct Input {
    uint8_t protocol;
    uint8_t unused[3];
    uint8_t traits;
    uint8_t tcp_flags;
    uint8_t zeros[2];
    uint8_t ports[4];
    uint8_t addresses[32];  ///< source, then destination: 4 or 16 bytes each
};
static_assert(sizeof(Input) == 44);

constexpr uint32_t kTraitsField = 1, kSrcPortField = 2, kDstPortField = 3, kFirstAddressField = 4;
constexpr uint32_t kMostFields = kFirstAddressField + 8;
RTE_ACL_RULE_DEF(AclRule, kMostFields);

uint32_t address_words(bool ipv6) { return ipv6 ? 4 : 1; }
uint32_t field_count(bool ipv6) { return kFirstAddressField + 2 * address_words(ipv6); }

rte_acl_config config_of(bool ipv6, size_t max_bytes) {
    rte_acl_config config{};
    config.num_categories = 1;
    config.num_fields = field_count(ipv6);
    config.max_size = max_bytes;
    const auto define = [&](uint32_t index, uint32_t type, uint32_t size, uint32_t group, size_t offset) {
        config.defs[index] = {static_cast<uint8_t>(type), static_cast<uint8_t>(size), static_cast<uint8_t>(index),
                              static_cast<uint8_t>(group), static_cast<uint32_t>(offset)};
    };
    define(0, RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, offsetof(Input, protocol));
    define(kTraitsField, RTE_ACL_FIELD_TYPE_BITMASK, 4, 1, offsetof(Input, traits));
    define(kSrcPortField, RTE_ACL_FIELD_TYPE_RANGE, 2, 2, offsetof(Input, ports));
    define(kDstPortField, RTE_ACL_FIELD_TYPE_RANGE, 2, 2, offsetof(Input, ports) + 2);
    for (uint32_t i = 0; i < 2 * address_words(ipv6); ++i)
        define(kFirstAddressField + i, RTE_ACL_FIELD_TYPE_MASK, 4, 3 + i, offsetof(Input, addresses) + 4 * i);
    return config;
}

void set_address(const Prefix& prefix, bool ipv6, rte_acl_field* fields) {
    for (uint32_t i = 0; i < address_words(ipv6); ++i) {
        fields[i].value.u32 = load_be32(prefix.bytes.data() + 4 * i);
        const int bits = prefix.length - 32 * static_cast<int>(i);
        fields[i].mask_range.u32 = static_cast<uint32_t>(bits < 0 ? 0 : bits > 32 ? 32 : bits);
    }
}

AclRule rule_of(const Box& box, bool ipv6, uint32_t position, uint32_t count) {
    AclRule rule{};
    rule.data.category_mask = 1;
    rule.data.priority = static_cast<int32_t>(count - position);
    rule.data.userdata = position + 1;
    rule.field[0].value.u8 = box.protocol.value;
    rule.field[0].mask_range.u8 = box.protocol.mask;
    uint32_t traits = 0;
    if (!box.src_port.any() || !box.dst_port.any()) traits |= HeaderKey::kPorts;
    if (!box.tcp_flags.any()) traits |= HeaderKey::kFlags;
    rule.field[kTraitsField].value.u32 = traits << 24 | static_cast<uint32_t>(box.tcp_flags.value) << 16;
    rule.field[kTraitsField].mask_range.u32 = traits << 24 | static_cast<uint32_t>(box.tcp_flags.mask) << 16;
    rule.field[kSrcPortField].value.u16 = box.src_port.low;
    rule.field[kSrcPortField].mask_range.u16 = box.src_port.high;
    rule.field[kDstPortField].value.u16 = box.dst_port.low;
    rule.field[kDstPortField].mask_range.u16 = box.dst_port.high;
    set_address(box.src, ipv6, rule.field + kFirstAddressField);
    set_address(box.dst, ipv6, rule.field + kFirstAddressField + address_words(ipv6));
    return rule;
}

/// Fills in a key. Of IPv4 the last 24 bytes stay unset: no field of its rules reads them.
void fill(const HeaderKey& key, Input& input) {
    input.protocol = key.protocol;
    input.traits = key.has;
    input.tcp_flags = key.tcp_flags;
    input.zeros[0] = input.zeros[1] = 0;
    store_be16(input.ports, key.src_port);
    store_be16(input.ports + 2, key.dst_port);
    if (key.ip_version == 4) {
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
void fill(const Packet* packet, Input& input) {
    const Layers& layers = packet->layers();
    input.protocol = layers.protocol;
    uint32_t traits = 0, ports = 0;
    if (layers.has_ports()) {
        traits = HeaderKey::kPorts;
        ports = load_raw<uint32_t>(packet->l4());
    }
    if (layers.is_tcp()) traits |= HeaderKey::kFlags | static_cast<uint32_t>(packet->tcp_flags()) << 8;
    store_raw(&input.traits, traits);
    store_raw(input.ports, ports);
    if (layers.is_ipv4()) store_raw(input.addresses, load_raw<uint64_t>(packet->l3() + 12));
    else copy_bytes(input.addresses, packet->l3() + 8, 32);
}

uint8_t version_of(const HeaderKey& key) { return key.ip_version; }
uint8_t version_of(const Packet* packet) {
    const Layers& layers = packet->layers();
    return layers.is_ipv4() ? 4 : layers.is_ipv6() ? 6 : 0;
}

void require(int result, const char* what) {
    if (result != 0) throw std::runtime_error(std::string("rte_acl cannot ") + what + ": " + std::strerror(-result));
}

/// Picks the best method that the CPU and DPDK's settings allow, and names it.
const char* choose_method(rte_acl_ctx* context) {
    static constexpr std::pair<enum rte_acl_classify_alg, const char*> kMethods[] = {{RTE_ACL_CLASSIFY_AVX512X32, "avx512x32"},
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

Acl::Acl(const RuleSet& rules, size_t max_bytes) {
    start_eal();
    const std::vector<uint32_t> order = rules.in_order();
    ipv4_ = compile(rules, order, false, max_bytes);
    ipv6_ = compile(rules, order, true, max_bytes);
}

Acl::Family Acl::compile(const RuleSet& rules, std::span<const uint32_t> order, bool ipv6, size_t max_bytes) {
    std::vector<const Box*> boxes;
    for (const uint32_t index : order)
        if (const Box& box = rules.boxes[index]; ipv6 ? box.ipv6 : box.ipv4) boxes.push_back(&box);
    Family family;
    if (boxes.empty()) return family;

    static std::atomic<unsigned> number{0};
    const std::string name = "millrace_acl_" + std::to_string(number++);
    const uint32_t count = static_cast<uint32_t>(boxes.size());
    rte_acl_param param{};
    param.name = name.c_str();
    param.socket_id = SOCKET_ID_ANY;
    param.rule_size = static_cast<uint32_t>(RTE_ACL_RULE_SZ(field_count(ipv6)));
    param.max_rule_num = count;
    family.context.reset(rte_acl_create(&param));
    if (!family.context) throw std::runtime_error(std::string("rte_acl cannot hold the rules: ") + rte_strerror(rte_errno));
    for (uint32_t position = 0; position < count; ++position) {
        const AclRule rule = rule_of(*boxes[position], ipv6, position, count);
        require(rte_acl_add_rules(family.context.get(), reinterpret_cast<const rte_acl_rule*>(&rule), 1), "take a rule");
        family.rules.push_back(boxes[position]->rule);
    }
    const rte_acl_config config = config_of(ipv6, max_bytes);
    require(rte_acl_build(family.context.get(), &config), "compile the rules");
    method_ = choose_method(family.context.get());
    return family;
}

template <class Key>
void Acl::find_all(std::span<const Key> keys, uint32_t* rules) const {
    for (size_t i = 0; i < keys.size(); ++i) rules[i] = kNoRule;
    find_family(ipv4_, keys, 4, rules);
    find_family(ipv6_, keys, 6, rules);
}

template <class Key>
void Acl::find_family(const Family& family, std::span<const Key> keys, uint8_t ip_version, uint32_t* rules) {
    if (!family.context) return;
    Input inputs[kMaxKeys];
    const uint8_t* data[kMaxKeys];
    uint32_t results[kMaxKeys];
    uint32_t origins[kMaxKeys];
    uint32_t count = 0;
    for (size_t i = 0; i < keys.size(); ++i) {
        if (version_of(keys[i]) != ip_version) continue;
        fill(keys[i], inputs[count]);
        data[count] = reinterpret_cast<const uint8_t*>(&inputs[count]);
        origins[count++] = static_cast<uint32_t>(i);
    }
    if (count == 0) return;
    // It fails only for a number of categories that is not ours.
    rte_acl_classify(family.context.get(), data, results, count, 1);
    for (uint32_t i = 0; i < count; ++i)
        if (results[i] != 0) rules[origins[i]] = family.rules[results[i] - 1];
}

void Acl::find(std::span<const HeaderKey> keys, uint32_t* rules) const { find_all(keys, rules); }
void Acl::find(std::span<Packet* const> packets, uint32_t* rules) const { find_all(packets, rules); }

}  // namespace millrace::nf::classify
