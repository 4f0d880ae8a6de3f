// The CPU half, on intel-ipsec-mb. Routing, headers and checks are the device half's with one lane;
// ciphers and hashes go to the library in bursts.
//
// Only its cipher and hash burst calls are used: the job calls of 1.3 share an error variable between
// all threads, and its other burst calls miscount their queue when it wraps around.
#include <intel-ipsec-mb.h>

#include <array>
#include <stdexcept>

#include "millrace/nf/ipsec/burst_tickets.hpp"
#include "millrace/nf/ipsec/host.hpp"
#include "millrace/nf/ipsec/prepared_policies.hpp"
#include "millrace/nf/ipsec/prepared_tunnel.hpp"

namespace millrace::nf::ipsec {
namespace {

constexpr Lanes<1> kOneLane;

/// Keys in the form that the library wants.
struct alignas(64) MbKeys {
    alignas(16) uint8_t encrypt[16 * 15] = {};
    alignas(16) uint8_t decrypt[16 * 15] = {};
    alignas(16) uint8_t inner[20] = {};
    alignas(16) uint8_t outer[20] = {};
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

class IpsecCpuHalf : public CpuHalf {
public:
    IpsecCpuHalf(const Tables& tables, const Options& options, std::shared_ptr<SaState> state)
        : tables_(tables), state_(std::move(state)), keys_(options.sas.size()), policies_(tables) {
        for (size_t i = 0; i < keys_.size(); ++i) expand(options.sas[i], keys_[i]);
        for (const Sa& sa : tables.sas) tunnels_.emplace_back(sa, tables.mtu);
        prepare_jobs();
    }
    ~IpsecCpuHalf() override {
        if (!keys_.empty()) explicit_bzero(keys_.data(), keys_.size() * sizeof(MbKeys));
    }

    void process(std::span<Packet* const> packets, Decision* decisions) override {
        for (size_t at = 0; at < packets.size(); at += kBurst) {
            const size_t count = std::min(kBurst, packets.size() - at);
            process_burst(packets.subspan(at, count), decisions + at);
        }
    }

private:
    static constexpr size_t kBurst = IMB_MAX_BURST_SIZE;
    using Tag = std::array<uint8_t, 16>;

    /// One packet of the burst that goes on.
    struct Work {
        Packet* packet;
        Decision* decision;
        const Sa* sa;
        Esp esp;
    };

    void expand(const SaOptions& options, MbKeys& keys) const {
        if (!options.key.bytes.empty())
            IMB_AES_KEYEXP_128(manager_.handle, options.key.bytes.data(), keys.encrypt, keys.decrypt);
        if (options.auth_key.bytes.empty()) return;
        std::array<uint8_t, 64> block;
        const auto fill = [&](uint8_t pad, uint8_t* state) {
            block.fill(pad);
            for (size_t i = 0; i < options.auth_key.bytes.size(); ++i)
                block[i] = static_cast<uint8_t>(block[i] ^ options.auth_key.bytes[i]);
            IMB_SHA1_ONE_BLOCK(manager_.handle, block.data(), state);
        };
        fill(0x36, keys.inner);
        fill(0x5c, keys.outer);
        explicit_bzero(block.data(), block.size());
    }

    /// What all jobs have in common; zeroing and filling them for every packet would cost more than the router does.
    void prepare_jobs() {
        for (size_t i = 0; i < kBurst; ++i) {
            IMB_JOB& cipher = cipher_jobs_[i];
            cipher = {};
            cipher.key_len_in_bytes = IMB_KEY_128_BYTES;
            cipher.iv = ivs_[i].data();
            cipher.iv_len_in_bytes = ivs_[i].size();
            IMB_JOB& hash = hash_jobs_[i];
            hash = {};
            hash.auth_tag_output_len_in_bytes = kIcvBytes;
            hash.hash_alg = IMB_AUTH_HMAC_SHA_1;
            IMB_JOB& both = tunnel_.jobs[i];
            both = hash;
            both.key_len_in_bytes = IMB_KEY_128_BYTES;
            both.iv = tunnel_.ivs[i].data();
            both.iv_len_in_bytes = tunnel_.ivs[i].size();
            both.cipher_start_src_offset_in_bytes = kEspHeaderBytes + kCtrIvBytes;
            tunnel_.sas[i] = kNoDetail;
        }
    }

