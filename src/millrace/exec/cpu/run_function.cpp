#include "millrace/exec/cpu/run_function.hpp"

#include <mutex>

#include "millrace/base/spin_lock.hpp"
#include "millrace/nf/state/key_locks.hpp"

namespace millrace::exec {
namespace {

/// Commits of one NF must not run concurrently; workers that share an NF lock it once a vector.
SpinLock& commit_lock(const uint64_t* tickets) {
    struct alignas(64) Padded {
        SpinLock lock;
    };
    static Padded locks[64];
    return locks[(reinterpret_cast<uintptr_t>(tickets) >> 6) % 64].lock;
}

/// Runs an NF with state per key, or the `commit` that it has; workers share the state. Then frees some of it that has
/// timed out, as much as can be used up meanwhile.
void run_keyed(const chain::Node& node, const void* tables, std::span<Packet* const> packets, Decision* decisions) {
    const nf::Type& type = *node.type;
    type.run_keyed(packets, tables, decisions);
    if (packets.empty()) return;
    const uint64_t now = packets.back()->time_ns();
    for (size_t k = 0; k < packets.size() / 16 + 1; ++k) {
        uint32_t one = 1;
        const uint32_t bucket = type.claim(tables, one);
        const std::lock_guard alone(nf::key_lock(bucket));
        type.sweep(*packets.back(), tables, bucket, now);
    }
}

}  // namespace

void run_function(const chain::Node& node, nf::CpuHalf* half, std::span<Packet* const> packets, Decision* decisions) {
    const nf::Type& type = *node.type;
    const void* tables = node.nf->image().tables();
    if (type.commits_keyed()) {
        const nf::ProcessFunction process = type.process_with(node.lanes);
        if (half != nullptr) half->process(packets, decisions);
        else
            for (size_t i = 0; i < packets.size(); ++i) decisions[i] = process(*packets[i], tables);
        return run_keyed(node, tables, packets, decisions);
    }
    // A CPU half sees to it by itself that workers are not in each other's way.
    if (half != nullptr) return half->process(packets, decisions);
    if (type.is_keyed()) return run_keyed(node, tables, packets, decisions);
    std::unique_lock<SpinLock> ordered_section;
    if (type.commit != nullptr && node.nf->commits())
        ordered_section = std::unique_lock(commit_lock(type.tickets(tables).data()));
    if (type.ordered()) {
        const MutableView<uint64_t> tickets = type.tickets(tables);
        for (Packet* const packet : packets) {
            const uint32_t key = type.order_key(*packet, tables);
            if (key < tickets.size()) packet->set_ticket(__atomic_fetch_add(&tickets[key], 1, __ATOMIC_RELAXED));
        }
    }
    const nf::ProcessFunction process = type.process_with(node.lanes);
    for (size_t i = 0; i < packets.size(); ++i) decisions[i] = process(*packets[i], tables);
    if (type.commit != nullptr)
        for (size_t i = 0; i < packets.size(); ++i) decisions[i] = type.commit(*packets[i], tables, decisions[i]);
}

}  // namespace millrace::exec
