// Builds the tables of Classifier from rules.
#pragma once

#include <variant>

#include "millrace/nf/classify/bit_vector/bit_vector_builder.hpp"
#include "millrace/nf/classify/classifier.hpp"
#include "millrace/nf/classify/search_builder.hpp"

namespace millrace::nf::classify {

/// The rules of one family, by one engine.
template <unsigned Words>
class FamilyBuilder {
public:
    /// Of `order`, indexes into `rules.boxes` in order of match, those boxes that hold for the family. Without an
    /// `engine` it takes the one that is best for the `searcher`. Throws TablesTooLarge when tables take more than
    /// `limit_bytes`.
    FamilyBuilder(const RuleSet& rules, std::span<const uint32_t> order, std::optional<Engine> engine,
                  uint64_t limit_bytes, Searcher searcher = Searcher::core);

    /// Hands the arrays over to `image`; `family` is a part of its Tables. Call it once.
    void attach(Image& image, Classifier::Family<Words>& family);
    uint64_t bytes() const;
    size_t boxes() const { return boxes_; }
    const EngineChoice& choice() const { return choice_; }

private:
    using Builder = std::variant<BitVectorBuilder, SearchBuilder<Words>>;
    Builder build(Engine engine) const;
    void choose(Searcher searcher);

    const RuleSet& rules_;
    std::span<const uint32_t> order_;
    uint64_t limit_bytes_;
    std::vector<uint32_t> indexes_;  // of the rules, by position
    std::vector<TernaryRule<Words>> ternary_;
    size_t boxes_ = 0;
    EngineChoice choice_;
    std::optional<Builder> builder_;
};

class ClassifierBuilder {
public:
    /// Throws TablesTooLarge when the tables take more than `limit_bytes`. Without an `engine`, each family takes the
    /// one that is best for the `searcher`. `rules` must outlive the builder.
    ClassifierBuilder(const RuleSet& rules, uint64_t limit_bytes, std::optional<Engine> engine = Engine::bit_vectors,
                      Searcher searcher = Searcher::core);

    /// Hands the arrays over to `image`; `tables` is a part of its Tables. Call it once.
    void attach(Image& image, Classifier::Tables& tables) {
        ipv4_.attach(image, tables.ipv4);
        ipv6_.attach(image, tables.ipv6);
    }
    uint64_t bytes() const { return ipv4_.bytes() + ipv6_.bytes(); }
    /// Boxes (rules by combination of their listed values) that hold for IPv4, for IPv6.
    size_t ipv4_boxes() const { return ipv4_.boxes(); }
    size_t ipv6_boxes() const { return ipv6_.boxes(); }
    const EngineChoice& ipv4_choice() const { return ipv4_.choice(); }
    const EngineChoice& ipv6_choice() const { return ipv6_.choice(); }

private:
    std::vector<uint32_t> order_;
    FamilyBuilder<4> ipv4_;
    FamilyBuilder<10> ipv6_;
};

}  // namespace millrace::nf::classify
