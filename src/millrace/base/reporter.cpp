#include "millrace/base/reporter.hpp"

#include <mutex>
#include <string>
#include <utility>

namespace millrace {
namespace {

struct Kind {
    std::vector<Diagnostic> told;
    size_t more = 0;

    void add(Diagnostic diagnostic, Diagnostic::Severity severity) {
        diagnostic.severity = severity;
        if (told.size() < Reporter::kMax) told.push_back(std::move(diagnostic));
        else ++more;
    }
    std::vector<Diagnostic> take(const char* name, Diagnostic::Severity severity) {
        if (const size_t untold = std::exchange(more, 0); untold > 0)
            told.push_back({{}, std::to_string(untold) + " more " + name + " came at once", "", severity});
        return std::exchange(told, {});
    }
};

}  // namespace

struct Reporter::Kept {
    std::mutex mutex;
    Kind warnings, troubles;
};

Reporter::Reporter() : kept_(std::make_shared<Kept>()) {}

void Reporter::operator()(Diagnostic warning) const {
    const std::lock_guard lock(kept_->mutex);
    kept_->warnings.add(std::move(warning), Diagnostic::Severity::warning);
}

void Reporter::trouble(Diagnostic trouble) const {
    const std::lock_guard lock(kept_->mutex);
    kept_->troubles.add(std::move(trouble), Diagnostic::Severity::error);
}

std::vector<Diagnostic> Reporter::take_warnings() const {
    const std::lock_guard lock(kept_->mutex);
    return kept_->warnings.take("warnings", Diagnostic::Severity::warning);
}

std::vector<Diagnostic> Reporter::take_troubles() const {
    const std::lock_guard lock(kept_->mutex);
    return kept_->troubles.take("troubles", Diagnostic::Severity::error);
}

}  // namespace millrace
