// The automaton without vector instructions: several payloads side by side, as the table look-ups of one
// payload wait for each other and those of different payloads do not.
#include "millrace/nf/nids/pattern/engines.hpp"

namespace millrace::nf::nids::pattern {
namespace {

constexpr unsigned kSideBySide = 8;

class ScalarMatcher : public Matcher {
public:
    explicit ScalarMatcher(std::shared_ptr<const PatternSet> set) : set_(std::move(set)), found_(*set_, kSideBySide) {}

    void scan(std::span<const Payload> payloads, PatternHits& hits) override {
        hits.reset(payloads.size());
        if (set_->size() == 0) return;
        const Automaton& automaton = set_->automaton();
        if (automaton.wide->empty()) {
            walk(automaton.narrow->data(), payloads, hits);
        } else {
            walk(automaton.wide->data(), payloads, hits);
        }
    }
    std::string_view name() const override { return "scalar"; }

private:
    struct Lane {
        const uint8_t* at = nullptr;
        const uint8_t* end = nullptr;
        uint32_t state = 0;
        size_t payload = 0;
        unsigned slot = 0;
    };

    template <class Entry>
    void walk(const Entry* next, std::span<const Payload> payloads, PatternHits& hits) {
        Lane lanes[kSideBySide];
        for (unsigned i = 0; i < kSideBySide; ++i) lanes[i].slot = i;
        size_t active = 0;
        size_t taken = 0;
        const auto refill = [&](Lane& lane) {
            if (taken == payloads.size()) return false;
            lane = {payloads[taken].data, payloads[taken].data + payloads[taken].bytes, 0, taken, lane.slot};
            ++taken;
            return true;
        };
        while (active < kSideBySide && refill(lanes[active])) ++active;
        while (active > 0) {
            uint32_t steps = 0xffffffffu;
            for (size_t i = 0; i < active; ++i)
                steps = std::min(steps, static_cast<uint32_t>(lanes[i].end - lanes[i].at));
            if (active == kSideBySide) {
                advance<kSideBySide>(next, lanes, 0, steps);
            } else {
                for (size_t i = 0; i < active; ++i) advance<1>(next, lanes, i, steps);
            }
            for (size_t i = 0; i < active;) {
                if (lanes[i].at != lanes[i].end) {
                    ++i;
                    continue;
                }
                found_.finish(lanes[i].slot, lanes[i].payload, hits);
                if (refill(lanes[i])) {
                    ++i;
                } else if (--active != i) {
                    std::swap(lanes[i], lanes[active]);
                }
            }
        }
    }

    template <size_t Count, class Entry>
    void advance(const Entry* next, Lane* lanes, size_t first, uint32_t steps) {
        const Automaton& automaton = set_->automaton();
        const uint8_t* class_of = automaton.class_of->data();
        const uint32_t stride = automaton.stride;
        const uint32_t first_match = automaton.first_match;
        uint32_t states[Count];
        const uint8_t* texts[Count];
        for (size_t i = 0; i < Count; ++i) {
            states[i] = lanes[first + i].state;
            texts[i] = lanes[first + i].at;
        }
        for (uint32_t step = 0; step < steps; ++step) {
            uint32_t largest = 0;
            for (size_t i = 0; i < Count; ++i) {
                states[i] = next[static_cast<size_t>(states[i]) * stride + class_of[texts[i][step]]];
                largest = std::max(largest, states[i]);
            }
            if (largest < first_match) continue;
            for (size_t i = 0; i < Count; ++i)
                if (states[i] >= first_match) found_.add(lanes[first + i].slot, states[i]);
        }
        for (size_t i = 0; i < Count; ++i) {
            lanes[first + i].state = states[i];
            lanes[first + i].at += steps;
        }
    }

    std::shared_ptr<const PatternSet> set_;
    MatchCollector found_;
};

}  // namespace

std::unique_ptr<Matcher> make_scalar_matcher(std::shared_ptr<const PatternSet> set) {
    return std::make_unique<ScalarMatcher>(std::move(set));
}

}  // namespace millrace::nf::nids::pattern