    const MbKeys& keys_of(const Work& work) const { return keys_[work.decision->detail]; }

    /// The jobs of packets whose tunnel is prepared: cipher and hash in one, which they stay ready for while the SA is
    /// the same.
    struct TunnelJobs {
        std::array<IMB_JOB, kBurst> jobs;
        std::array<Tag, kBurst> ivs;
        std::array<uint32_t, kBurst> sas;  ///< that the job was last for
        size_t count;
    };

    void process_burst(std::span<Packet* const> packets, Decision* decisions) {
        outbound_count_ = inbound_count_ = tunnel_.count = 0;
        find_routes(packets, decisions);
        for (size_t i = 0; i < packets.size(); ++i)
            if (decisions[i].outcome == kProtected || decisions[i].outcome == kUnprotected)
                begin(*packets[i], i, decisions[i]);
        run_tunnels();
        drop_forged();
        run_cipher(Cipher::aes_ctr, true);
        run_cipher(Cipher::aes_cbc, true);
        run_cipher(Cipher::aes_cbc, false);
        run_hash(outbound_.data(), outbound_count_, nullptr);
        for (size_t i = 0; i < inbound_count_; ++i) finish(inbound_[i]);
    }

    /// Routes all packets and gives them their tickets, those of a burst on one SA at once: other workers may share it,
    /// and no two packets get the same number.
    [[gnu::noinline]] void find_routes(std::span<Packet* const> packets, Decision* decisions) {
        for (size_t i = 0; i < packets.size(); ++i) {
            const Packet& packet = *packets[i];
            const Route route = policies_.find(packet);
            decisions[i] = {route.detail, route.outcome};
            by_tunnel_[i] = route.outcome == kProtected && tunnels_[route.detail].serves(packet);
            if (!by_tunnel_[i]) [[unlikely]] {
                if (route.outcome == kProtected) {
                    routes_[i] = outbound_route(packet, tables_, route.detail);
                    decisions[i] = {routes_[i].detail, routes_[i].outcome};
                }
                if (decisions[i].outcome != kProtected && decisions[i].outcome != kUnprotected) continue;
            }
            // Of many SAs, all that encryption will ask for is on its way meanwhile.
            if (decisions[i].detail != last_sa_) ask_for(last_sa_ = decisions[i].detail);
            tickets_.add(*packets[i], tunnels_[decisions[i].detail].slot());
        }
        tickets_.draw(tables_.tickets);
    }

    /// Has the SA's fields and keys brought into the CPU's caches.
    void ask_for(uint32_t sa) const {
        constexpr size_t kLine = 64, kSchedule = 16 * (crypto::kAes128Rounds + 1);
        __builtin_prefetch(&tunnels_[sa].sa().nonce);
        const MbKeys& keys = keys_[sa];
        for (size_t at = 0; at < kSchedule; at += kLine) __builtin_prefetch(keys.encrypt + at);
        __builtin_prefetch(keys.inner);
        __builtin_prefetch(keys.outer);
    }

    /// Gives one packet its headers, or finds its ESP. (A function of its own has registers enough.)
    [[gnu::noinline]] void begin(Packet& packet, size_t i, Decision& decision) {
        const uint64_t sequence = packet.ticket() + 1;
        if (by_tunnel_[i] && sequence <= kLastSequence) [[likely]]
            add_tunnel_job(tunnels_[decision.detail].encapsulate(packet, static_cast<uint32_t>(sequence)),
                           decision.detail, sequence);
        else begin_uncommon(packet, routes_[i], decision);
    }
    [[gnu::noinline]] void begin_uncommon(Packet& packet, const Route& route, Decision& decision) {
        const Sa& sa = tables_.sas[decision.detail];
        const uint64_t ticket = packet.ticket();
        if (decision.outcome == kUnprotected) {
            inbound_[inbound_count_++] = {&packet, &decision, &sa, received_esp(packet, sa)};
        } else if (ticket >= kLastSequence) {
            decision.outcome = kSequenceExhausted;
        } else {
            const Esp esp = encapsulate(packet, tables_, route, static_cast<uint32_t>(ticket + 1), kOneLane);
            outbound_[outbound_count_++] = {&packet, &decision, &sa, esp};
        }
    }

