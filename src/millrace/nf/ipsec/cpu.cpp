// The CPU half, on intel-ipsec-mb. Routing, headers and checks are the device half's with one lane;
// ciphers and hashes go to the library in bursts.
//
// Only its cipher and hash burst calls are used: the job calls of 1.3 share an error variable between
// all threads, and its other burst calls miscount their queue when it wraps around.
#include "millrace/nf/ipsec/cpu/burst_tickets.hpp"
#include "millrace/nf/ipsec/host.hpp"
#include "millrace/nf/ipsec/cpu/mb_crypto.hpp"
#include "millrace/nf/ipsec/cpu/prepared_policies.hpp"
#include "millrace/nf/ipsec/cpu/prepared_tunnel.hpp"

namespace millrace::nf::ipsec {
namespace {

constexpr Lanes<1> kOneLane;

/// Holds the anti-replay window of an SA.
class WindowLock {
public:
    explicit WindowLock(std::atomic_flag& flag) : flag_(flag) {
        while (flag_.test_and_set(std::memory_order_acquire)) {
        }
    }
    ~WindowLock() { flag_.clear(std::memory_order_release); }
    WindowLock(const WindowLock&) = delete;
    WindowLock& operator=(const WindowLock&) = delete;

private:
    std::atomic_flag& flag_;
};

class IpsecCpuHalf : public CpuHalf {
public:
    IpsecCpuHalf(const Tables& tables, const Options& options, std::shared_ptr<SaState> state)
        : tables_(tables), state_(std::move(state)), crypto_(tables, options), policies_(tables) {
        for (const Sa& sa : tables.sas) tunnels_.emplace_back(sa, tables.mtu);
        prepare_jobs();
    }
    void process(std::span<Packet* const> packets, Decision* decisions) override {
        for (size_t at = 0; at < packets.size(); at += kBurst) {
            const size_t count = std::min(kBurst, packets.size() - at);
            process_burst(packets.subspan(at, count), decisions + at);
        }
    }

private:
    static constexpr size_t kBurst = IMB_MAX_BURST_SIZE;

    /// One packet of the burst that goes on.
    struct Work {
        Packet* packet;
        Decision* decision;
        const Sa* sa;
        Esp esp;
    };

    /// What all jobs have in common; zeroing and filling them for every packet would cost more than the router does.
    void prepare_jobs() {
        for (size_t i = 0; i < kBurst; ++i) {
            IMB_JOB& cipher = cipher_jobs_[i];
            cipher = {};
            cipher.iv = ivs_[i].data();
            cipher.iv_len_in_bytes = ivs_[i].size();
            IMB_JOB& hash = hash_jobs_[i];
            hash = {};
            IMB_JOB& both = tunnel_.jobs[i];
            both = hash;
            both.hash_alg = IMB_AUTH_HMAC_SHA_1;
            both.auth_tag_output_len_in_bytes = kSha1IcvBytes;
            both.key_len_in_bytes = IMB_KEY_128_BYTES;
            both.iv = tunnel_.ivs[i].data();
            both.iv_len_in_bytes = tunnel_.ivs[i].size();
            both.cipher_start_src_offset_in_bytes = kEspHeaderBytes + kCtrIvBytes;
            tunnel_.sas[i] = kNoDetail;
        }
    }

    const MbKeys& keys_of(const Work& work) const { return crypto_.keys(work.decision->detail); }

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
        if (outbound_count_ + inbound_count_ == 0) return;
        for (const uint32_t rounds : {crypto::kAes128Rounds, crypto::kAes256Rounds}) {
            run_cipher(Cipher::aes_ctr, rounds, true);
            run_cipher(Cipher::aes_cbc, rounds, true);
            run_cipher(Cipher::aes_cbc, rounds, false);
        }
        for (size_t i = 0; i < outbound_count_; ++i)
            if (outbound_[i].sa->cipher == Cipher::aes_gcm) crypto_.seal_gcm(outbound_[i].esp, *outbound_[i].sa);
        run_hash(outbound_.data(), outbound_count_, nullptr);
        for (size_t i = 0; i < outbound_count_; ++i)
            if (outbound_[i].sa->in_udp && outbound_[i].sa->ipv6) write_udp_sum(*outbound_[i].packet);
        for (size_t i = 0; i < inbound_count_; ++i) finish(inbound_[i]);
    }

