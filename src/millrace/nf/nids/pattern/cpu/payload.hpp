// One payload to be searched.
#pragma once

#include <cstdint>

namespace millrace::nf::nids::pattern {

/// Bytes that someone else owns and keeps for as long as they are searched.
struct Payload {
    const uint8_t* data;
    uint32_t bytes;
};

}  // namespace millrace::nf::nids::pattern
