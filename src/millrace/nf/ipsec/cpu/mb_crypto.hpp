// intel-ipsec-mb for one worker: its manager, keys in its form, and AES-GCM, which it does packet by packet.
#pragma once

#include <intel-ipsec-mb.h>

#include <array>
#include <cstring>
#include <new>
#include <stdexcept>
#include <string>

#include "millrace/nf/ipsec/options.hpp"
#include "millrace/nf/ipsec/esp/outbound.hpp"

namespace millrace::nf::ipsec {

/// Keys in the form that the library wants.
struct alignas(64) MbKeys {
    alignas(16) uint8_t encrypt[16 * 15] = {};
    alignas(16) uint8_t decrypt[16 * 15] = {};
    alignas(16) uint8_t inner[32] = {};
    alignas(16) uint8_t outer[32] = {};
};

struct MbManager {
    MbManager() : handle(alloc_mb_mgr(0)) {
        if (handle == nullptr) throw std::bad_alloc();
        init_mb_mgr_auto(handle, nullptr);
        if (imb_get_errno(handle) != 0) {
            const std::string why = imb_get_strerror(imb_get_errno(handle));
            free_mb_mgr(handle);
            throw std::runtime_error("intel-ipsec-mb does not start: " + why);
        }
    }
    ~MbManager() { free_mb_mgr(handle); }
    MbManager(const MbManager&) = delete;
    MbManager& operator=(const MbManager&) = delete;
    IMB_MGR* handle;
};

using Tag = std::array<uint8_t, 16>;

/// Keys of one worker, wiped when they go.
class MbCrypto {
public:
    MbCrypto(const Tables& tables, const Options& options) : keys_(options.sas.size()), gcm_keys_(tables.ghash.size()) {
        for (size_t i = 0; i < keys_.size(); ++i) expand(options.sas[i], tables.sas[i], keys_[i]);
    }
    ~MbCrypto() {
        if (!keys_.empty()) explicit_bzero(keys_.data(), keys_.size() * sizeof(MbKeys));
        if (!gcm_keys_.empty()) explicit_bzero(gcm_keys_.data(), gcm_keys_.size() * sizeof(gcm_key_data));
    }
    MbCrypto(const MbCrypto&) = delete;
    MbCrypto& operator=(const MbCrypto&) = delete;

    IMB_MGR* manager() const { return manager_.handle; }
    /// Of an SA by its index; not for GCM.
    const MbKeys& keys(uint32_t sa) const { return keys_[sa]; }

    /// Encrypts and writes an ICV.
    void seal_gcm(const Esp& esp, const Sa& sa) const { encrypt_gcm(esp, sa, esp.icv(), sa.icv_bytes); }
    /// Decrypts; false, and nothing changed, if the ICV is wrong.
    bool open_gcm(const Esp& esp, const Sa& sa) const {
        Call call(esp, sa);
        const auto decrypt = sa.rounds == crypto::kAes128Rounds ? manager()->gcm128_dec : manager()->gcm256_dec;
        Tag tag;
        decrypt(&gcm_keys_[sa.ghash], &call.context, esp.text(), esp.text(), esp.text_bytes, call.iv.data(),
                call.aad.data(), call.aad_bytes, tag.data(), tag.size());
        if (!differs(tag, esp, sa)) return true;
        encrypt_gcm(esp, sa, tag.data(), tag.size());
        return false;
    }
    /// Whether a packet's ICV is another, in time that does not depend on where.
    static bool differs(const Tag& tag, const Esp& esp, const Sa& sa) {
        uint32_t difference = 0;
        for (uint32_t j = 0; j < sa.icv_bytes; ++j) difference |= static_cast<uint32_t>(tag[j] ^ esp.icv()[j]);
        return difference != 0;
    }

private:
    /// One call of the library: its context and IV, and what is authenticated only.
    struct Call {
        Call(const Esp& esp, const Sa& sa) {
            store_be32(iv.data(), sa.nonce);
            copy_bytes(iv.data() + 4, esp.iv(), kCtrIvBytes);
            copy_bytes(aad.data(), esp.header, kEspHeaderBytes);
            if (!sa.extended) return;
            store_be32(aad.data() + 4, esp.high);
            copy_bytes(aad.data() + 8, esp.header + 4, 4);
            aad_bytes = 12;
        }
        gcm_context_data context;
        alignas(16) Tag iv{}, aad{};
        uint64_t aad_bytes = kEspHeaderBytes;
    };
    void encrypt_gcm(const Esp& esp, const Sa& sa, uint8_t* tag, uint64_t tag_bytes) const {
        Call call(esp, sa);
        const auto encrypt = sa.rounds == crypto::kAes128Rounds ? manager()->gcm128_enc : manager()->gcm256_enc;
        encrypt(&gcm_keys_[sa.ghash], &call.context, esp.text(), esp.text(), esp.text_bytes, call.iv.data(),
                call.aad.data(), call.aad_bytes, tag, tag_bytes);
    }

    void expand(const SaOptions& options, const Sa& sa, MbKeys& keys) {
        const uint8_t* key = options.key.bytes.data();
        const bool is_long = sa.rounds != crypto::kAes128Rounds;
        if (sa.cipher == Cipher::aes_gcm) {
            if (is_long) IMB_AES256_GCM_PRE(manager(), key, &gcm_keys_[sa.ghash]);
            else IMB_AES128_GCM_PRE(manager(), key, &gcm_keys_[sa.ghash]);
        } else if (sa.cipher != Cipher::null) {
            if (is_long) IMB_AES_KEYEXP_256(manager(), key, keys.encrypt, keys.decrypt);
            else IMB_AES_KEYEXP_128(manager(), key, keys.encrypt, keys.decrypt);
        }
        if (options.auth_key.bytes.empty()) return;
        std::array<uint8_t, 64> block;
        const auto fill = [&](uint8_t pad, uint8_t* state) {
            block.fill(pad);
            for (size_t i = 0; i < options.auth_key.bytes.size(); ++i)
                block[i] = static_cast<uint8_t>(block[i] ^ options.auth_key.bytes[i]);
            if (sa.auth == Auth::hmac_sha256_128) IMB_SHA256_ONE_BLOCK(manager(), block.data(), state);
            else IMB_SHA1_ONE_BLOCK(manager(), block.data(), state);
        };
        fill(0x36, keys.inner);
        fill(0x5c, keys.outer);
        explicit_bzero(block.data(), block.size());
    }

    MbManager manager_;
    std::vector<MbKeys> keys_;
    std::vector<gcm_key_data> gcm_keys_;  ///< by Sa::ghash
};

}  // namespace millrace::nf::ipsec
