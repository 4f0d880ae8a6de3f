#include "millrace/nf/classify/classifier_builder.hpp"

namespace millrace::nf::classify {

template <unsigned Words>
FamilyBuilder<Words>::FamilyBuilder(const RuleSet& rules, std::span<const uint32_t> order, std::optional<Engine> engine,
                                    uint64_t limit_bytes, Searcher searcher)
    : rules_(rules), order_(order), limit_bytes_(limit_bytes) {
    ternary_ = ternary_rules<Words>(rules, order, indexes_);
    boxes_ = ternary_.size();
    if (!engine) {
        choose(searcher);
    } else {
        choice_.engine = *engine;
        builder_ = build(choice_.engine);
    }
}

template <unsigned Words>
typename FamilyBuilder<Words>::Builder FamilyBuilder<Words>::build(Engine engine) const {
    if (engine == Engine::bit_vectors) return BitVectorBuilder(rules_, order_, Words == 10, limit_bytes_);
    return SearchBuilder<Words>(ternary_, engine, limit_bytes_);
}

template <unsigned Words>
void FamilyBuilder<Words>::choose(Searcher searcher) {
    std::optional<MergedBuilder<Words>> merged;
    choice_ = choose_engine(ternary_, limit_bytes_, searcher, merged);
    while (!builder_) {
        try {
            if (choice_.engine == Engine::merged && merged) builder_ = SearchBuilder<Words>(std::move(*merged));
            else builder_ = build(choice_.engine);
        } catch (const TablesTooLarge& error) {
            choice_.refuse(error.what());
            if (!choice_.take_cheapest()) throw;
        }
    }
}

template <unsigned Words>
void FamilyBuilder<Words>::attach(Image& image, Classifier::Family<Words>& family) {
    family.search.engine = choice_.engine;
    if (auto* vectors = std::get_if<BitVectorBuilder>(&*builder_)) return vectors->attach(image, family.vectors);
    std::get<SearchBuilder<Words>>(*builder_).attach(image, family.search);
    image.attach_some(family.rules, std::move(indexes_));
}

template <unsigned Words>
uint64_t FamilyBuilder<Words>::bytes() const {
    if (const auto* vectors = std::get_if<BitVectorBuilder>(&*builder_)) return vectors->bytes();
    return std::get<SearchBuilder<Words>>(*builder_).bytes() + indexes_.size() * 4;
}

template class FamilyBuilder<4>;
template class FamilyBuilder<10>;

ClassifierBuilder::ClassifierBuilder(const RuleSet& rules, uint64_t limit_bytes, std::optional<Engine> engine,
                                     Searcher searcher)
    : order_(rules.in_order()), ipv4_(rules, order_, engine, limit_bytes, searcher),
      ipv6_(rules, order_, engine, limit_bytes - ipv4_.bytes(), searcher) {}

}  // namespace millrace::nf::classify
