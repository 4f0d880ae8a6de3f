// Network functions that look after their state beside the packets.
#pragma once

#include "millrace/nf/state/state_reader.hpp"

namespace millrace::nf {

class NetworkFunction;

/// A NetworkFunction derives from it, too, when time alone has it do something, or when what it keeps is to be told
/// before it is gone. All calls come from one thread at a time, which is no worker's: it may allocate, lock and write.
/// `reader`: of state that devices have; null: none has.
class Tended {
public:
    virtual ~Tended() = default;
    /// Packets may come to it meanwhile. Called many times a second.
    virtual void tend(StateReader* reader) = 0;
    /// No packet comes to it any more: the run ends, or a generation without it is at work.
    virtual void end(StateReader* reader) = 0;
    /// Whether it goes on with all that `before`, of the generation before it, keeps.
    virtual bool goes_on_with(const NetworkFunction& before) const = 0;
};

}  // namespace millrace::nf
