#include "millrace/nf/ipsec/cpu/policy_search.hpp"

#include <bit>
#include <cstring>

#include "millrace/nf/classify/classifier_builder.hpp"

namespace millrace::nf::ipsec {
namespace {

/// An address that a selector asks for, with a mask that is a prefix's.
Prefix prefix_of(const Address& address, const Address& mask, bool ipv6) {
    Prefix prefix;
    prefix.ipv6 = ipv6;
    std::memcpy(prefix.bytes.data(), address.words, sizeof address.words);
    unsigned length = 0;
    for (unsigned i = 0; i < (ipv6 ? 4 : 1); ++i) length += static_cast<unsigned>(std::popcount(mask.words[i]));
    prefix.length = static_cast<uint8_t>(length);
    return prefix;
}

classify::Box box_of(const Selector& selector) {
    classify::Box box;
    box.src = prefix_of(selector.src, selector.src_mask, selector.ipv6);
    box.dst = prefix_of(selector.dst, selector.dst_mask, selector.ipv6);
    box.ipv4 = !selector.ipv6;
    box.ipv6 = selector.ipv6;
    if (!selector.any_protocol) box.protocol = {selector.protocol, 0xff};
    if (!selector.any_port) {
        box.src_port = {selector.src_port_first, selector.src_port_last};
        box.dst_port = {selector.dst_port_first, selector.dst_port_last};
    }
    return box;
}

}  // namespace

void attach_policy_search(const std::vector<Policy>& policies, classify::Searcher searcher, Image& image,
                          classify::Classifier::Tables& tables) {
    classify::RuleSet rules;
    for (const Policy& policy : policies) rules.add(classify::Rule{}, box_of(policy.selector));
    classify::ClassifierBuilder(rules, uint64_t{1} << 30, std::nullopt, searcher).attach(image, tables);
}

}  // namespace millrace::nf::ipsec
