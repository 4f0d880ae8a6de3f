// Changes that a controller collects and then brings in together: bundles (ONF EXT-230, the extension that brings
// OpenFlow 1.4's bundles to 1.3).
#pragma once

#include <cstdint>
#include <map>
#include <vector>

#include "millrace/nf/switch/flows/change.hpp"
#include "millrace/openflow/wire/bytes.hpp"

namespace millrace::openflow {

/// onf_bundle_ctrl_type; each reply is one more than its request.
namespace bundle {
inline constexpr uint16_t kOpen = 0, kClose = 2, kCommit = 4, kDiscard = 6;
inline constexpr uint16_t kAtomic = 1, kOrdered = 2;  ///< flags: what commits here always are
}  // namespace bundle

/// A change, and of the message that asked for it what an error says.
struct BundledChange {
    nf::flow_switch::Change change;
    uint32_t xid = 0;
    Bytes message;  ///< its first bytes
};

/// The memory that all bundles of a switch take.
struct BundleMemory {
    static constexpr size_t kMax = size_t{256} << 20;
    size_t used = 0;
};

/// The bundles of one controller. All functions throw Error.
class Bundles {
public:
    static constexpr size_t kMax = 16;

    explicit Bundles(BundleMemory& memory) : memory_(memory) {}
    ~Bundles();
    Bundles(const Bundles&) = delete;
    Bundles& operator=(const Bundles&) = delete;

    void open(uint32_t id, uint16_t flags);
    /// Opens the bundle, if there is none. `bytes`: of the message.
    void add(uint32_t id, uint16_t flags, BundledChange change, size_t bytes);
    /// Nothing can be added any more.
    void close(uint32_t id, uint16_t flags);
    void discard(uint32_t id);
    /// What is in it; then it is not there any more.
    std::vector<BundledChange> take(uint32_t id, uint16_t flags);

private:
    struct Bundle {
        uint16_t flags = 0;
        bool closed = false;
        size_t bytes = 0;
        std::vector<BundledChange> changes;
    };
    Bundle& find(uint32_t id, uint16_t flags);

    BundleMemory& memory_;
    std::map<uint32_t, Bundle> bundles_;
};

}  // namespace millrace::openflow
