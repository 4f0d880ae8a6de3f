#include "millrace/openflow/session/bundles.hpp"

namespace millrace::openflow {

Bundles::~Bundles() {
    for (const auto& [id, bundle] : bundles_) memory_.used -= bundle.bytes;
}

Bundles::Bundle& Bundles::find(uint32_t id, uint16_t flags) {
    const auto found = bundles_.find(id);
    if (found == bundles_.end()) throw error::bundle_bad_id;
    if (found->second.flags != flags) throw error::bundle_bad_flags;
    return found->second;
}

void Bundles::open(uint32_t id, uint16_t flags) {
    if ((flags & ~(bundle::kAtomic | bundle::kOrdered)) != 0) throw error::bundle_bad_flags;
    if (bundles_.contains(id)) throw error::bundle_exists;
    if (bundles_.size() >= kMax) throw error::bundle_out_of_bundles;
    bundles_[id].flags = flags;
}

void Bundles::add(uint32_t id, uint16_t flags, BundledChange change, size_t bytes) {
    // What a message is made into takes a few times its bytes.
    const size_t cost = sizeof(BundledChange) + 4 * bytes;
    if (!bundles_.contains(id)) open(id, flags);
    Bundle& into = find(id, flags);
    if (into.closed) throw error::bundle_closed;
    if (cost > BundleMemory::kMax - memory_.used) throw error::bundle_too_many;
    memory_.used += cost;
    into.bytes += cost;
    into.changes.push_back(std::move(change));
}

void Bundles::close(uint32_t id, uint16_t flags) {
    Bundle& bundle = find(id, flags);
    if (bundle.closed) throw error::bundle_closed;
    bundle.closed = true;
}

void Bundles::discard(uint32_t id) {
    const auto found = bundles_.find(id);
    if (found == bundles_.end()) throw error::bundle_bad_id;
    memory_.used -= found->second.bytes;
    bundles_.erase(found);
}

std::vector<BundledChange> Bundles::take(uint32_t id, uint16_t flags) {
    std::vector<BundledChange> changes = std::move(find(id, flags).changes);
    discard(id);
    return changes;
}

}  // namespace millrace::openflow
