// The lookup tables of tables.hpp on the host: built, and changed route by route.
#pragma once

#include <algorithm>
#include <array>
#include <cstdint>
#include <memory>
#include <stdexcept>
#include <vector>

#include "millrace/nf/image.hpp"
#include "millrace/nf/prefixes/rib.hpp"
#include "millrace/nf/prefixes/prefix_tables.hpp"

namespace millrace::nf::prefixes {

/// Longest-prefix match by a first table, the root, and groups of 256 entries below it, with each prefix
/// expanded to the entries it covers (leaf pushing). Beside every entry stands the length of the
/// prefix that it came from, so that a route can be added or taken away by visiting only the entries
/// that it covers. Not safe for use by several threads while it is changed.
///
/// A table begins small, with a root of kSmallRoot entries, and takes memory as it gets routes. Where it may need more
/// than kSmallGroups groups it becomes a large one, with a root of 2^LargeBits entries; and a small one again with so
/// few routes that a quarter of those groups are enough, so that some hundreds of changes are between two such steps.
template <class Entry, unsigned Bytes, unsigned LargeBits>
class Lpm {
public:
    using Address = typename Rib<Bytes>::Address;
    using Route = typename Rib<Bytes>::Route;
    static constexpr Entry kGroup = static_cast<Entry>(Entry{1} << (8 * sizeof(Entry) - 1));
    static constexpr size_t kSmallGroups = 4096;
    /// With so many routes a large table becomes a small one.
    static constexpr size_t kFewRoutes = kSmallGroups / 4 / (Bytes - 1);

    /// The entries as they stood at a version: what others read while the table goes on changing.
    struct Copy {
        std::vector<Entry> root, groups;
        uint64_t version = 0;
        std::shared_ptr<const Revision> root_revision, groups_revision;
    };

    /// Adds a route or changes its value (not 0, below kMaxTargets). `address` has zeros behind `length`.
    /// True when the prefix is new. Throws std::length_error, with nothing changed, when a table is full.
    bool insert(const Address& address, unsigned length, uint16_t value) {
        ++version_;
        if (root_.empty()) start();
        if (is_small() && groups_in_use() + Bytes - 1 > kSmallGroups) grow();
        // Groups on the way down that fail to come leave only empty groups behind: no answer changes.
        const Range range = descend(address, length);
        replace(range, Owner{static_cast<Entry>(value), owner(length)},
                [&](uint8_t old) { return old <= owner(length); });
        return rib_.set(address, length, value);
    }

    /// Takes a route away; what it covered falls to the next shorter prefix. False when there was none.
    bool erase(const Address& address, unsigned length) {
        if (!rib_.remove(address, length)) return false;
        ++version_;
        Owner next{0, 0};
        if (const auto parent = rib_.covering(address, length))
            next = {static_cast<Entry>(parent->value), owner(parent->length)};
        replace(descend(address, length), next, [&](uint8_t old) { return old == owner(length); });
        collapse(address, length);
        if (!is_small() && rib_.size() <= kFewRoutes) shrink();
        return true;
    }

    /// Adds many routes, short ones first, which fills each entry fewest times.
    void load(std::vector<Route> routes) {
        std::stable_sort(routes.begin(), routes.end(),
                         [](const Route& a, const Route& b) { return a.length < b.length; });
        rib_.reserve(rib_.size() + routes.size());
        for (const Route& route : routes) insert(route.address, route.length, route.value);
    }

    /// The value of the longest prefix that covers `address`, 0 when none does.
    Entry lookup(const Address& address) const {
        if (root_.empty()) return 0;
        Entry entry = root_[root_index(address)];
        for (unsigned i = root_bytes(); (entry & kGroup) != 0; ++i) entry = groups_[at(entry, address[i])];
        return entry;
    }

    /// Grows with every change.
    uint64_t version() const { return version_; }
    /// Makes a copy, which may be an older one or empty, equal to what stands now, by what has changed since.
    void bring_up(Copy& copy) const {
        if (copy.root.size() != root_.size()) copy = {};
        copy.root_revision = bring_up(copy.root, root_, root_stamps_, copy.version, copy.root_revision.get());
        copy.groups_revision = bring_up(copy.groups, groups_, group_stamps_, copy.version, copy.groups_revision.get());
        copy.version = version_;
    }