    /// Routes all packets and gives them their tickets, those of a burst on one SA at once: other workers may share it,
    /// and no two packets get the same number.
    [[gnu::noinline]] void find_routes(std::span<Packet* const> packets, Decision* decisions) {
        for (size_t i = 0; i < packets.size(); ++i) {
            const Packet& packet = *packets[i];
            Decision to = policies_.find(packet);
            by_tunnel_[i] = to.outcome == kProtected && tunnels_[to.detail].serves(packet);
            if (!by_tunnel_[i]) [[unlikely]] {
                if (to.outcome == kProtected) {
                    routes_[i] = outbound_route<Complete>(packet, tables_, to.detail);
                    to = {routes_[i].detail, routes_[i].outcome};
                    if (to.outcome == kMtuExceeded &&
                        answer_too_big<Complete>(*packets[i], tables_, to.detail, kOneLane))
                        to.outcome = kTooBigAnswered;
                }
            }
            decisions[i] = to;
            if (to.outcome != kProtected && to.outcome != kUnprotected) continue;
            // Of many SAs, all that encryption will ask for is on its way meanwhile.
            if (to.detail != last_sa_) ask_for(last_sa_ = to.detail);
            tickets_.add(*packets[i], tunnels_[to.detail].slot());
        }
        tickets_.draw(tables_.tickets);
    }

    /// Has the SA's fields and keys brought into the CPU's caches.
    void ask_for(uint32_t sa) const {
        constexpr size_t kLine = 64, kSchedule = 16 * (crypto::kAes128Rounds + 1);
        __builtin_prefetch(&tunnels_[sa].sa().nonce);
        const MbKeys& keys = crypto_.keys(sa);
        for (size_t at = 0; at < kSchedule; at += kLine) __builtin_prefetch(keys.encrypt + at);
        __builtin_prefetch(keys.inner);
        __builtin_prefetch(keys.outer);
    }

    /// Gives one packet its headers, or finds its ESP. (A function of its own has registers enough.)
    [[gnu::noinline]] void begin(Packet& packet, size_t i, Decision& decision) {
        const uint64_t sequence = tunnels_[decision.detail].sequence_of(packet.ticket());
        if (by_tunnel_[i] && sequence <= kLastSequence && tables_.limits.empty()) [[likely]]
            add_tunnel_job(tunnels_[decision.detail].encapsulate(packet, static_cast<uint32_t>(sequence)),
                           decision.detail, sequence);
        else begin_uncommon(packet, i, decision);
    }
    [[gnu::noinline]] void begin_uncommon(Packet& packet, size_t i, Decision& decision) {
        const Sa& sa = tables_.sas[decision.detail];
        if (decision.outcome == kUnprotected) {
            const Esp esp = received_esp<Complete>(packet, sa, sa.extended ? top_of(sa) : 0);
            inbound_[inbound_count_++] = {&packet, &decision, &sa, esp};
            return;
        }
        const uint64_t sequence = sequence_of(sa, packet.ticket());
        decision.outcome = may_send<Complete>(tables_, sa, sequence);
        if (decision.outcome != kProtected) return;
        if (by_tunnel_[i]) {
            const Esp esp = tunnels_[decision.detail].encapsulate(packet, static_cast<uint32_t>(sequence));
            count_bytes(sa, esp);
            add_tunnel_job(esp, decision.detail, sequence);
            return;
        }
        const Esp esp = sa.transport ? insert_esp<Complete>(packet, tables_, routes_[i], sequence, kOneLane)
                                     : encapsulate<Complete>(packet, tables_, routes_[i], sequence, kOneLane);
        count_bytes(sa, esp);
        outbound_[outbound_count_++] = {&packet, &decision, &sa, esp};
    }

    void count_bytes(const Sa& sa, const Esp& esp) const {
        if (sa.counts_bytes)
            std::atomic_ref(tables_.bytes[sa.slot]).fetch_add(esp.text_bytes, std::memory_order_relaxed);
    }

