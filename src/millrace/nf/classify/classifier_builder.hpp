// Builds the tables of Classifier from rules.
#pragma once

#include "millrace/nf/classify/bit_vector_builder.hpp"
#include "millrace/nf/classify/classifier.hpp"

namespace millrace::nf::classify {

class ClassifierBuilder {
public:
    /// Throws TablesTooLarge when the tables take more than `limit_bytes`.
    ClassifierBuilder(const RuleSet& rules, uint64_t limit_bytes) : ClassifierBuilder(rules, rules.in_order(), limit_bytes) {}

    /// Hands the arrays over to `image`; `tables` is a part of its Tables. Call it once.
    void attach(Image& image, Classifier::Tables& tables) {
        ipv4_.attach(image, tables.ipv4);
        ipv6_.attach(image, tables.ipv6);
    }
    uint64_t bytes() const { return ipv4_.bytes() + ipv6_.bytes(); }
    /// Boxes (rules by combination of their listed values) that hold for IPv4, for IPv6.
    size_t ipv4_boxes() const { return ipv4_.boxes(); }
    size_t ipv6_boxes() const { return ipv6_.boxes(); }

private:
    ClassifierBuilder(const RuleSet& rules, const std::vector<uint32_t>& order, uint64_t limit_bytes)
        : ipv4_(rules, order, false, limit_bytes), ipv6_(rules, order, true, limit_bytes - ipv4_.bytes()) {}

    BitVectorBuilder ipv4_, ipv6_;
};

}  // namespace millrace::nf::classify
