// Builds the tables of TupleEngine: classes by mask, cuckoo tables, Bloom filters.
#pragma once

#include <map>
#include <span>
#include <vector>

#include "millrace/nf/classify/ternary/ternary_rules.hpp"
#include "millrace/nf/classify/ternary/tuple_engine.hpp"
#include "millrace/nf/image.hpp"

namespace millrace::nf::classify {

/// How large tables are. The paper fits a class of 256 rules into 12 KB of shared memory at 90 % load; today's caches
/// let a class be as large as it is, and a split costs every packet one more lookup.
struct TuplePolicy {
    uint32_t max_class = 65536;  ///< rules of one table; larger classes become several with the same mask
    double load = 0.8;           ///< of the slots, in use
    uint32_t filter_bits = 32;   ///< of a Bloom filter, for each rule
    uint32_t max_moves = 200;    ///< of rules to other slots, until the table counts as full
    uint32_t tries = 8;          ///< with other hash functions, until the table grows
    uint32_t max_growths = 16;   ///< of one table, until all begin anew with another hash of the masked words
};

template <unsigned Words>
class TupleBuilder {
public:
    using Engine = TupleEngine<Words>;

    /// For `rules` in order of position; ranges become prefixes. Of rules that match the same, the first counts.
    /// With `filters` for Bloom search. Throws TablesTooLarge beyond `limit_bytes`.
    TupleBuilder(std::span<const TernaryRule<Words>> rules, bool filters, uint64_t limit_bytes,
                 const TuplePolicy& policy = {});

    /// Hands the arrays over to `image`; `tables` is a part of its Tables. Call it once.
    void attach(Image& image, typename Engine::Tables& tables);

    uint64_t bytes() const;
    size_t classes() const { return classes_.size(); }
    /// How often a table had to be filled again with other hash functions, and how often it had to grow.
    size_t rehashes() const { return rehashes_; }
    size_t growths() const { return growths_; }

private:
    using Classes = std::map<std::array<uint32_t, Words>, std::vector<TernaryRule<Words>>>;
    bool add_all(const Classes& classes, uint32_t function);
    /// False when the rules cannot be told apart by the hash of their values.
    bool add_class(const std::array<uint32_t, Words>& mask, std::span<const TernaryRule<Words>> rules);
    /// False when the table took too many moves; the slots are then to be thrown away.
    bool fill(const typename Engine::Class& in, std::span<const TernaryRule<Words>> rules,
              std::vector<typename Engine::Slot>& slots);
    void add_filter(typename Engine::Class& in, std::span<const TernaryRule<Words>> rules);

    TuplePolicy policy_;
    bool with_filters_;
    std::vector<typename Engine::Class> classes_;
    std::vector<typename Engine::Slot> slots_;
    std::vector<uint32_t> prints_;
    std::vector<uint32_t> filters_;
    HashFunction<Words> function_;
    size_t rehashes_ = 0, growths_ = 0;
};

}  // namespace millrace::nf::classify
