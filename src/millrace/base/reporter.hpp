// How those who work tell people what deserves a look.
#pragma once

#include <memory>
#include <vector>

#include "millrace/base/text/diagnostic.hpp"

namespace millrace {

/// Keeps warnings and troubles until somebody takes them. Copies share what they keep, for as long as any of them
/// lives: nobody's lifetime matters to whoever tells. Any thread may call anything. Not for the packet path: it locks.
class Reporter {
public:
    Reporter();

    /// What works but deserves a look, such as a rule that is not supported.
    void operator()(Diagnostic warning) const;
    /// What was lost or failed while at work, such as alerts that cannot be written. A run with troubles does not end
    /// well.
    void trouble(Diagnostic trouble) const;

    /// What has been told since it was last taken; of more than kMax, how many more there were.
    std::vector<Diagnostic> take_warnings() const;
    std::vector<Diagnostic> take_troubles() const;

    static constexpr size_t kMax = 1000;

private:
    struct Kept;
    std::shared_ptr<Kept> kept_;
};

}  // namespace millrace
