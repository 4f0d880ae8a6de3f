#include "millrace/nf/classify/search_builder.hpp"

#include "millrace/nf/classify/bit_vector/vector_store.hpp"

namespace millrace::nf::classify {

template <unsigned Words>
SearchBuilder<Words>::SearchBuilder(std::vector<TernaryRule<Words>> rules, Engine engine, uint64_t limit_bytes)
    : engine_(engine) {
    if (engine == Engine::merged) {
        builder_.template emplace<MergedBuilder<Words>>(rules, limit_bytes);
    } else if (engine == Engine::linear) {
        builder_ = std::make_shared<const Rules>(std::move(rules));
        if (bytes() > limit_bytes) throw TablesTooLarge("these rules take " + std::to_string(bytes()) + " bytes");
    } else {
        builder_.template emplace<TupleBuilder<Words>>(rules, engine == Engine::bloom, limit_bytes);
    }
}

template <unsigned Words>
void SearchBuilder<Words>::attach(Image& image, typename Search<Words>::Tables& tables) const {
    tables.engine = engine_;
    if (const auto* rules = std::get_if<std::shared_ptr<const Rules>>(&builder_))
        attach_shared(image, tables.linear.rules, *rules, **rules);
    if (const auto* tuple = std::get_if<TupleBuilder<Words>>(&builder_)) tuple->attach(image, tables.tuple);
    if (const auto* merged = std::get_if<MergedBuilder<Words>>(&builder_)) merged->attach(image, tables.merged);
}

template <unsigned Words>
uint64_t SearchBuilder<Words>::bytes() const {
    if (const auto* rules = std::get_if<std::shared_ptr<const Rules>>(&builder_))
        return (*rules)->size() * sizeof(TernaryRule<Words>);
    if (const auto* tuple = std::get_if<TupleBuilder<Words>>(&builder_)) return tuple->bytes();
    return std::get<MergedBuilder<Words>>(builder_).bytes();
}

template <unsigned Words>
SearchBuilder<Words> SearchBuilder<Words>::chosen(const std::vector<TernaryRule<Words>>& rules, uint64_t limit_bytes,
                                                  Searcher searcher, EngineChoice& choice) {
    std::optional<MergedBuilder<Words>> merged;
    choice = choose_engine(rules, limit_bytes, searcher, merged);
    while (true) {
        try {
            if (choice.engine == Engine::merged && merged) return SearchBuilder(std::move(*merged));
            return SearchBuilder(rules, choice.engine, limit_bytes);
        } catch (const TablesTooLarge& error) {
            choice.refuse(error.what());
            if (!choice.take_cheapest()) throw;
        }
    }
}

template class SearchBuilder<4>;
template class SearchBuilder<9>;
template class SearchBuilder<10>;
template class SearchBuilder<15>;
template class SearchBuilder<28>;

}  // namespace millrace::nf::classify