    bool is_small() const { return root_.size() <= kSmallRoot; }
    const Rib<Bytes>& rib() const { return rib_; }
    const std::vector<Entry>& root() const { return root_; }
    const std::vector<Entry>& groups() const { return groups_; }
    size_t groups_in_use() const { return groups_.size() / kGroupEntries - free_.size(); }

private:
    /// Lengths are kept one higher, so that 0 says "no route".
    static uint8_t owner(unsigned length) { return static_cast<uint8_t>(length + 1); }
    struct Owner {
        Entry value;
        uint8_t owner;
    };
    /// A run of entries in the root or in the groups.
    struct Range {
        bool in_groups;
        size_t first, count;
    };

    /// Entries that a copy takes at once, on the host and on devices. Each such chunk bears the version of its last
    /// change.
    static constexpr size_t kChunk = 256;

    void start() {
        root_.resize(kSmallRoot);
        root_owner_.resize(kSmallRoot);
        changed({false, 0, root_.size()});
    }
    /// The entries of the groups that a larger root makes needless move there; the other groups stay where they are.
    void grow() {
        std::vector<Entry> entries;
        std::vector<uint8_t> owners;
        entries.reserve(size_t{1} << LargeBits);
        owners.reserve(size_t{1} << LargeBits);
        const auto append = [&](auto&& self, Owner from, unsigned bits) -> void {
            if (bits == LargeBits || (from.value & kGroup) == 0) {
                entries.insert(entries.end(), size_t{1} << (LargeBits - bits), from.value);
                owners.insert(owners.end(), size_t{1} << (LargeBits - bits), from.owner);
                return;
            }
            const size_t first = at(from.value, 0);
            for (size_t i = first; i < first + kGroupEntries; ++i)
                self(self, Owner{groups_[i], groups_owner_[i]}, bits + 8);
            free_.push_back(first / kGroupEntries);
        };
        for (size_t i = 0; i < kSmallRoot; ++i) append(append, Owner{root_[i], root_owner_[i]}, 8);
        root_ = std::move(entries);
        root_owner_ = std::move(owners);
        changed({false, 0, root_.size()});
    }
    void shrink() {
        Lpm small;
        small.version_ = version_;
        rib_.for_each([&](const Route& route) { small.insert(route.address, route.length, route.value); });
        if (small.root_.empty()) small.start();
        *this = std::move(small);
    }
    void changed(Range range) {
        std::vector<uint64_t>& stamps = range.in_groups ? group_stamps_ : root_stamps_;
        const size_t last = (range.first + range.count - 1) / kChunk;
        if (stamps.size() <= last) stamps.resize(last + 1);
        for (size_t chunk = range.first / kChunk; chunk <= last; ++chunk) stamps[chunk] = version_;
    }
    static std::shared_ptr<const Revision> bring_up(std::vector<Entry>& copy, const std::vector<Entry>& now,
                                                    const std::vector<uint64_t>& stamps, uint64_t version,
                                                    const Revision* before) {
        auto revision = std::make_shared<Revision>();
        revision->now = Revision::next_number();
        if (copy.empty() && !now.empty()) {
            copy = now;
            revision->changed.push_back({0, now.size() * sizeof(Entry)});
            return revision;
        }
        const Entry* const memory = copy.data();
        copy.resize(now.size());
        // Memory that has moved is another one.
        if (before != nullptr && memory == copy.data()) revision->before = before->now;
        for (size_t chunk = 0; chunk < stamps.size(); ++chunk) {
            if (stamps[chunk] <= version) continue;
            const size_t first = chunk * kChunk;
            while (chunk + 1 < stamps.size() && stamps[chunk + 1] > version) ++chunk;
            const size_t count = std::min((chunk + 1) * kChunk, now.size()) - first;
            std::copy_n(now.data() + first, count, copy.data() + first);
            revision->changed.push_back({first * sizeof(Entry), count * sizeof(Entry)});
        }
        return revision;
    }
    /// Bytes of an address that choose the entry of the root.
    unsigned root_bytes() const { return is_small() ? 1 : LargeBits / 8; }
    size_t root_index(const Address& address) const {
        size_t index = 0;
        for (unsigned i = 0; i < root_bytes(); ++i) index = index << 8 | address[i];
        return index;
    }
    static size_t at(Entry group, size_t index) {
        return static_cast<size_t>(static_cast<Entry>(group & ~kGroup)) * kGroupEntries + index;
    }

