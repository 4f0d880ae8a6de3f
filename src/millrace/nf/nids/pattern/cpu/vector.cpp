// The vector engine's ordinary half: memory for what is found, and the check of the CPU.
#include <stdexcept>

#include "millrace/nf/nids/pattern/cpu/interleaved.hpp"
#include "millrace/nf/nids/pattern/cpu/vector_avx512.hpp"

namespace millrace::nf::nids::pattern {
namespace {

/// With fewer payloads than this, counted in payloads as long as the longest, too many lanes of a register would stand
/// idle: ordinary look-ups, which take payloads in pieces, are faster than gathers.
constexpr size_t kFewPayloads = 32;

bool fills_lanes(std::span<const Payload> payloads) {
    size_t bytes = 0;
    size_t longest = 0;
    for (const Payload& payload : payloads) {
        bytes += payload.bytes;
        longest = std::max<size_t>(longest, payload.bytes);
    }
    return bytes >= kFewPayloads * longest;
}

class VectorMatcher : public Matcher {
public:
    explicit VectorMatcher(std::shared_ptr<const PatternSet> set)
        : set_(std::move(set)), found_(*set_, avx512::kLaneCount) {
        for (unsigned slot = 0; slot < avx512::kLaneCount; ++slot) known_[slot] = found_.bits(slot);
    }

    void scan(std::span<const Payload> payloads, PatternHits& hits) override {
        hits.reset(payloads.size());
        if (set_->size() == 0) return;
        const Automaton& automaton = set_->automaton();
        if (!fills_lanes(payloads)) return walk_interleaved(automaton, payloads, found_, hits);
        const bool narrow = automaton.wide->empty();
        const avx512::Table table{automaton.class_of->data(), narrow ? automaton.narrow->data() : nullptr,
                                  narrow ? nullptr : automaton.wide->data(), automaton.stride, automaton.first_match};
        hits_ = &hits;
        avx512::walk(table, payloads.data(), payloads.size(),
                     {this, known_, &VectorMatcher::on_match, &VectorMatcher::on_finish});
    }
    std::string_view name() const override { return "vector"; }

private:
    static void on_match(void* context, unsigned slot, uint32_t state) {
        static_cast<VectorMatcher*>(context)->found_.add(slot, state);
    }
    static void on_finish(void* context, unsigned slot, size_t payload) {
        auto& self = *static_cast<VectorMatcher*>(context);
        self.found_.finish(slot, payload, *self.hits_);
    }

    std::shared_ptr<const PatternSet> set_;
    MatchCollector found_;
    const uint64_t* known_[avx512::kLaneCount];
    PatternHits* hits_ = nullptr;
};

}  // namespace

bool has_avx512() {
    // All that *_avx512.cpp files are compiled for.
    return __builtin_cpu_supports("avx512f") && __builtin_cpu_supports("avx512bw") &&
           __builtin_cpu_supports("avx512dq") && __builtin_cpu_supports("avx512vl") &&
           __builtin_cpu_supports("avx512vbmi") && __builtin_cpu_supports("avx512vbmi2") &&
           __builtin_cpu_supports("bmi2");
}

std::unique_ptr<Matcher> make_vector_matcher(std::shared_ptr<const PatternSet> set) {
    if (!has_avx512())
        throw std::runtime_error(
            "this CPU lacks AVX-512 (F, BW, DQ, VL, VBMI and VBMI2), which the vector engine needs");
    return std::make_unique<VectorMatcher>(std::move(set));
}

}  // namespace millrace::nf::nids::pattern
