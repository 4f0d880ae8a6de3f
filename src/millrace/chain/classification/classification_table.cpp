#include "millrace/chain/classification/classification_table.hpp"

#include <algorithm>

#include "millrace/nf/classify/flow_fields.hpp"
#include "millrace/nf/classify/search_builder.hpp"
#include "millrace/nf/classify/ternary/ternary_rules.hpp"

namespace millrace::chain {
namespace classify = nf::classify;
using classify::FlowFields;

namespace {

constexpr uint64_t kMaxTableBytes = uint64_t{256} << 20;

/// Puts a prefix into value and mask of an address, whose halves these are.
void set_prefix(const Prefix& prefix, uint64_t& value_high, uint64_t& value_low, uint64_t& mask_high,
                uint64_t& mask_low) {
    const auto mask_of = [](unsigned bits) { return bits == 0 ? 0 : ~uint64_t{0} << (64 - std::min(bits, 64u)); };
    mask_high = mask_of(prefix.length);
    mask_low = mask_of(prefix.length > 64 ? prefix.length - 64u : 0);
    value_high = load_be64(prefix.bytes.data()) & mask_high;
    value_low = load_be64(prefix.bytes.data() + 8) & mask_low;
}

template <unsigned Words>
classify::TernaryRule<Words> ternary_rule(const ClassificationRule& line, uint32_t position) {
    constexpr bool kIpv6 = Words == 15;
    FlowFields value, mask;
    if (line.port != kNoPort) value.in_port = line.port, mask.in_port = ~0u;
    if (line.vlan == 0) mask.vlan = FlowFields::kTagged;
    if (line.vlan > 0) {
        value.vlan = FlowFields::kTagged | static_cast<uint16_t>(line.vlan);
        mask.vlan = FlowFields::kTagged | 0x0fff;
    }
    const bool of_ip = !line.any_src || !line.any_dst || line.protocol >= 0;
    if (of_ip) value.eth_type = kIpv6 ? eth::kTypeIpv6 : eth::kTypeIpv4, mask.eth_type = 0xffff;
    if (!line.any_src) set_prefix(line.src, value.ip_src_high, value.ip_src_low, mask.ip_src_high, mask.ip_src_low);
    if (!line.any_dst) set_prefix(line.dst, value.ip_dst_high, value.ip_dst_low, mask.ip_dst_high, mask.ip_dst_low);
    if (line.protocol >= 0) value.protocol = static_cast<uint8_t>(line.protocol), mask.protocol = 0xff;
    const auto values = classify::ternary_key<Words>(value), masks = classify::ternary_key<Words>(mask);
    classify::TernaryRule<Words> rule;
    std::ranges::copy(values.words, rule.value);
    std::ranges::copy(masks.words, rule.mask);
    classify::set_ports(rule, {line.src_port_low, line.src_port_high}, {line.dst_port_low, line.dst_port_high});
    rule.position = position;
    return rule;
}

template <unsigned Words>
void build(const std::vector<ClassificationRule>& lines, nf::Image& image,
           typename classify::Search<Words>::Tables& tables) {
    std::vector<classify::TernaryRule<Words>> rules;
    for (uint32_t i = 0; i < lines.size(); ++i) {
        const bool asks_addresses = !lines[i].any_src || !lines[i].any_dst;
        const bool ipv6 = lines[i].any_src ? lines[i].dst.ipv6 : lines[i].src.ipv6;
        if (!asks_addresses || ipv6 == (Words == 15)) rules.push_back(ternary_rule<Words>(lines[i], i));
    }
    classify::EngineChoice choice;
    classify::SearchBuilder<Words>::chosen(rules, kMaxTableBytes, classify::Searcher::core, choice)
        .attach(image, tables);
}

}  // namespace

ClassificationTable::ClassificationTable(const std::vector<ClassificationRule>& rules) {
    auto& tables = image_.start<Classifier::Tables>();
    build<9>(rules, image_, tables.others);
    build<15>(rules, image_, tables.ipv6);
    std::vector<uint16_t> chains;
    for (const ClassificationRule& rule : rules) chains.push_back(rule.chain);
    image_.attach_some(tables.chains, std::move(chains));
}

ClassificationTable::ClassificationTable(const ClassificationTable& lines, std::vector<Entry> entries) {
    auto& tables = image_.start_from<Classifier::Tables>(lines.image_);
    image_.attach(tables.entries, std::move(entries));
}

}  // namespace millrace::chain
