#include "lab/lookup/lookup_set.hpp"

#include <chrono>
#include <filesystem>
#include <set>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/classify/rules/classbench.hpp"
#include "lab/classify/lookup.hpp"
#include "lab/classify/trace.hpp"

namespace millrace::lab {
namespace {

using namespace nf::classify;

constexpr uint64_t kMaxTableBytes = uint64_t{16} << 30;
constexpr size_t kMadeHeaders = 1 << 17;

template <class Build>
std::unique_ptr<LookupTables> timed(Build&& build) {
    const auto begin = std::chrono::steady_clock::now();
    auto tables = std::make_unique<LookupTables>();
    build(*tables);
    tables->build_seconds = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    return tables;
}

template <unsigned Words>
void take_keys(LookupSet& set, const std::vector<TernaryRule<Words>>& rules,
               const std::vector<TernaryKey<Words>>& keys) {
    std::set<std::array<uint32_t, Words>> masks;
    for (const auto& rule : rules) masks.insert(mask_of(rule));
    set.words = Words;
    set.rule_count = rules.size();
    set.class_count = masks.size();
    for (const auto& key : keys) set.key_words.insert(set.key_words.end(), std::begin(key.words), std::end(key.words));
}

template <unsigned Words>
TernaryKey<Words> key_at(const LookupSet& set, size_t header) {
    TernaryKey<Words> key;
    std::copy_n(set.key_words.begin() + static_cast<ptrdiff_t>(header * Words), Words, key.words);
    return key;
}

class FlowSet : public LookupSet {
public:
    explicit FlowSet(const SyntheticSet& made) : rules_(ternary_rules(made)) {
        std::vector<TernaryKey<9>> keys;
        for (const SyntheticPacket& packet : made.packets) keys.push_back(ternary_key<9>(packet.fields));
        take_keys(*this, rules_, keys);
    }
    std::unique_ptr<LookupTables> build(Engine engine, const std::vector<bool>* present) const override {
        return timed([&](LookupTables& tables) {
            std::vector<TernaryRule<9>> rules = rules_;
            if (present != nullptr) std::erase_if(rules, [&](const auto& rule) { return !(*present)[rule.position]; });
            SearchBuilder<9> builder(std::move(rules), engine, kMaxTableBytes);
            tables.bytes = builder.bytes();
            builder.attach(tables.image, tables.image.start<Classifier::Family<9>>().search);
        });
    }
    uint32_t reference(size_t header, const std::vector<bool>* present) const override {
        const TernaryKey<9> key = key_at<9>(*this, header);
        for (const auto& rule : rules_)
            if ((present == nullptr || (*present)[rule.position]) && rule.matches(key)) return rule.position;
        return kNoRule;
    }

private:
    std::vector<TernaryRule<9>> rules_;
};

class FiveTupleSet : public LookupSet {
public:
    FiveTupleSet(RuleSet rules, std::vector<HeaderKey> given) : rules_(std::move(rules)), order_(rules_.in_order()) {
        std::vector<uint32_t> indexes;
        const auto ternary = nf::classify::ternary_rules<4>(rules_, order_, indexes);
        std::vector<TernaryKey<4>> keys;
        if (given.empty()) keys = sample_keys<4>(ternary, kMadeHeaders);
        for (const HeaderKey& header : given) keys.push_back(ternary_key<4>(header));
        take_keys(*this, ternary, keys);
        headers = std::move(given);
        if (headers.empty())
            for (const auto& key : keys) headers.push_back(header_key<4>(key));
    }
    std::unique_ptr<LookupTables> build(Engine engine, const std::vector<bool>* present) const override {
        return timed([&](LookupTables& tables) {
            std::vector<uint32_t> order = order_;
            if (present != nullptr)
                std::erase_if(order, [&](uint32_t index) { return !(*present)[rules_.boxes[index].rule]; });
            FamilyBuilder<4> builder(rules_, order, engine, kMaxTableBytes);
            tables.bytes = builder.bytes();
            builder.attach(tables.image, tables.image.start<Classifier::Family<4>>());
        });
    }
    uint32_t reference(size_t header, const std::vector<bool>* present) const override {
        for (const uint32_t index : order_)
            if ((present == nullptr || (*present)[rules_.boxes[index].rule]) &&
                matches(rules_.boxes[index], headers[header]))
                return rules_.boxes[index].rule;
        return kNoRule;
    }
    const RuleSet* rule_set() const override { return &rules_; }

private:
    RuleSet rules_;
    std::vector<uint32_t> order_;
};

template <unsigned Words, Engine Which, unsigned LaneCount>
device::Task task() {
    using Work = Lookup<Words, Which>;
    static constexpr const char* kEnums[] = {"linear", "tuple", "bloom", "bit_vectors", "merged"};
    device::Task result;
    result.name = std::string("lookup by ") + kEngineNames[static_cast<size_t>(Which)];
    result.device_header = "lab/classify/lookup.hpp";
    result.device_struct = "millrace::nf::classify::Lookup<" + std::to_string(Words) +
                           ", millrace::nf::classify::Engine::" + kEnums[static_cast<size_t>(Which)] + ">";
    result.lanes = LaneCount;
    result.run = device::Task::run_on_host<Work, LaneCount>;
    result.in_words = Words;
    result.out_words = 1;
    return result;
}

template <unsigned Words, Engine Which>
device::Task task_with(unsigned lanes) {
    switch (lanes) {
        case 1: return task<Words, Which, 1>();
        case 2: return task<Words, Which, 2>();
        case 4: return task<Words, Which, 4>();
        case 8: return task<Words, Which, 8>();
        case 32: return task<Words, Which, 32>();
        default: throw std::invalid_argument("a lookup takes 1, 2, 4, 8 or 32 lanes");
    }
}

template <unsigned Words>
device::Task task_of(Engine engine, unsigned lanes) {
    switch (engine) {
        case Engine::linear: return task_with<Words, Engine::linear>(lanes);
        case Engine::tuple: return task_with<Words, Engine::tuple>(lanes);
        case Engine::bloom: return task_with<Words, Engine::bloom>(lanes);
        case Engine::merged: return task_with<Words, Engine::merged>(lanes);
        case Engine::bit_vectors: break;
    }
    if constexpr (Words == 4) return task_with<4, Engine::bit_vectors>(lanes);
    throw std::invalid_argument("bit vectors know 5-tuples only");
}

}  // namespace

device::Task lookup_task(unsigned words, Engine engine, unsigned lanes) {
    return words == 4 ? task_of<4>(engine, lanes) : task_of<9>(engine, lanes);
}

std::shared_ptr<LookupSet> synthetic_lookups(const SyntheticSpec& spec) {
    SyntheticSpec with_headers = spec;
    if (with_headers.packets == 0) with_headers.packets = kMadeHeaders;
    const SyntheticSet made = make_synthetic(with_headers);
    std::shared_ptr<LookupSet> set;
    if (spec.fields == 12) {
        set = std::make_shared<FlowSet>(made);
    } else {
        std::string text;
        for (const SyntheticRule& rule : made.rules) text += classbench_text(rule) + "\n";
        RuleSet rules;
        load_classbench(text, "rules", {}, rules);
        std::vector<HeaderKey> headers;
        for (const auto& [fields, rule] : made.packets) headers.push_back(five_tuple(fields));
        set = std::make_shared<FiveTupleSet>(std::move(rules), std::move(headers));
    }
    set->name = "made";
    return set;
}

std::shared_ptr<LookupSet> classbench_lookups(const std::string& rules, const std::string& trace) {
    RuleSet loaded;
    load_classbench(read_file(rules), rules, {}, loaded);
    std::vector<HeaderKey> headers;
    if (!trace.empty())
        for (const TraceHeader& header : load_trace(read_file(trace), trace)) headers.push_back(header.key);
    auto set = std::make_shared<FiveTupleSet>(std::move(loaded), std::move(headers));
    set->name = std::filesystem::path(rules).stem();
    return set;
}

std::vector<Engine> engines_for(const LookupSet& set) {
    std::vector<Engine> engines = {Engine::linear, Engine::tuple, Engine::bloom, Engine::merged};
    if (set.words == 4) engines.push_back(Engine::bit_vectors);
    return engines;
}

}  // namespace millrace::lab
