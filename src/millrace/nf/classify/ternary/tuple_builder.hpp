// Builds the tables of TupleEngine: classes by mask, cuckoo tables, Bloom filters.
#pragma once

#include <map>
#include <memory>
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

    /// Has `image`, of whose Tables `tables` is a part, share the arrays. Several images may.
    void attach(Image& image, typename Engine::Tables& tables) const;

    uint64_t bytes() const;
    size_t classes() const { return arrays_->classes.size(); }
    /// How often a table had to be filled again with other hash functions, and how often it had to grow.
    size_t rehashes() const { return rehashes_; }
    size_t growths() const { return growths_; }

private:
    using Rules = std::vector<const TernaryRule<Words>*>;
    using Classes = std::map<std::array<uint32_t, Words>, Rules>;
    using RulesOfClass = std::span<const TernaryRule<Words>* const>;
    struct Arrays {
        std::vector<typename Engine::Class> classes;
        std::vector<typename Engine::Slot> slots;
        std::vector<uint32_t> prints;
        std::vector<uint32_t> filters;
        std::vector<uint32_t> alike;
    };
    void keep_first_of_each_value(Rules& rules, size_t positions);
    bool add_all(const Classes& classes, uint32_t function);
    /// False when the rules cannot be told apart by the hash of their values.
    bool add_class(const std::array<uint32_t, Words>& mask, RulesOfClass rules);
    /// False when the table took too many moves; the slots are then to be thrown away.
    bool fill(const typename Engine::Class& in, RulesOfClass rules, std::vector<typename Engine::Slot>& slots);
    void add_filter(typename Engine::Class& in, RulesOfClass rules);

    TuplePolicy policy_;
    bool with_filters_;
    std::shared_ptr<Arrays> arrays_ = std::make_shared<Arrays>();
    HashFunction<Words> function_;
    size_t rehashes_ = 0, growths_ = 0;
};

}  // namespace millrace::nf::classify
