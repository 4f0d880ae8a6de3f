// Collects mistakes, so that a person sees many at once but not thousands.
#pragma once

#include <vector>

#include "millrace/base/text/diagnostic.hpp"

namespace millrace::nf::router {

class Mistakes {
public:
    static constexpr size_t kMax = 20;

    /// Throws everything collected once there are kMax.
    void add(Diagnostic mistake) {
        found_.push_back(std::move(mistake));
        if (found_.size() >= kMax) throw ConfigError(std::move(found_));
    }
    void add(const ConfigError& error) {
        for (const Diagnostic& mistake : error.diagnostics()) add(mistake);
    }
    /// Throws if anything was collected.
    void check() {
        if (!found_.empty()) throw ConfigError(std::move(found_));
    }

private:
    std::vector<Diagnostic> found_;
};

}  // namespace millrace::nf::router
