// Network functions that do as a control plane says whose own packets come through the same chains.
#pragma once

#include "millrace/packet/packet.hpp"

namespace millrace::nf {

/// A NetworkFunction derives from it, too, when what such a packet brings about at the other end must not come back
/// before this end is ready: packets of the control plane that come in by a tap wait until all that was told before
/// them is at work. All calls come from workers.
class FollowsControl {
public:
    virtual ~FollowsControl() = default;
    /// Whether a packet may be the control plane's.
    virtual bool is_control(const Packet& packet) const = 0;
    /// Whether something has been told that this generation does not have, and that the next one may have.
    virtual bool has_news() const = 0;
};

}  // namespace millrace::nf
