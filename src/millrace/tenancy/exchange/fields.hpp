// The bytes of a packet that a tenant may see or change, one behind the other.
#pragma once

#include <cstdint>

#include "millrace/packet/fields.hpp"
#include "millrace/packet/layers.hpp"

namespace millrace::tenancy {

/// Most bytes that `fields` can take of a packet with a payload of `payload` bytes: headers that are longer are not for
/// tenants.
uint32_t most_bytes(Fields fields, uint32_t payload);

/// Bytes of a packet's `fields`. A byte of two fields belongs to both; ARP's header is for who has all of IP's.
uint32_t packed_bytes(uint32_t length, const Layers& layers, Fields fields);

/// Copies them from a frame; they must have room.
void pack(const uint8_t* frame, uint32_t length, const Layers& layers, Fields fields, uint8_t* to);
/// And back to their places: `bytes` is packed_bytes.
void unpack(const uint8_t* from, uint8_t* frame, uint32_t length, const Layers& layers, Fields fields);

/// The end of the last of them in the frame.
uint32_t extent(uint32_t length, const Layers& layers, Fields fields);

}  // namespace millrace::tenancy