    /// The entries that a prefix covers on the level where it ends; makes the groups on the way.
    Range descend(const Address& address, unsigned length) {
        size_t index = root_index(address);
        const unsigned root_bits = 8 * root_bytes();
        if (length <= root_bits) return {false, index, size_t{1} << (root_bits - length)};
        if ((root_[index] & kGroup) == 0) {
            const Entry group = make_group({root_[index], root_owner_[index]});
            root_[index] = group;
            changed({false, index, 1});
        }
        Entry entry = root_[index];
        unsigned byte = root_bytes();
        for (; length > 8 * (byte + 1); ++byte) {
            index = at(entry, address[byte]);
            if ((groups_[index] & kGroup) == 0) {
                const Entry group = make_group({groups_[index], groups_owner_[index]});
                groups_[index] = group;
                changed({true, index, 1});
            }
            entry = groups_[index];
        }
        return {true, at(entry, address[byte]), size_t{1} << (8 * (byte + 1) - length)};
    }

    Entry make_group(Owner content) {
        size_t number;
        if (!free_.empty()) {
            number = free_.back();
            free_.pop_back();
        } else {
            number = groups_.size() / kGroupEntries;
            if (number >= static_cast<size_t>(kGroup))
                throw std::length_error("the routing table has no room for more long prefixes");
            groups_.resize(groups_.size() + kGroupEntries);
            groups_owner_.resize(groups_.size());
        }
        const auto first = static_cast<std::ptrdiff_t>(number * kGroupEntries);
        std::fill_n(groups_.begin() + first, kGroupEntries, content.value);
        std::fill_n(groups_owner_.begin() + first, kGroupEntries, content.owner);
        changed({true, number * kGroupEntries, kGroupEntries});
        return static_cast<Entry>(kGroup | number);
    }

    /// Gives the entries of `range`, and all below, whose owner `applies` to a new owner.
    template <class Applies>
    void replace(Range range, Owner next, Applies&& applies) {
        changed(range);
        std::vector<Entry>& entries = range.in_groups ? groups_ : root_;
        std::vector<uint8_t>& owners = range.in_groups ? groups_owner_ : root_owner_;
        for (size_t i = range.first; i < range.first + range.count; ++i) {
            if ((entries[i] & kGroup) != 0) {
                replace(Range{true, at(entries[i], 0), kGroupEntries}, next, applies);
            } else if (applies(owners[i])) {
                entries[i] = next.value;
                owners[i] = next.owner;
            }
        }
    }

    /// Frees the groups on the way to a prefix in which nothing longer than their place is left.
    void collapse(const Address& address, unsigned length) {
        for (unsigned bits = (length + 7) / 8 * 8; bits > 8 * root_bytes(); bits -= 8) {
            // The entry that points to the group which resolves the last 8 of `bits`.
            size_t index = root_index(address);
            bool in_groups = false;
            for (unsigned byte = root_bytes(); 8 * (byte + 1) < bits; ++byte) {
                index = at(in_groups ? groups_[index] : root_[index], address[byte]);
                in_groups = true;
            }
            Entry& entry = in_groups ? groups_[index] : root_[index];
            const size_t first = at(entry, 0);
            for (size_t i = first; i < first + kGroupEntries; ++i)
                if ((groups_[i] & kGroup) != 0 || groups_owner_[i] > owner(bits - 8)) return;
            // With no longer prefix in it, one prefix owns the whole group.
            (in_groups ? groups_owner_ : root_owner_)[index] = groups_owner_[first];
            free_.push_back(first / kGroupEntries);
            entry = groups_[first];
            changed({in_groups, index, 1});
        }
    }

    Rib<Bytes> rib_;
    std::vector<Entry> root_, groups_;
    std::vector<uint8_t> root_owner_, groups_owner_;
    std::vector<size_t> free_;
    uint64_t version_ = 0;
    std::vector<uint64_t> root_stamps_, group_stamps_;  // by chunk
};

using Ipv4Lpm = Lpm<Ipv4Entry, 4, 24>;
using Ipv6Lpm = Lpm<Ipv6Entry, 16, 16>;

}  // namespace millrace::nf::prefixes
