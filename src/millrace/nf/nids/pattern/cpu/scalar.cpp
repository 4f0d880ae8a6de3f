// The engine that runs everywhere.
#include "millrace/nf/nids/pattern/cpu/interleaved.hpp"

namespace millrace::nf::nids::pattern {
namespace {

class ScalarMatcher : public Matcher {
public:
    explicit ScalarMatcher(std::shared_ptr<const PatternSet> set) : set_(std::move(set)), found_(*set_, kInterleaved) {}

    void scan(std::span<const Payload> payloads, PatternHits& hits) override {
        hits.reset(payloads.size());
        if (set_->size() > 0) walk_interleaved(set_->automaton(), payloads, found_, hits);
    }
    std::string_view name() const override { return "scalar"; }

private:
    std::shared_ptr<const PatternSet> set_;
    MatchCollector found_;
};

}  // namespace

std::unique_ptr<Matcher> make_scalar_matcher(std::shared_ptr<const PatternSet> set) {
    return std::make_unique<ScalarMatcher>(std::move(set));
}

}  // namespace millrace::nf::nids::pattern
