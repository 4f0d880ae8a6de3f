// The device half of a tenant's function, as it is sent to the manager: PTX, and an image of its tables.
//
// The tenant's own process compiles it, so that the manager reads no C++ of strangers, and puts all of it into memory
// that nobody can change any more (a sealed memfd), of which it sends the descriptor. Whoever reads it trusts no number
// in it.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/base/descriptor.hpp"
#include "millrace/nf/cpu_stages.hpp"
#include "millrace/nf/nf.hpp"
#include "millrace/tenancy/exchange/shared.hpp"

namespace millrace::tenancy {

inline constexpr uint32_t kHalfMagic = 0x484c524d;  // "MRLH"
inline constexpr uint32_t kMaxArrays = 64, kMaxFunctionName = 127;
inline constexpr uint64_t kMaxPtxBytes = 4 << 20, kMaxTablesBytes = 64 << 10;

/// Bits of HalfHead::stages.
inline constexpr uint8_t kHasBefore = 1, kHasAfter = 2;

/// What the memory begins with. Behind it `arrays` times ArrayHead, the PTX, the tables, and the arrays, without gaps.
struct HalfHead {
    uint32_t magic = kHalfMagic, version = kVersion;
    uint64_t layout = 0;  ///< packet_layout() of whoever compiled it
    uint64_t ptx_bytes = 0, tables_bytes = 0;
    uint32_t arrays = 0, outcomes = 0;
    uint8_t to_terms[kMaxOutcomes] = {};  ///< the manager's outcome (Terms), by the function's
    uint8_t stages = 0;                   ///< that its process has around it: kHasBefore, kHasAfter
    uint8_t reserved = 0;
    char function[kMaxFunctionName + 1] = {};  ///< that takes a packet and the tables; ends with a zero
};
struct ArrayHead {
    uint64_t bytes = 0;
    uint64_t member = 0;  ///< where in the tables its address stands
};

/// The same, read and checked.
struct DeviceHalf {
    struct Array {
        uint64_t member = 0;
        std::vector<uint8_t> bytes;
    };
    std::string function, ptx;
    nf::CpuStages stages;
    std::vector<uint8_t> to_terms;
    std::vector<uint8_t> tables;
    std::vector<Array> arrays;

    /// Memory that tables and arrays take, each at a multiple of kPieceAlignment.
    static constexpr uint64_t kPieceAlignment = 256;
    uint64_t image_bytes() const;
};

/// What device halves take a packet for: a digest of the headers that say so. Those of another version of Millrace must
/// not run here.
uint64_t packet_layout();

/// `outcomes`: of the terms agreed on. Throws std::runtime_error with the first thing that can't be.
DeviceHalf read_half(std::span<const uint8_t> bytes, uint32_t outcomes);
/// The same from memory that a stranger has sent. `most_bytes`: refused without a look beyond.
DeviceHalf read_half(int memory, uint64_t most_bytes, uint32_t outcomes);

/// Its bytes. Throws std::runtime_error where it is larger than a manager takes.
std::vector<uint8_t> half_bytes(const DeviceHalf& half);
/// Sealed memory with these bytes. Throws std::runtime_error.
std::unique_ptr<Descriptor> sealed_memory(std::span<const uint8_t> bytes);

/// Why a function can't be sent at all, and stays in its process; empty where it can.
std::string why_not_sent(const nf::Type& type, const nf::Image& image, const nf::CpuStages& stages);

}  // namespace millrace::tenancy
