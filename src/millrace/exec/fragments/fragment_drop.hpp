// Why fragments are dropped where a chain puts them together.
#pragma once

#include <cstdint>

namespace millrace::exec {

/// Indexes kFragmentDropNames. All fragments of a packet that is given up count, those that come later as well.
enum class FragmentDrop : uint8_t {
    timeout,        ///< the others did not come in time
    duplicate,      ///< it is there already, with the same bytes; the packet goes on
    overlap,        ///< it repeats some bytes of another one (RFC 5722)
    tiny,           ///< the first one ends within the headers, or the second one begins there (RFC 1858, 3128, 7112)
    bad_place,      ///< its length or its place can't be (RFC 8200, section 4.5)
    bad_ecn,        ///< congestion was marked for some of a packet that can't be marked (RFC 3168, section 5.3)
    too_many,       ///< the packet is in more pieces than kMaxPieces
    too_long,       ///< the packet would be longer than a buffer
    table_full,     ///< the oldest packet made room for another one
    source_full,    ///< the oldest one of its source did
    no_buffer,      ///< there was no buffer to put the packet together in
    chain_changed,  ///< a new configuration has other limits, or the chain is gone
};
inline constexpr unsigned kFragmentDropCount = 12;
inline constexpr const char* kFragmentDropNames[kFragmentDropCount] = {
    "timeout",  "duplicate", "overlap",    "tiny",        "bad-place", "bad-ecn",
    "too-many", "too-long",  "table-full", "source-full", "no-buffer", "chain-changed"};

}  // namespace millrace::exec
