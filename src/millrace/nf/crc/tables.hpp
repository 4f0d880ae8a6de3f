// The tables of remainder.hpp on the host.
#pragma once

#include <cstdint>
#include <vector>

#include "millrace/nf/crc/remainder.hpp"

namespace millrace::nf::crc {

/// Which polynomial; the names are those of the option `polynomial`.
enum class Polynomial : uint8_t { ethernet, castagnoli };
inline constexpr const char* kPolynomialNames[] = {"ethernet", "castagnoli"};

/// As CrcTables has it: IEEE 802.3, section 3.2.9 (0x04c11db7), and RFC 3385 (0x1edc6f41), each with its bits reversed.
uint32_t reflected(Polynomial polynomial);
/// CrcTables::steps and powers.
std::vector<uint32_t> make_steps(uint32_t polynomial);
std::vector<uint32_t> make_powers(uint32_t polynomial);

}  // namespace millrace::nf::crc