    /// The highest sequence number of an inbound SA.
    uint64_t top_of(const Sa& sa) {
        const WindowLock lock(state_->window_locks[sa.slot]);
        return sequence_in(sa.before, tables_.windows[static_cast<uint64_t>(sa.slot) * kWindowWords]);
    }

    void add_tunnel_job(const Esp& esp, uint32_t sa, uint64_t sequence) {
        const size_t at = tunnel_.count++;
        IMB_JOB& job = tunnel_.jobs[at];
        uint8_t* counter = tunnel_.ivs[at].data();
        if (tunnel_.sas[at] != sa) {
            tunnel_.sas[at] = sa;
            job.enc_keys = crypto_.keys(sa).encrypt;
            job.dec_keys = crypto_.keys(sa).decrypt;
            job.u.HMAC._hashed_auth_key_xor_ipad = crypto_.keys(sa).inner;
            job.u.HMAC._hashed_auth_key_xor_opad = crypto_.keys(sa).outer;
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
                      static_cast<uint32_t>(jobs[i].msg_len_to_cipher_in_bytes), 0},
                  tables_.sas[tunnel_.sas[i]]);
        };
        // A burst that the library refuses is refused as a whole.
        if (IMB_SUBMIT_CIPHER_BURST_NOCHECK(crypto_.manager(), jobs, count, IMB_CIPHER_CNTR, IMB_DIR_ENCRYPT,
                                            IMB_KEY_128_BYTES) != count)
            by_hand([&](const Esp& esp, const Sa& sa) { encrypt<Complete>(esp, sa, tables_.aes(), kOneLane); });
        if (IMB_SUBMIT_HASH_BURST_NOCHECK(crypto_.manager(), jobs, count, IMB_AUTH_HMAC_SHA_1) != count)
            by_hand([&](const Esp& esp, const Sa& sa) { authenticate<Complete>(esp, sa); });
    }

    /// Verifies the ICVs of all that came in, and keeps those that are right. With GCM that decrypts them, too.
    void drop_forged() {
        if (inbound_count_ == 0) return;
        run_hash(inbound_.data(), inbound_count_, tags_.data());
        size_t kept = 0;
        for (size_t i = 0; i < inbound_count_; ++i) {
            Work& work = inbound_[i];
            const bool forged = work.sa->cipher == Cipher::aes_gcm ? !crypto_.open_gcm(work.esp, *work.sa)
                                : work.sa->auth != Auth::none      ? MbCrypto::differs(tags_[i], work.esp, *work.sa)
                                                                   : false;
            if (forged) work.decision->outcome = kBadIcv;
            else inbound_[kept++] = work;
        }
        inbound_count_ = kept;
    }
    /// Hashes every packet of `works` that has an HMAC: into `tags` by its index, or into the packet when null.
    void run_hash(Work* works, size_t count, Tag* tags) {
        for (size_t i = 0; i < count; ++i) {
            if (works[i].sa->auth == Auth::none || !works[i].sa->extended) continue;
            // The half that is not sent is hashed where the ICV lies (see icv_of), which comes back to its place.
            kept_[i] = load_be32(works[i].esp.icv());
            store_be32(works[i].esp.icv(), works[i].esp.high);
        }
        run_hash(works, count, tags, Auth::hmac_sha1_96);
        run_hash(works, count, tags, Auth::hmac_sha256_128);
        for (size_t i = 0; tags != nullptr && i < count; ++i)
            if (works[i].sa->auth != Auth::none && works[i].sa->extended) store_be32(works[i].esp.icv(), kept_[i]);
    }
    void run_hash(Work* works, size_t count, Tag* tags, Auth auth) {
        const IMB_HASH_ALG algorithm = auth == Auth::hmac_sha1_96 ? IMB_AUTH_HMAC_SHA_1 : IMB_AUTH_HMAC_SHA_256;
        size_t jobs = 0;
        for (size_t i = 0; i < count; ++i) {
            const Work& work = works[i];
            if (work.sa->auth != auth) continue;
            IMB_JOB& job = hash_jobs_[jobs++];
            job.hash_alg = algorithm;
            job.src = work.esp.header;
            job.msg_len_to_hash_in_bytes = work.esp.authentic_bytes() + (work.sa->extended ? 4 : 0);
            job.auth_tag_output = tags == nullptr ? work.esp.icv() : tags[i].data();
            job.auth_tag_output_len_in_bytes = work.sa->icv_bytes;
            job.u.HMAC._hashed_auth_key_xor_ipad = keys_of(work).inner;
            job.u.HMAC._hashed_auth_key_xor_opad = keys_of(work).outer;
        }
        if (jobs == 0) return;
        if (IMB_SUBMIT_HASH_BURST_NOCHECK(crypto_.manager(), hash_jobs_.data(), static_cast<uint32_t>(jobs),
                                          algorithm) == jobs)
            return;
        // The library refused the burst as a whole: no packet may leave without its ICV, or pass unverified.
        for (size_t i = 0; i < count; ++i) {
            const Work& work = works[i];
            if (work.sa->auth != auth) continue;
            const Icv icv = icv_of<Complete>(work.esp, *work.sa);
            uint8_t* tag = tags == nullptr ? work.esp.icv() : tags[i].data();
            for_icv_words<Complete>(*work.sa, [&](unsigned j) { store_be32(tag + 4 * j, icv.words[j]); });
        }
    }

    /// Ciphers all packets that use `cipher` with so many rounds in that direction; in counter mode both are one.
    void run_cipher(Cipher cipher, uint32_t rounds, bool encrypting) {
        size_t jobs = 0;
        const auto add = [&](Work* works, size_t count) {
            for (size_t i = 0; i < count; ++i)
                if (works[i].sa->cipher == cipher && works[i].sa->rounds == rounds) ciphered_[jobs++] = &works[i];
        };
        if (encrypting) add(outbound_.data(), outbound_count_);
        if (!encrypting || cipher == Cipher::aes_ctr) add(inbound_.data(), inbound_count_);
        if (jobs == 0) return;
        const IMB_KEY_SIZE_BYTES key_bytes = rounds == crypto::kAes128Rounds ? IMB_KEY_128_BYTES : IMB_KEY_256_BYTES;
        for (size_t i = 0; i < jobs; ++i) {
            cipher_jobs_[i].key_len_in_bytes = key_bytes;
            fill_cipher_job(*ciphered_[i], cipher_jobs_[i], ivs_[i]);
        }
        const IMB_CIPHER_MODE mode = cipher == Cipher::aes_ctr ? IMB_CIPHER_CNTR : IMB_CIPHER_CBC;
        const IMB_CIPHER_DIRECTION direction = encrypting ? IMB_DIR_ENCRYPT : IMB_DIR_DECRYPT;
        if (IMB_SUBMIT_CIPHER_BURST_NOCHECK(crypto_.manager(), cipher_jobs_.data(), static_cast<uint32_t>(jobs), mode,
                                            direction, key_bytes) == jobs)
            return;
        for (size_t i = 0; i < jobs; ++i) {
            if (encrypting) encrypt<Complete>(ciphered_[i]->esp, *ciphered_[i]->sa, tables_.aes(), kOneLane);
            else decrypt<Complete>(ciphered_[i]->esp, *ciphered_[i]->sa, tables_.aes(), kOneLane);
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
        work.decision->outcome = open_inner<Complete>(*work.packet, tables_, *work.sa, work.esp, kOneLane);
        const WindowLock lock(state_->window_locks[work.sa->slot]);
        *work.decision = CompleteIpsec::commit(*work.packet, tables_, *work.decision);
    }

    const Tables& tables_;
    std::shared_ptr<SaState> state_;
    MbCrypto crypto_;
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
    std::array<uint32_t, kBurst> kept_;  // first words of ICVs
};

}  // namespace

std::unique_ptr<CpuHalf> make_ipsec_cpu_half(const Tables& tables, const Options& options,
                                             std::shared_ptr<SaState> state) {
    return std::make_unique<IpsecCpuHalf>(tables, options, std::move(state));
}

}  // namespace millrace::nf::ipsec
