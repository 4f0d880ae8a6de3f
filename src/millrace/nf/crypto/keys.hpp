// Host side of the ciphers and hashes: tables and key schedules for the device halves.
#pragma once

#include <array>
#include <memory>
#include <span>
#include <vector>

#include "millrace/nf/crypto/gcm.hpp"
#include "millrace/nf/crypto/sha1.hpp"
#include "millrace/nf/crypto/sha256.hpp"

namespace millrace::crypto {

/// The words of `AesTables::encrypt` and `AesTables::decrypt`; made once and shared by all who ask.
std::shared_ptr<const std::vector<uint32_t>> aes_encrypt_table();
std::shared_ptr<const std::vector<uint32_t>> aes_decrypt_table();
/// Views of the two tables, which live as long as the program.
AesTables host_aes_tables();

/// The key schedule (FIPS 197, section 5.2) of a key of 16, 24 or 32 bytes: 44, 52 or 60 words.
std::vector<uint32_t> aes_key_schedule(std::span<const uint8_t> key);
/// The schedule for the equivalent inverse cipher, in the order in which decryption uses it.
std::vector<uint32_t> aes_inverse_schedule(std::span<const uint32_t> schedule);

/// The states of HMAC for a key of any length; `State` is Sha1 or Sha256.
template <class State>
HmacKey<State> hmac_key(std::span<const uint8_t> key);

/// What GCM authenticates with under the key of this schedule, which lies at a multiple of 16 bytes.
GhashKey ghash_key(std::span<const uint32_t> schedule);

}  // namespace millrace::crypto
