#include "millrace/nf/classify/ternary/ternary_rules.hpp"

#include <random>

namespace millrace::nf::classify {
namespace {

/// The bits that all ports of a range share, as a mask; all ranges are within 16 bits.
uint32_t shared_bits(PortRange range) {
    uint32_t mask = 0xffff;
    while ((range.low & mask) != (range.high & mask)) mask = mask << 1 & 0xffff;
    return mask;
}

bool is_prefix(PortRange range) {
    const uint32_t mask = shared_bits(range);
    return range.low == (range.low & mask) && range.high == (range.low | (~mask & 0xffff));
}

/// The fewest prefixes that make up a range.
std::vector<PortRange> prefixes_of(PortRange range) {
    std::vector<PortRange> prefixes;
    for (uint32_t low = range.low; low <= range.high;) {
        uint32_t size = 1;
        while ((low & (2 * size - 1)) == 0 && low + 2 * size - 1 <= range.high) size *= 2;
        prefixes.push_back({static_cast<uint16_t>(low), static_cast<uint16_t>(low + size - 1)});
        low += size;
    }
    return prefixes;
}

template <unsigned Words>
TernaryRule<Words> ternary_of(const Box& box, uint32_t position) {
    constexpr unsigned kAddressWords = (Words - 2) / 2;
    TernaryRule<Words> rule;
    rule.position = position;
    const auto set_address = [&](const Prefix& prefix, unsigned first) {
        const uint64_t halves[] = {high_half(prefix), low_half(prefix)};
        for (unsigned i = 0; i < kAddressWords; ++i) {
            const unsigned length = prefix.length > 32 * i ? std::min<unsigned>(32, prefix.length - 32 * i) : 0;
            rule.mask[first + i] = length == 0 ? 0 : 0xffffffffu << (32 - length);
            rule.value[first + i] = static_cast<uint32_t>(halves[i / 2] >> (i % 2 == 0 ? 32 : 0)) &
                                    rule.mask[first + i];
        }
    };
    set_address(box.src, 0);
    set_address(box.dst, kAddressWords);
    rule.mask[rule.kSmall] = small_fields(box.protocol.mask, box.tcp_flags.mask,
                                          box.tcp_flags.any() ? 0 : HeaderKey::kFlags);
    rule.value[rule.kSmall] = small_fields(box.protocol.value, box.tcp_flags.value,
                                           box.tcp_flags.any() ? 0 : HeaderKey::kFlags);
    for (unsigned i = 0; i < kConnections; ++i)
        if (const auto other = static_cast<Connection>(i); !box.connections.contains(other))
            rule.mask[rule.kSmall] |= connection_bit(other);
    set_ports(rule, box.src_port, box.dst_port);
    return rule;
}

}  // namespace

template <unsigned Words>
void set_ports(TernaryRule<Words>& rule, PortRange src, PortRange dst) {
    rule.ports_low = 0;
    rule.ports_high = 0xffffffffu;
    const auto set = [&](PortRange range, unsigned shift) {
        const uint32_t mask = shared_bits(range) << shift;
        rule.mask[rule.kPorts] = (rule.mask[rule.kPorts] & ~(0xffffu << shift)) | mask;
        rule.value[rule.kPorts] = (rule.value[rule.kPorts] & ~(0xffffu << shift)) |
                                  ((static_cast<uint32_t>(range.low) << shift) & mask);
        if (is_prefix(range)) return;
        rule.ports_low |= static_cast<uint32_t>(range.low) << shift;
        rule.ports_high = (rule.ports_high & ~(0xffffu << shift)) | static_cast<uint32_t>(range.high) << shift;
    };
    set(src, 16);
    set(dst, 0);
    if (!src.any() || !dst.any()) {
        rule.mask[rule.kSmall] |= HeaderKey::kPorts;
        rule.value[rule.kSmall] |= HeaderKey::kPorts;
    }
}

template <unsigned Words>
std::vector<TernaryRule<Words>> ternary_rules(const RuleSet& rules, std::span<const uint32_t> order,
                                              std::vector<uint32_t>& indexes) {
    std::vector<TernaryRule<Words>> result;
    for (const uint32_t index : order) {
        const Box& box = rules.boxes[index];
        if (!(Words == 10 ? box.ipv6 : box.ipv4)) continue;
        result.push_back(ternary_of<Words>(box, static_cast<uint32_t>(indexes.size())));
        indexes.push_back(box.rule);
    }
    return result;
}

template <unsigned Words>
void expand_ranges(const TernaryRule<Words>& rule, std::vector<TernaryRule<Words>>& to) {
    // A field without a range of its own is left as it is: value and mask may then be no prefix.
    const auto parts = [&](unsigned shift) {
        const PortRange range{static_cast<uint16_t>(rule.ports_low >> shift),
                              static_cast<uint16_t>(rule.ports_high >> shift)};
        return range.any() ? std::vector<PortRange>{} : prefixes_of(range);
    };
    const auto narrow = [](TernaryRule<Words> part, PortRange range, unsigned shift) {
        part.mask[part.kPorts] |= shared_bits(range) << shift;
        part.value[part.kPorts] |= static_cast<uint32_t>(range.low) << shift;
        return part;
    };
    TernaryRule<Words> whole = rule;
    whole.ports_low = 0;
    whole.ports_high = 0xffffffffu;
    std::vector<TernaryRule<Words>> by_src;
    for (const PortRange range : parts(16)) by_src.push_back(narrow(whole, range, 16));
    if (by_src.empty()) by_src.push_back(whole);
    const std::vector<PortRange> dst = parts(0);
    for (const TernaryRule<Words>& part : by_src) {
        if (dst.empty()) to.push_back(part);
        for (const PortRange range : dst) to.push_back(narrow(part, range, 0));
    }
}

namespace {

template <unsigned Words>
HashFunction<Words> hash_function(uint32_t number) {
    std::mt19937_64 random(0x6d696c6c72616365u + number);
    HashFunction<Words> function;
    for (uint64_t& word : function.word) word = random();
    function.offset = random();
    for (uint64_t& factor : function.factor) factor = random() | 1;
    for (uint64_t& addend : function.addend) addend = random();
    return function;
}

}  // namespace

template <unsigned Words>
HashFunction<Words> make_hash_function(uint32_t number) {
    // Most tables have the first one, and making the generator of random numbers takes longer than a small table.
    static const HashFunction<Words> first = hash_function<Words>(0);
    return number == 0 ? first : hash_function<Words>(number);
}

template void set_ports(TernaryRule<4>&, PortRange, PortRange);
template void set_ports(TernaryRule<9>&, PortRange, PortRange);
template void set_ports(TernaryRule<10>&, PortRange, PortRange);
template void set_ports(TernaryRule<15>&, PortRange, PortRange);
template void set_ports(TernaryRule<28>&, PortRange, PortRange);
template std::vector<TernaryRule<4>> ternary_rules(const RuleSet&, std::span<const uint32_t>, std::vector<uint32_t>&);
template std::vector<TernaryRule<10>> ternary_rules(const RuleSet&, std::span<const uint32_t>, std::vector<uint32_t>&);
template void expand_ranges(const TernaryRule<4>&, std::vector<TernaryRule<4>>&);
template void expand_ranges(const TernaryRule<9>&, std::vector<TernaryRule<9>>&);
template void expand_ranges(const TernaryRule<10>&, std::vector<TernaryRule<10>>&);
template void expand_ranges(const TernaryRule<15>&, std::vector<TernaryRule<15>>&);
template void expand_ranges(const TernaryRule<28>&, std::vector<TernaryRule<28>>&);
template HashFunction<4> make_hash_function(uint32_t);
template HashFunction<9> make_hash_function(uint32_t);
template HashFunction<10> make_hash_function(uint32_t);
template HashFunction<15> make_hash_function(uint32_t);
template HashFunction<28> make_hash_function(uint32_t);

}  // namespace millrace::nf::classify
