// Mbufs that carry frames which have come back to where they are sent.
#pragma once

#include <rte_mbuf.h>

#include <array>
#include <optional>
#include <span>

#include "millrace/io/memory/pool.hpp"

namespace millrace::exec {

/// A few mbufs that are used again and again, so that the CPU's nearest caches have them. Those that frames were
/// received with have left these caches by the time when a batch is back: two cache lines each would have to come again
/// before their packet could leave. On the worker's thread, but for freeing.
class Carriers {
public:
    /// Most that may be on their way: ports hold some until a network card has sent them.
    static constexpr uint32_t kMax = 8192;
    /// Most that are asked for at once.
    static constexpr size_t kAtOnce = 128;

    /// Throws std::runtime_error when memory is short. EAL must run.
    Carriers();
    ~Carriers();
    Carriers(const Carriers&) = delete;
    Carriers& operator=(const Carriers&) = delete;
    /// `count` of them, kAtOnce at most, or none if there are not as many. Each is as a free mbuf is. Valid until the
    /// next call, which may return them again but for those that `used` has taken.
    std::span<rte_mbuf* const> offer(size_t count);
    /// The first `count` of those that were offered last have been filled.
    void used(size_t count) { first_ += count; }

private:
    io::PacketPool pool_;
    std::array<rte_mbuf*, kAtOnce> stock_{};
    size_t first_ = 0, behind_ = 0;  // of those in stock
};

}  // namespace millrace::exec
