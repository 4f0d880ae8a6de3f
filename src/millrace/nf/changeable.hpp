// Network functions whose tables change entry by entry while packets flow.
#pragma once

#include <functional>
#include <memory>

#include "millrace/nf/nf.hpp"

namespace millrace::nf {

/// A NetworkFunction derives from it, too, when it takes changes beside those of its configuration. Changes become a
/// generation of their own: workers and devices never see tables half changed, and no packet waits for a lock.
class Changeable {
public:
    virtual ~Changeable() = default;
    /// The NF with all changes that have come since this one was made, for the generation after it; null when none
    /// have. Called beside the workers that use this one, on the newest only, and by one thread at a time.
    virtual std::shared_ptr<NetworkFunction> next() = 0;
    /// Has `told` called when changes have come for which `next` was not called yet, by any thread; an empty one ends
    /// that. Who tells nobody is asked every few milliseconds.
    virtual void on_change(std::function<void()> /*told*/) {}
    /// All workers have taken the generation that this one is of. Called as `next` is, behind the call that made it.
    virtual void at_work() {}
};

}  // namespace millrace::nf
