// Builds the tables of MergedEngine: chooses the masks of its tables and places each rule in one.
#pragma once

#include <memory>
#include <span>
#include <vector>

#include "millrace/nf/classify/ternary/merged_engine.hpp"
#include "millrace/nf/classify/ternary/ternary_rules.hpp"
#include "millrace/nf/image.hpp"

namespace millrace::nf::classify {

struct MergedPolicy {
    uint32_t max_bucket = 32;  ///< rules that share a masked value; those beyond go to another table
    uint32_t max_tables = 64;  ///< the last takes all that is left, however large its buckets get
    uint32_t seeds = 3;        ///< largest classes from which masks of a table are searched
    uint32_t neighbours = 24;  ///< classes with which a mask is tried to be merged in one step
};

template <unsigned Words>
class MergedBuilder {
public:
    using Engine = MergedEngine<Words>;

    /// For `rules` in order of position. Throws TablesTooLarge beyond `limit_bytes`.
    MergedBuilder(std::span<const TernaryRule<Words>> rules, uint64_t limit_bytes, const MergedPolicy& policy = {});

    /// Has `image`, of whose Tables `tables` is a part, share the arrays. Several images may.
    void attach(Image& image, typename Engine::Tables& tables) const;

    uint64_t bytes() const;
    size_t tables() const { return arrays_->tables.size(); }
    /// What a lookup meets in one of the tables, as the engine does it.
    struct Look {
        bool looked = false;  ///< the table could hold better
        uint32_t slots = 0, compared = 0;
    };
    /// `best` is the lowest position found so far, and then with this table.
    Look look_into(size_t table, const TernaryKey<Words>& key, uint32_t& best) const;

private:
    using Mask = std::array<uint32_t, Words>;
    /// Rules of one mask that have no table yet, as indexes, in order of position.
    struct Class {
        Mask mask;
        std::vector<uint32_t> rules;
    };
    struct Arrays {
        std::vector<typename Engine::Table> tables;
        std::vector<typename Engine::Slot> slots;
        std::vector<typename Engine::Rule> rules;
    };

    Mask choose_mask(const std::vector<Class>& classes);
    /// How many rules a table of that mask would take.
    size_t placed_with(const std::vector<Class>& classes, const Mask& mask);
    void add_table(std::vector<Class>& classes, const Mask& mask, uint32_t max_bucket);

    std::span<const TernaryRule<Words>> all_;
    MergedPolicy policy_;
    HashFunction<Words> hashing_;
    std::vector<uint64_t> counts_;  // of rules by hash, for placed_with
    std::shared_ptr<Arrays> arrays_ = std::make_shared<Arrays>();
};

}  // namespace millrace::nf::classify