    void add_tunnel_job(const Esp& esp, uint32_t sa, uint64_t sequence) {
        const size_t at = tunnel_.count++;
        IMB_JOB& job = tunnel_.jobs[at];
        uint8_t* counter = tunnel_.ivs[at].data();
        if (tunnel_.sas[at] != sa) {
            tunnel_.sas[at] = sa;
            job.enc_keys = keys_[sa].encrypt;
            job.dec_keys = keys_[sa].decrypt;
            job.u.HMAC._hashed_auth_key_xor_ipad = keys_[sa].inner;
            job.u.HMAC._hashed_auth_key_xor_opad = keys_[sa].outer;
            crypto::store_block(counter, counter_block(tables_.sas[sa], esp.iv()));
        } else {
            store_be64(counter + 4, sequence);
        }
        job.src = esp.header;
        job.dst = esp.text();
        job.msg_len_to_cipher_in_bytes = esp.text_bytes;
        job.msg_len_to_hash_in_bytes = esp.authentic_bytes();
        job.auth_tag_output = esp.icv();
    }

    /// Encrypts and authenticates all packets of prepared tunnels.
    void run_tunnels() {
        const auto count = static_cast<uint32_t>(tunnel_.count);
        if (count == 0) return;
        IMB_JOB* jobs = tunnel_.jobs.data();
        const auto by_hand = [&](auto&& f) {
            for (size_t i = 0; i < count; ++i)
                f(Esp{const_cast<uint8_t*>(jobs[i].src), kCtrIvBytes,
                      static_cast<uint32_t>(jobs[i].msg_len_to_cipher_in_bytes)},
                  tables_.sas[tunnel_.sas[i]]);
        };
        // A burst that the library refuses is refused as a whole.
        if (IMB_SUBMIT_CIPHER_BURST_NOCHECK(manager_.handle, jobs, count, IMB_CIPHER_CNTR, IMB_DIR_ENCRYPT,
                                            IMB_KEY_128_BYTES) != count)
            by_hand([&](const Esp& esp, const Sa& sa) { encrypt(esp, sa, tables_.aes(), kOneLane); });
        if (IMB_SUBMIT_HASH_BURST_NOCHECK(manager_.handle, jobs, count, IMB_AUTH_HMAC_SHA_1) != count)
            by_hand([&](const Esp& esp, const Sa& sa) { authenticate(esp, sa); });
    }

    /// Verifies the ICVs of all that came in, and keeps those that are right.
    void drop_forged() {
        run_hash(inbound_.data(), inbound_count_, tags_.data());
        size_t kept = 0;
        for (size_t i = 0; i < inbound_count_; ++i) {
            Work& work = inbound_[i];
            uint32_t difference = 0;
            if (work.sa->auth != Auth::none)
                for (uint32_t j = 0; j < kIcvBytes; ++j)
                    difference |= static_cast<uint32_t>(tags_[i][j] ^ work.esp.icv()[j]);
            if (difference != 0) work.decision->outcome = kBadIcv;
            else inbound_[kept++] = work;
        }
        inbound_count_ = kept;
    }

    /// Hashes every packet of `works` that has an ICV: into `tags` by its index, or into the packet when null.
    void run_hash(Work* works, size_t count, Tag* tags) {
        size_t jobs = 0;
        for (size_t i = 0; i < count; ++i) {
            const Work& work = works[i];
            if (work.sa->auth == Auth::none) continue;
            IMB_JOB& job = hash_jobs_[jobs++];
            job.src = work.esp.header;
            job.msg_len_to_hash_in_bytes = work.esp.authentic_bytes();
            job.auth_tag_output = tags == nullptr ? work.esp.icv() : tags[i].data();
            job.u.HMAC._hashed_auth_key_xor_ipad = keys_of(work).inner;
            job.u.HMAC._hashed_auth_key_xor_opad = keys_of(work).outer;
        }
        if (jobs == 0) return;
        if (IMB_SUBMIT_HASH_BURST_NOCHECK(manager_.handle, hash_jobs_.data(), static_cast<uint32_t>(jobs),
                                          IMB_AUTH_HMAC_SHA_1) == jobs)
            return;
        // The library refused the burst as a whole: no packet may leave without its ICV, or pass unverified.
        for (size_t i = 0; i < count; ++i) {
            const Work& work = works[i];
            if (work.sa->auth == Auth::none) continue;
            const crypto::Sha1 digest = crypto::hmac_sha1(work.sa->hmac, work.esp.header, work.esp.authentic_bytes());
            uint8_t* tag = tags == nullptr ? work.esp.icv() : tags[i].data();
            for (unsigned j = 0; j < kIcvBytes / 4; ++j) store_be32(tag + 4 * j, digest.h[j]);
        }
    }

