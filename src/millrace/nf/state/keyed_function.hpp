// What a function with state per key declares of itself, and what a packet of it wants of the state.
#pragma once

#include "millrace/nf/state/keyed_entry.hpp"

namespace millrace::nf {

/// Whether `Nf` has a type `Noted`, and its `key` writes down there what it has found out of the packet besides.
template <class Nf>
concept HasNoted = requires { typename Nf::Noted; };
/// Whether `Nf` lets a GPU decide on packets ahead of sequence (README.md).
template <class Nf>
concept DecidesAhead = requires { requires Nf::decides_ahead; };
/// Whether `Nf` says by a function `lasting` which changes of a value must outlive a device (README.md).
template <class Nf>
concept HasLasting = requires { &Nf::lasting; };
/// Parts of a value that may be kept each by itself (KeyedEntry::keep), in bytes: `count` of them, one behind the
/// other.
struct KeptParts {
    uint32_t offset, bytes, count;
};
/// Whether it has an array `parts` of these, and names those that must.
template <class Nf>
concept KeepsParts = requires { Nf::parts[0].count; };
template <class Nf>
concept HasJournal = HasLasting<Nf> || KeepsParts<Nf>;
struct NothingNoted {};
template <class Nf>
struct NotedBy {
    using Type = NothingNoted;
};
template <HasNoted Nf>
struct NotedBy<Nf> {
    using Type = typename Nf::Noted;
};

/// What a packet of `Nf` wants of the state. A device keeps it between the step that looks at keys and that which has
/// the state.
template <class Nf>
struct alignas(16) Wanted {
    typename decltype(Nf::Tables::state)::Key key{};
    uint64_t hash = 0;
    Lookup lookup = Lookup::none;
    typename NotedBy<Nf>::Type noted{};
};

}  // namespace millrace::nf
