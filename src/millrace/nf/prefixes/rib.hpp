// The routes of one address family by prefix: exact lookups, and the prefix that covers another.
#pragma once

#include <array>
#include <cstdint>
#include <cstring>
#include <optional>
#include <vector>

namespace millrace::nf::prefixes {

/// A hash table with open addressing from prefixes to values; `Bytes` is 4 or 16.
template <unsigned Bytes>
class Rib {
public:
    using Address = std::array<uint8_t, Bytes>;
    struct Route {
        Address address{};  ///< network order, zeros behind the length
        uint8_t length = 0;
        bool used = false;
        uint16_t value = 0;
    };

    size_t size() const { return size_; }
    void reserve(size_t routes) {
        size_t slots = 16;
        while (slots * 2 < routes * 3) slots *= 2;
        if (slots > slots_.size()) rehash(slots);
    }

    /// Adds a route or changes its value. True when it is new.
    bool set(const Address& address, unsigned length, uint16_t value) {
        reserve(size_ + 1);
        Route& route = slots_[slot_of(address, length)];
        const bool is_new = !route.used;
        route = {address, static_cast<uint8_t>(length), true, value};
        if (is_new) {
            ++size_;
            ++with_length_[length];
        }
        return is_new;
    }

    /// True when there was such a route.
    bool remove(const Address& address, unsigned length) {
        if (slots_.empty()) return false;
        size_t hole = slot_of(address, length);
        if (!slots_[hole].used) return false;
        --size_;
        --with_length_[length];
        // Later routes of the same run move up, so that no run has a gap.
        const size_t mask = slots_.size() - 1;
        for (size_t at = (hole + 1) & mask; slots_[at].used; at = (at + 1) & mask) {
            const size_t home = hash(slots_[at].address, slots_[at].length) & mask;
            if (((at - home) & mask) < ((at - hole) & mask)) continue;
            slots_[hole] = slots_[at];
            hole = at;
        }
        slots_[hole].used = false;
        return true;
    }

    std::optional<uint16_t> find(const Address& address, unsigned length) const {
        if (slots_.empty()) return std::nullopt;
        const Route& route = slots_[slot_of(address, length)];
        if (!route.used) return std::nullopt;
        return route.value;
    }

    /// The longest route that is shorter than `length` and covers `address`.
    std::optional<Route> covering(const Address& address, unsigned length) const {
        for (unsigned l = length; l-- > 0;) {
            if (with_length_[l] == 0) continue;
            const Address masked = mask(address, l);
            if (const auto value = find(masked, l)) return Route{masked, static_cast<uint8_t>(l), true, *value};
        }
        return std::nullopt;
    }

    template <class F>
    void for_each(F&& f) const {
        for (const Route& route : slots_)
            if (route.used) f(route);
    }

    friend bool operator==(const Rib& a, const Rib& b) {
        if (a.size_ != b.size_ || a.with_length_ != b.with_length_) return false;
        for (const Route& route : a.slots_)
            if (route.used && b.find(route.address, route.length) != route.value) return false;
        return true;
    }

    static Address mask(Address address, unsigned length) {
        for (unsigned i = 0; i < Bytes; ++i) {
            const unsigned bits = length > 8 * i ? length - 8 * i : 0;
            if (bits < 8) address[i] = static_cast<uint8_t>(address[i] & ~(0xffu >> bits));
        }
        return address;
    }

private:
    static size_t hash(const Address& address, unsigned length) {
        uint64_t h = length * 0x9e3779b97f4a7c15ull;
        for (unsigned i = 0; i < Bytes; i += 4) {
            uint32_t word = 0;
            std::memcpy(&word, address.data() + i, 4);
            h = (h ^ word) * 0xff51afd7ed558ccdull;
            h ^= h >> 32;
        }
        return h;
    }
    /// Where the route is, or the free slot where it would go.
    size_t slot_of(const Address& address, unsigned length) const {
        const size_t mask = slots_.size() - 1;
        size_t at = hash(address, length) & mask;
        while (slots_[at].used && (slots_[at].length != length || slots_[at].address != address)) at = (at + 1) & mask;
        return at;
    }
    void rehash(size_t slots) {
        std::vector<Route> old(slots);
        old.swap(slots_);
        for (const Route& route : old)
            if (route.used) slots_[slot_of(route.address, route.length)] = route;
    }

    std::vector<Route> slots_;
    size_t size_ = 0;
    std::array<uint32_t, 8 * Bytes + 1> with_length_{};
};

}  // namespace millrace::nf::prefixes
