// CRC-32 on the CPU, by the field's libraries.
#pragma once

#include <cstddef>
#include <cstdint>
#include <span>

#include "millrace/nf/crc/tables.hpp"

namespace millrace::nf::crc {

/// The CRC of bytes at an address, as zlib's crc32 tells it. Any thread may call it.
using CrcFunction = uint32_t (*)(const uint8_t* data, size_t bytes);

/// Who computes both polynomials.
struct Library {
    const char* name;
    CrcFunction of[2];  ///< by Polynomial
};

/// Those that this program has, the one that the CPU half uses first. README.md has the measurement that chose it.
std::span<const Library> libraries();

}  // namespace millrace::nf::crc
