// The port that counts packets and frees them.
#pragma once

#include <vector>

#include "millrace/io/port.hpp"

namespace millrace::io {

/// A packet that a sink kept.
struct SunkFrame {
    uint64_t number = 0;
    uint64_t timestamp_ns = 0;
    std::vector<uint8_t> bytes;
};

/// Takes everything at once. Keeps copies of the first `keep` packets of each queue: for tests and
/// checks only, as copying allocates.
class SinkPort : public Port {
public:
    SinkPort(PortInfo info, size_t keep);
    uint16_t receive(uint16_t, rte_mbuf**, uint16_t) override { return 0; }
    uint16_t send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) override;
    /// What was kept, queue by queue. Call it when no worker sends.
    std::vector<SunkFrame> sample() const;

private:
    struct alignas(64) Kept {
        std::vector<SunkFrame> frames;
    };
    static_assert(alignof(Kept) == 64);
    void keep(Kept& kept, rte_mbuf** mbufs, uint16_t count);
    size_t keep_;
    std::vector<Kept> kept_;
};

}  // namespace millrace::io
