#include "millrace/nf/nids/cpu.hpp"

#include <algorithm>
#include <type_traits>

namespace millrace::nf::nids {
namespace {

/// All rules that matched, in memory that is there from the start.
class EveryMatchedRule {
public:
    explicit EveryMatchedRule(std::vector<uint32_t>& rules) : rules_(&rules) { rules.clear(); }
    void add(uint32_t rule) { rules_->push_back(rule); }
    void sort() { std::sort(rules_->begin(), rules_->end()); }
    uint32_t count() const { return static_cast<uint32_t>(rules_->size()); }
    static constexpr bool more() { return false; }
    uint32_t operator[](uint32_t i) const { return (*rules_)[i]; }

private:
    std::vector<uint32_t>* rules_;
};

/// `Alerts`: EveryMatchedRule, or OpenRules or OpenRulesOfStream of it where rules ask for flows, which are known to
/// nobody here.
template <class Alerts>
class NidsCpuHalf : public CpuHalf {
    using CpuEvaluation = Evaluation<Lanes<1>, Alerts>;
    static constexpr uint16_t kFlow = std::is_same_v<Alerts, EveryMatchedRule> ? 0 : RuleHeader::kFlow;

public:
    NidsCpuHalf(std::shared_ptr<const pattern::PatternSet> patterns, pattern::Engine engine, const NidsTables& tables)
        : tables_(tables), all_have_patterns_(!tables.without_pattern), payloads_(kCpuVector) {
        hits_.reserve(kCpuVector, patterns->size());
        matched_.reserve(tables_.rules.size());
        matcher_ = pattern::make_matcher(std::move(patterns), engine);
    }

    void process(std::span<Packet* const> packets, Decision* decisions) override {
        for (size_t i = 0; i < packets.size(); ++i) {
            const bool concerned = concerns(*packets[i]);
            payloads_[i] = concerned ? pattern::Payload{packets[i]->payload(), packets[i]->payload_bytes()}
                                     : pattern::Payload{};
        }
        matcher_->scan(std::span(payloads_).first(packets.size()), hits_);
        if (all_have_patterns_) {
            std::fill_n(decisions, packets.size(), Decision{kNoDetail, kClean});
            if (hits_.empty()) return;
        }
        for (size_t i = 0; i < packets.size(); ++i)
            if (!all_have_patterns_ || !hits_[i].empty()) decisions[i] = evaluate(*packets[i], hits_[i]);
    }

private:
    Decision evaluate(Packet& packet, std::span<const uint32_t> patterns) {
        if (!concerns(packet)) return {kNoDetail, kClean};
        typename CpuEvaluation::Buffers buffers = CpuEvaluation::buffers_of(packet, {});
        Alerts alerts(matched_);
        CpuEvaluation evaluation(packet, tables_, buffers, alerts, {}, kFlow);
        size_t next = 0;
        evaluation.patterns([&](uint32_t) { return next < patterns.size() ? patterns[next++] : pattern::kNoPattern; });
        return evaluation.finish();
    }

    const NidsTables& tables_;
    const bool all_have_patterns_;  ///< no rule has a say where no pattern is found
    std::unique_ptr<pattern::Matcher> matcher_;
    std::vector<pattern::Payload> payloads_;
    pattern::PatternHits hits_;
    std::vector<uint32_t> matched_;
};

}  // namespace

std::unique_ptr<CpuHalf> make_cpu_half(std::shared_ptr<const pattern::PatternSet> patterns, pattern::Engine engine,
                                       const NidsTables& tables, Follows follows) {
    if (follows == Follows::messages)
        return std::make_unique<NidsCpuHalf<OpenRulesOfStream<EveryMatchedRule, true>>>(std::move(patterns), engine,
                                                                                        tables);
    if (follows == Follows::streams)
        return std::make_unique<NidsCpuHalf<OpenRulesOfStream<EveryMatchedRule, false>>>(std::move(patterns), engine,
                                                                                         tables);
    if (follows == Follows::flows)
        return std::make_unique<NidsCpuHalf<OpenRules<EveryMatchedRule>>>(std::move(patterns), engine, tables);
    return std::make_unique<NidsCpuHalf<EveryMatchedRule>>(std::move(patterns), engine, tables);
}

}  // namespace millrace::nf::nids
