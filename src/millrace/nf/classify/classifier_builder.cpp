#include "millrace/nf/classify/classifier_builder.hpp"

#include "millrace/packet/lanes.hpp"

namespace millrace::nf::classify {

template <unsigned Words>
FamilyBuilder<Words>::FamilyBuilder(const RuleSet& rules, std::span<const uint32_t> order, std::optional<Engine> engine, uint64_t limit_bytes)
    : rules_(rules), order_(order), limit_bytes_(limit_bytes) {
    ternary_ = ternary_rules<Words>(rules, order, indexes_);
    boxes_ = ternary_.size();
    if (engine) {
        choice_.engine = *engine;
    } else {
        choose();
    }
    builder_ = build(choice_.engine);
}

template <unsigned Words>
typename FamilyBuilder<Words>::Builder FamilyBuilder<Words>::build(Engine engine) const {
    if (engine == Engine::bit_vectors) return BitVectorBuilder(rules_, order_, Words == 10, limit_bytes_);
    return SearchBuilder<Words>(ternary_, engine, limit_bytes_);
}

template <unsigned Words>
Trial FamilyBuilder<Words>::try_engine(Engine engine, std::span<const HeaderKey> keys) const {
    Trial trial;
    trial.engine = engine;
    if (engine == Engine::linear && boxes_ > kMaxLinearTrial) {
        trial.refusal = "not tried with more than " + std::to_string(kMaxLinearTrial) + " rules";
        return trial;
    }
    try {
        Builder builder = build(engine);
        Image image;
        auto& family = image.start<Classifier::Family<Words>>();
        std::visit([&](auto& made) {
            trial.bytes = made.bytes();
            if constexpr (std::is_same_v<std::decay_t<decltype(made)>, BitVectorBuilder>) {
                made.attach(image, family.vectors);
            } else {
                made.attach(image, family.search);
            }
        }, builder);
        trial.lookups_per_second = measure_lookups(keys, [&](const HeaderKey& key) {
            if (engine == Engine::bit_vectors) return BitVectorEngine::find(family.vectors, key, Lanes<1>{});
            return Search<Words>::find(family.search, ternary_key<Words>(key), Lanes<1>{});
        });
    } catch (const TablesTooLarge& error) {
        trial.refusal = error.what();
    }
    return trial;
}

template <unsigned Words>
void FamilyBuilder<Words>::choose() {
    if (boxes_ == 0) return;
    std::vector<HeaderKey> keys;
    for (const TernaryKey<Words>& key : sample_keys<Words>(ternary_, kTrialKeys)) keys.push_back(header_key<Words>(key));
    for (const Engine engine : {Engine::linear, Engine::tuple, Engine::bloom, Engine::bit_vectors, Engine::merged})
        choice_.trials.push_back(try_engine(engine, keys));
    choice_.take_fastest();
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

ClassifierBuilder::ClassifierBuilder(const RuleSet& rules, uint64_t limit_bytes, std::optional<Engine> engine)
    : order_(rules.in_order()), ipv4_(rules, order_, engine, limit_bytes), ipv6_(rules, order_, engine, limit_bytes - ipv4_.bytes()) {}

}  // namespace millrace::nf::classify
