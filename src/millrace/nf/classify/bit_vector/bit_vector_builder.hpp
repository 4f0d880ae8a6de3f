// Builds the tables of BitVectorEngine from rules.
#pragma once

#include <memory>
#include <span>

#include "millrace/nf/classify/bit_vector/bit_vector_engine.hpp"
#include "millrace/nf/classify/rules/rule.hpp"
#include "millrace/nf/classify/bit_vector/trie_builder.hpp"
#include "millrace/nf/classify/bit_vector/vector_store.hpp"
#include "millrace/nf/image.hpp"

namespace millrace::nf::classify {

class BitVectorBuilder {
public:
    /// The rules of one family: of `order`, indexes into `rules.boxes` in order of match, those that
    /// hold for it. Throws TablesTooLarge when all tables together take more than `limit_bytes`.
    BitVectorBuilder(const RuleSet& rules, std::span<const uint32_t> order, bool ipv6, uint64_t limit_bytes);

    /// Hands the arrays over to `image`; `tables` is a part of its Tables. Call it once.
    void attach(Image& image, BitVectorEngine::Tables& tables);

    uint64_t bytes() const { return bytes_; }
    size_t boxes() const { return boxes_.size(); }

private:
    struct PortArrays {
        std::vector<uint16_t> starts;
        std::vector<uint32_t> values;
        std::vector<uint32_t> buckets;
        uint32_t no_ports = 0;
    };

    TrieArrays build_addresses(Prefix Box::* side);
    PortArrays build_ports(PortRange Box::* side);
    std::vector<uint32_t> build_bytes(ByteMatch Box::* field, bool may_be_absent, bool tells_connections);

    std::vector<const Box*> boxes_;  // by position
    VectorStore store_;
    TrieArrays src_, dst_;
    PortArrays src_port_, dst_port_;
    std::vector<uint32_t> protocols_, flags_;
    bool tells_connections_ = false;
    std::vector<uint32_t> rules_;
    uint64_t bytes_ = 0;
};

}  // namespace millrace::nf::classify
