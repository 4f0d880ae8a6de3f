#include "lab/classify/synthetic.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <array>
#include <bit>
#include <random>
#include <set>

#include "millrace/packet/headers.hpp"

namespace millrace::nf::classify {
namespace {

using Random = std::mt19937_64;

/// Bits of a mask beyond those that tell a class' rules apart: with 16 of them, a header matches a class of another
/// rule by chance once in 65,536 times.
constexpr unsigned kSpareBits = 16;

unsigned bits_of(const FlowFields& mask) {
    // What each rule of IPv4, TCP or UDP has in common tells nothing apart.
    return static_cast<unsigned>(std::popcount(mask.eth_dst) + std::popcount(mask.eth_src) +
                                 std::popcount(mask.ip_src_high) + std::popcount(mask.ip_dst_high) +
                                 std::popcount(mask.l4_src) + std::popcount(mask.l4_dst)) +
           (mask.in_port != 0 ? 6 : 0) + (mask.vlan & 0xfff ? 12 : 0) + (mask.vlan & 0xe000 ? 3 : 0) +
           (mask.tos != 0 ? 6 : 0);
}

uint64_t prefix_mask(unsigned length) { return length == 0 ? 0 : ~uint64_t{0} << (64 - length); }

FlowFields random_mask(Random& random, unsigned fields) {
    const auto half = [&] { return random() % 2 == 0; };
    FlowFields mask;
    mask.ip_src_high = prefix_mask(static_cast<unsigned>(random() % 17) * 2);
    mask.ip_dst_high = prefix_mask(static_cast<unsigned>(random() % 17) * 2);
    mask.protocol = half() ? 0xff : 0;
    if (mask.protocol != 0 && half()) mask.l4_src = 0xffff;
    if (mask.protocol != 0 && half()) mask.l4_dst = 0xffff;
    if (fields == 12) {
        mask.in_port = half() ? 0xffffffffu : 0;
        mask.eth_dst = half() ? 0xffffffffffffu : 0;
        mask.eth_src = half() ? 0xffffffffffffu : 0;
        mask.vlan = static_cast<uint16_t>(half() ? FlowFields::kTagged | 0xfff : 0);
        if (mask.vlan != 0 && half()) mask.vlan |= 0xe000;
        mask.tos = half() ? 0xfc : 0;
    }
    const bool looks_at_ip = mask.ip_src_high != 0 || mask.ip_dst_high != 0 || mask.protocol != 0 || mask.tos != 0;
    if (fields == 5 || looks_at_ip || half()) mask.eth_type = 0xffff;
    if (mask.l4_src != 0 || mask.l4_dst != 0) mask.has = HeaderKey::kPorts;
    return mask;
}

/// A header with all fields: TCP or UDP over IPv4, tagged.
FlowFields random_header(Random& random) {
    FlowFields fields;
    fields.in_port = 1 + static_cast<uint32_t>(random() % 64);
    fields.eth_dst = random() & 0xfeffffffffffu;  // no group addresses
    fields.eth_src = random() & 0xfeffffffffffu;
    fields.eth_type = eth::kTypeIpv4;
    fields.vlan = static_cast<uint16_t>(FlowFields::kTagged | (random() & 0xefff));
    fields.ip_src_high = random() << 32;
    fields.ip_dst_high = random() << 32;
    fields.protocol = random() % 2 ? ip::kProtocolTcp : ip::kProtocolUdp;
    fields.tos = static_cast<uint8_t>(random() & 0xfc);
    fields.l4_src = static_cast<uint16_t>(random());
    fields.l4_dst = static_cast<uint16_t>(random());
    fields.has = HeaderKey::kPorts;
    return fields;
}

/// `a` where `mask` has bits, else `b`.
FlowFields choose(const FlowFields& a, const FlowFields& b, const FlowFields& mask) {
    const auto mix = [](auto x, auto y, auto m) { return static_cast<decltype(x)>((x & m) | (y & ~m)); };
    FlowFields r;
    r.eth_dst = mix(a.eth_dst, b.eth_dst, mask.eth_dst);
    r.eth_src = mix(a.eth_src, b.eth_src, mask.eth_src);
    r.ip_src_high = mix(a.ip_src_high, b.ip_src_high, mask.ip_src_high);
    r.ip_dst_high = mix(a.ip_dst_high, b.ip_dst_high, mask.ip_dst_high);
    r.in_port = mix(a.in_port, b.in_port, mask.in_port);
    r.eth_type = mix(a.eth_type, b.eth_type, mask.eth_type);
    r.vlan = mix(a.vlan, b.vlan, mask.vlan);
    r.l4_src = mix(a.l4_src, b.l4_src, mask.l4_src);
    r.l4_dst = mix(a.l4_dst, b.l4_dst, mask.l4_dst);
    r.protocol = mix(a.protocol, b.protocol, mask.protocol);
    r.tos = mix(a.tos, b.tos, mask.tos);
    r.has = mix(a.has, b.has, mask.has);
    return r;
}

using Words = std::array<uint32_t, 9>;
Words words_of(const FlowFields& fields) { return std::to_array(ternary_key<9>(fields).words); }

struct Class {
    FlowFields mask;
    uint32_t wanted = 1;     // rules
    std::set<Words> values;  // of its rules
};

void check(const SyntheticSpec& spec, uint32_t full) {
    const auto refuse = [](const std::string& why) { throw std::invalid_argument(why); };
    if (spec.fields != 5 && spec.fields != 12) refuse("rules have 5 or 12 fields");
    if (spec.classes == 0 || spec.classes > spec.rules)
        refuse("there must be 1 class at least, and no more classes than rules");
    if (full > spec.classes) refuse("there cannot be more full classes than classes");
    if (spec.overlap == 0 || spec.overlap > full)
        refuse("the overlap must be 1 at least, and at most the number of full classes");
    if (spec.rules > 1u << 20) refuse("a set has 1,048,576 rules at most");
}

std::vector<Class> make_classes(const SyntheticSpec& spec, uint32_t full, Random& random) {
    std::vector<Class> classes(spec.classes);
    // The full ones share what the others leave, as evenly as it goes.
    const uint32_t shared = spec.rules - (spec.classes - full);
    for (uint32_t i = 0; i < full; ++i) classes[i].wanted = shared / full + (i < shared % full ? 1 : 0);
    std::set<Words> masks;
    for (Class& made : classes) {
        const unsigned enough = std::min(64u, kSpareBits + static_cast<unsigned>(std::bit_width(made.wanted)));
        unsigned tries = 0;
        do {
            made.mask = random_mask(random, spec.fields);
            if (++tries == 100'000)
                throw std::invalid_argument(
                    fmt::format("{} fields do not have {} masks for that many rules each", spec.fields, spec.classes));
        } while (bits_of(made.mask) < enough || !masks.insert(words_of(made.mask)).second);
    }
    return classes;
}

}  // namespace

SyntheticSet make_synthetic(const SyntheticSpec& spec) {
    const uint32_t full = spec.full_classes == 0 ? spec.classes : spec.full_classes;
    check(spec, full);
    Random random(spec.seed);
    std::vector<Class> classes = make_classes(spec, full, random);
    SyntheticSet set;
    struct Group {
        FlowFields header, mask;  // what its rules ask for together
        std::vector<SyntheticRule> rules;
    };
    std::vector<Group> groups;
    std::vector<uint32_t> open(classes.size());
    for (uint32_t i = 0; i < open.size(); ++i) open[i] = i;
    while (!open.empty()) {
        // The classes with most rules to come take part first, so that groups stay complete to the end.
        std::shuffle(open.begin(), open.end(), random);
        const size_t size = std::min<size_t>(spec.overlap, open.size());
        std::partial_sort(
            open.begin(), open.begin() + static_cast<ptrdiff_t>(size), open.end(), [&](uint32_t a, uint32_t b) {
                return classes[a].wanted - classes[a].values.size() > classes[b].wanted - classes[b].values.size();
            });
        Group group;
        group.header = random_header(random);
        for (size_t i = 0; i < size; ++i) {
            Class& in = classes[open[i]];
            const FlowFields value = choose(group.header, {}, in.mask);
            if (!in.values.insert(words_of(value)).second) continue;
            group.mask = choose(in.mask, group.mask, in.mask);
            group.rules.push_back({value, in.mask});
        }
        if (!group.rules.empty()) groups.push_back(std::move(group));
        std::erase_if(open, [&](uint32_t i) { return classes[i].values.size() == classes[i].wanted; });
    }
    // Rules stand in any order; a group's rules are numbered as they come to stand.
    std::vector<std::pair<uint32_t, uint32_t>> order;  // group, rule in it
    for (uint32_t g = 0; g < groups.size(); ++g)
        for (uint32_t r = 0; r < groups[g].rules.size(); ++r) order.push_back({g, r});
    std::shuffle(order.begin(), order.end(), random);
    for (const auto& [g, r] : order) set.rules.push_back(groups[g].rules[r]);
    for (uint32_t i = 0; i < spec.packets; ++i) {
        const uint32_t rule = static_cast<uint32_t>(random() % order.size());
        const Group& group = groups[order[rule].first];
        set.packets.push_back({choose(group.header, random_header(random), group.mask), rule});
    }
    return set;
}

namespace {

std::string ipv4_text(uint64_t high) {
    const auto address = static_cast<uint32_t>(high >> 32);
    return fmt::format("{}.{}.{}.{}", address >> 24, address >> 16 & 255, address >> 8 & 255, address & 255);
}

std::string mac_text_of(uint64_t mac) {
    return fmt::format("{:02x}:{:02x}:{:02x}:{:02x}:{:02x}:{:02x}", mac >> 40, mac >> 32 & 255, mac >> 24 & 255,
                       mac >> 16 & 255, mac >> 8 & 255, mac & 255);
}

}  // namespace

HeaderKey five_tuple(const FlowFields& fields) {
    HeaderKey key;
    key.ip_version = 4;
    key.src_high = fields.ip_src_high;
    key.dst_high = fields.ip_dst_high;
    key.src_port = fields.l4_src;
    key.dst_port = fields.l4_dst;
    key.protocol = fields.protocol;
    key.has = fields.has;
    return key;
}

std::string classbench_text(const SyntheticRule& rule) {
    const auto& [value, mask] = rule;
    const auto prefix = [](uint64_t address, uint64_t bits) {
        return fmt::format("{}/{}", ipv4_text(address), std::popcount(bits));
    };
    const auto ports = [](uint16_t port, uint16_t bits) {
        return bits == 0 ? std::string("0 : 65535") : fmt::format("{} : {}", port, port);
    };
    return fmt::format("@{}\t{}\t{}\t{}\t0x{:02x}/0x{:02X}", prefix(value.ip_src_high, mask.ip_src_high),
                       prefix(value.ip_dst_high, mask.ip_dst_high), ports(value.l4_src, mask.l4_src),
                       ports(value.l4_dst, mask.l4_dst), value.protocol, mask.protocol);
}

std::string flow_text(const SyntheticRule& rule) {
    const auto& [value, mask] = rule;
    std::string text;
    const auto add = [&](bool asked, const std::string& part) {
        if (asked) text += (text.empty() ? "" : ",") + part;
    };
    const auto prefix = [](uint64_t address, uint64_t bits) {
        return fmt::format("{}/{}", ipv4_text(address), std::popcount(bits));
    };
    add(mask.in_port != 0, fmt::format("in_port={}", value.in_port));
    add(mask.eth_src != 0, "dl_src=" + mac_text_of(value.eth_src));
    add(mask.eth_dst != 0, "dl_dst=" + mac_text_of(value.eth_dst));
    add((mask.vlan & 0xfff) != 0, fmt::format("dl_vlan={}", value.vlan & 0xfff));
    add((mask.vlan & 0xe000) != 0, fmt::format("dl_vlan_pcp={}", value.vlan >> 13));
    add(mask.eth_type != 0, fmt::format("dl_type=0x{:04x}", value.eth_type));
    add(mask.ip_src_high != 0, "nw_src=" + prefix(value.ip_src_high, mask.ip_src_high));
    add(mask.ip_dst_high != 0, "nw_dst=" + prefix(value.ip_dst_high, mask.ip_dst_high));
    add(mask.protocol != 0, fmt::format("nw_proto={}", value.protocol));
    add(mask.tos != 0, fmt::format("nw_tos={}", value.tos));
    add(mask.l4_src != 0, fmt::format("tp_src={}", value.l4_src));
    add(mask.l4_dst != 0, fmt::format("tp_dst={}", value.l4_dst));
    return text;
}

std::string trace_text(const SyntheticPacket& packet, unsigned fields) {
    const FlowFields& f = packet.fields;
    if (fields == 5)
        return fmt::format("{}\t{}\t{}\t{}\t{}\t{}", f.ip_src_high >> 32, f.ip_dst_high >> 32, f.l4_src, f.l4_dst,
                           f.protocol, packet.rule);
    FlowFields all;
    all.in_port = 0xffffffffu;
    all.eth_dst = all.eth_src = 0xffffffffffffu;
    all.eth_type = all.vlan = all.l4_src = all.l4_dst = 0xffff;
    all.ip_src_high = all.ip_dst_high = 0xffffffffull << 32;
    all.protocol = all.tos = 0xff;
    return fmt::format("{} {}", flow_text({f, all}), packet.rule);
}

std::vector<TernaryRule<9>> ternary_rules(const SyntheticSet& set) {
    std::vector<TernaryRule<9>> rules;
    for (const SyntheticRule& from : set.rules) {
        TernaryRule<9> rule;
        std::copy_n(ternary_key<9>(from.value).words, 9, rule.value);
        std::copy_n(ternary_key<9>(from.mask).words, 9, rule.mask);
        rule.position = static_cast<uint32_t>(rules.size());
        rules.push_back(rule);
    }
    return rules;
}

}  // namespace millrace::nf::classify