    /// Ciphers all packets that use `cipher` in that direction; in counter mode both are one.
    void run_cipher(Cipher cipher, bool encrypting) {
        size_t jobs = 0;
        const auto add = [&](Work* works, size_t count) {
            for (size_t i = 0; i < count; ++i)
                if (works[i].sa->cipher == cipher) ciphered_[jobs++] = &works[i];
        };
        if (encrypting) add(outbound_.data(), outbound_count_);
        if (!encrypting || cipher == Cipher::aes_ctr) add(inbound_.data(), inbound_count_);
        if (jobs == 0) return;
        for (size_t i = 0; i < jobs; ++i) fill_cipher_job(*ciphered_[i], cipher_jobs_[i], ivs_[i]);
        const IMB_CIPHER_MODE mode = cipher == Cipher::aes_ctr ? IMB_CIPHER_CNTR : IMB_CIPHER_CBC;
        const IMB_CIPHER_DIRECTION direction = encrypting ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT;
        if (IMB_SUBMIT_CIPHER_BURST_NOCHECK(manager_.handle, cipher_jobs_.data(), static_cast<uint32_t>(jobs), mode,
                                            direction, IMB_KEY_128_BYTES) == jobs)
            return;
        for (size_t i = 0; i < jobs; ++i) {
            if (encrypting) encrypt(ciphered_[i]->esp, *ciphered_[i]->sa, tables_.aes(), kOneLane);
            else decrypt(ciphered_[i]->esp, *ciphered_[i]->sa, tables_.aes(), kOneLane);
        }
    }

    void fill_cipher_job(const Work& work, IMB_JOB& job, Tag& iv) {
        if (work.sa->cipher == Cipher::aes_ctr) crypto::store_block(iv.data(), counter_block(*work.sa, work.esp.iv()));
        else copy_bytes(iv.data(), work.esp.iv(), crypto::kAesBlockBytes);
        job.enc_keys = keys_of(work).encrypt;
        job.dec_keys = keys_of(work).decrypt;
        job.src = work.esp.text();
        job.dst = work.esp.text();
        job.msg_len_to_cipher_in_bytes = work.esp.text_bytes;
    }

    /// Opens one packet that was verified and decrypted, and slides the anti-replay window.
    void finish(const Work& work) {
        mark_verified(*work.packet, *work.sa, work.esp);
        work.decision->outcome = open_inner(*work.packet, tables_, *work.sa, work.esp, kOneLane);
        std::atomic_flag& lock = state_->window_locks[work.sa->slot];
        while (lock.test_and_set(std::memory_order_acquire)) {
        }
        *work.decision = Ipsec::commit(*work.packet, tables_, *work.decision);
        lock.clear(std::memory_order_release);
    }

    const Tables& tables_;
    std::shared_ptr<SaState> state_;
    MbManager manager_;
    std::vector<MbKeys> keys_;
    PreparedPolicies policies_;
    std::vector<PreparedTunnel> tunnels_;  ///< by SA
    uint32_t last_sa_ = kNoDetail;
    TunnelJobs tunnel_;
    std::array<Work, kBurst> outbound_, inbound_;
    std::array<Work*, kBurst> ciphered_;
    size_t outbound_count_ = 0, inbound_count_ = 0;
    std::array<IMB_JOB, kBurst> cipher_jobs_, hash_jobs_;
    std::array<bool, kBurst> by_tunnel_;  // by packet of the burst
    std::array<Route, kBurst> routes_;    // of those that go into a tunnel that is not prepared
    BurstTickets<kBurst> tickets_;
    std::array<Tag, kBurst> tags_, ivs_;
};

}  // namespace

std::unique_ptr<CpuHalf> make_ipsec_cpu_half(const Tables& tables, const Options& options,
                                             std::shared_ptr<SaState> state) {
    return std::make_unique<IpsecCpuHalf>(tables, options, std::move(state));
}

}  // namespace millrace::nf::ipsec
