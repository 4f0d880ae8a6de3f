// Device halves whose work is in many small pieces.
#pragma once

#include <concepts>
#include <cstdint>
#include <iterator>
#include <utility>

#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::nf {

/// The numbers of lanes that device halves are compiled with for the host.
inline constexpr unsigned kLaneCounts[] = {1, 8, 32};

namespace detail {
/// That of a number of lanes; null where there is none.
template <class Function>
Function of_lanes(const Function (&functions)[3], unsigned lanes) {
    for (size_t i = 0; i < std::size(kLaneCounts); ++i)
        if (kLaneCounts[i] == lanes) return functions[i];
    return nullptr;
}
}  // namespace detail

/// What a device half may have besides `process`, which gives the same decision by many small pieces of work. A GPU
/// spreads the pieces of neighbouring packets over its threads, so that a packet with many of them keeps no other
/// waiting; and `find`, which is in a kernel of its own, does not share its instruction cache with the code that few
/// packets need. `kept` is a packet's own, kKeptWords words. None of them changes the packet. Only `conclude` tells
/// events, or a `judge` that is the only piece of its packet.
struct Parts {
    /// Looks at the packet, by several lanes.
    void (*find[3])(const Packet&, const void* tables, uint32_t* kept) = {};
    /// How many things were found that `sift` is to look at, each by one lane, in any order.
    uint32_t (*candidates)(const Packet&, const void* tables, uint32_t* kept) = nullptr;
    void (*sift)(Packet&, const void* tables, uint32_t* kept, uint32_t candidate) = nullptr;
    /// How many things that has left, once all are sifted, for `check` in the same way.
    uint32_t (*sifted)(const Packet&, const void* tables, uint32_t* kept) = nullptr;
    void (*check)(Packet&, const void* tables, uint32_t* kept, uint32_t sifted) = nullptr;
    /// How many pieces of work are left behind that for `judge`, each by several lanes, in any order.
    uint32_t (*checked)(const Packet&, const void* tables, uint32_t* kept) = nullptr;
    void (*judge[3])(Packet&, const void* tables, uint32_t* kept, uint32_t piece) = {};
    /// What that comes to, by one lane.
    Decision (*conclude)(Packet&, const void* tables, uint32_t* kept) = nullptr;

    auto find_with(unsigned lanes) const { return detail::of_lanes(find, lanes); }
    auto judge_with(unsigned lanes) const { return detail::of_lanes(judge, lanes); }
};

namespace detail {
template <class Device>
concept HasParts = requires(Packet& packet, const typename Device::Tables& tables, uint32_t* kept) {
    Device::find(std::as_const(packet), tables, kept, Lanes<1>{});
    { Device::candidates(std::as_const(packet), tables, kept) } -> std::same_as<uint32_t>;
    Device::sift(packet, tables, kept, 0u);
    { Device::sifted(std::as_const(packet), tables, kept) } -> std::same_as<uint32_t>;
    Device::check(packet, tables, kept, 0u);
    { Device::checked(std::as_const(packet), tables, kept) } -> std::same_as<uint32_t>;
    Device::judge(packet, tables, kept, 0u, Lanes<1>{});
    { Device::conclude(packet, tables, kept) } -> std::same_as<Decision>;
};
/// Whether it has the last of them, which only goes with all others.
template <class Device>
concept HasConclude = requires(Packet& packet, const typename Device::Tables& tables, uint32_t* kept) {
    Device::conclude(packet, tables, kept);
};
template <class Device, unsigned L>
void find(const Packet& packet, const void* tables, uint32_t* kept) {
    Device::find(packet, *static_cast<const typename Device::Tables*>(tables), kept, Lanes<L>{});
}
template <class Device, unsigned L>
void judge(Packet& packet, const void* tables, uint32_t* kept, uint32_t piece) {
    Device::judge(packet, *static_cast<const typename Device::Tables*>(tables), kept, piece, Lanes<L>{});
}
template <class Device>
Parts all_parts_of() {
    Parts parts;
    static const auto own = [](const void* tables) -> const typename Device::Tables& {
        return *static_cast<const typename Device::Tables*>(tables);
    };
    parts.find[0] = detail::find<Device, 1>;
    parts.find[1] = detail::find<Device, 8>;
    parts.find[2] = detail::find<Device, 32>;
    parts.candidates = [](const Packet& packet, const void* tables, uint32_t* kept) {
        return Device::candidates(packet, own(tables), kept);
    };
    parts.sift = [](Packet& packet, const void* tables, uint32_t* kept, uint32_t candidate) {
        Device::sift(packet, own(tables), kept, candidate);
    };
    parts.sifted = [](const Packet& packet, const void* tables, uint32_t* kept) {
        return Device::sifted(packet, own(tables), kept);
    };
    parts.check = [](Packet& packet, const void* tables, uint32_t* kept, uint32_t sifted) {
        Device::check(packet, own(tables), kept, sifted);
    };
    parts.checked = [](const Packet& packet, const void* tables, uint32_t* kept) {
        return Device::checked(packet, own(tables), kept);
    };
    parts.judge[0] = detail::judge<Device, 1>;
    parts.judge[1] = detail::judge<Device, 8>;
    parts.judge[2] = detail::judge<Device, 32>;
    parts.conclude = [](Packet& packet, const void* tables, uint32_t* kept) {
        return Device::conclude(packet, own(tables), kept);
    };
    return parts;
}
}  // namespace detail

/// Those of a device half, compiled for the host; none where it has none.
template <class Device>
Parts parts_of() {
    static_assert(
        detail::HasParts<Device> || !detail::HasConclude<Device>,
        "a device half has all parts or none; one of another signature, or a private one, hides that of a base");
    if constexpr (!detail::HasParts<Device>) {
        return {};
    } else {
        return detail::all_parts_of<Device>();
    }
}

}  // namespace millrace::nf
