// What keeps an interface's frames from Linux' own stack while a port takes copies of them.
#pragma once

#include <string>

#include "millrace/io/kernel/interface.hpp"

namespace millrace::io {

/// Linux drops what comes in at an interface behind the packet sockets' copies, so that it neither answers nor forwards
/// there what Millrace does. A program of two instructions does so (BPF, at TCX: Linux 6.6), which the kernel takes off
/// when its owner or the process ends, however that is.
class IngressDrop {
public:
    IngressDrop() = default;
    /// At the interface of this index. Throws std::runtime_error with what is in the way.
    explicit IngressDrop(int interface);

private:
    Descriptor program_, link_;
};

}  // namespace millrace::io
