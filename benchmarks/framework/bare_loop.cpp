#include "bare_loop.hpp"

#include <rte_cycles.h>

#include <algorithm>
#include <cstring>
#include <stdexcept>

#include "millrace/io/metadata.hpp"
#include "millrace/packet/bytes.hpp"
#include "millrace/packet/checksum.hpp"

namespace millrace::lab {
namespace {

constexpr unsigned kAhead = 6;
constexpr uint32_t kIpAt = 14, kL4At = 34;
constexpr uint32_t kIcvBytes = 12;
constexpr uint64_t kLocalOrNone = 0;

io::PoolOptions pool_options() {
    io::PoolOptions options;
    options.packets = 1024;
    options.max_frame_bytes = 1600;
    return options;
}

}  // namespace

BareLoop::BareLoop(const Workload& workload, std::shared_ptr<const BareTables> tables, const Traffic& traffic,
                   size_t keep, unsigned loop, unsigned loops)
    : pool_("bare", pool_options()), frames_(frames_of(workload, traffic, loop, loops)), tables_(std::move(tables)),
      matcher_(make_matcher(tables_->patterns, nf::nids::pattern::Engine::automatic)), keep_(keep) {
    hits_.reserve(kBatch, workload.patterns.size());
    build_crypto(workload);
}

BareLoop::~BareLoop() { free_mb_mgr(crypto_); }

void BareLoop::mark(StageIndex stage, size_t packets) {
    const uint64_t now = rte_rdtsc();
    stages_[stage].cycles += now - last_mark_;
    stages_[stage].packets += packets;
    last_mark_ = now;
}

size_t BareLoop::iterate() {
    last_mark_ = rte_rdtsc();
    dropped_count_ = 0;
    receive();
    const size_t received = count_ + dropped_count_;
    mark(kReceive, received);
    size_t in = count_;
    firewall();
    mark(kFirewall, in);
    in = count_;
    nids();
    mark(kNids, in);
    in = count_;
    router();
    mark(kRouter, in);
    in = count_;
    ipsec();
    mark(kIpsec, in);
    in = count_;
    send();
    mark(kSend, in);
    return received;
}

void BareLoop::receive() {
    rte_mbuf* fresh[kBatch];
    if (!pool_.allocate_raw(fresh, kBatch)) throw std::runtime_error("the pool is empty");
    const uint8_t* stream = frames_.stream.data();
    constexpr uint32_t kHead = io::FrameTemplate::kHeadBytes;
    count_ = 0;
    for (unsigned i = 0; i < kBatch; ++i) {
        if (i + kAhead < kBatch) {
            __builtin_prefetch(fresh[i + kAhead], 1);
            __builtin_prefetch(reinterpret_cast<uint8_t*>(fresh[i + kAhead] + 1) + 128, 1);
        }
        const io::FrameTemplate& frame = frames_.templates[next_frame_];
        if (++next_frame_ == frames_.templates.size()) next_frame_ = 0;
        rte_mbuf* mbuf = fresh[i];
        mbuf->data_off = 128;
        mbuf->pkt_len = frame.length;
        mbuf->data_len = static_cast<uint16_t>(frame.length);
        uint8_t* data = reinterpret_cast<uint8_t*>(mbuf + 1) + 128;
        std::memcpy(data, frame.head, kHead);
        if (frame.length > kHead) std::memcpy(data + kHead, stream + frame.payload_at, frame.length - kHead);
        if (keep_ > 0) io::set_packet_metadata(mbuf, 0, ++number_);
        // The parser: IPv4 without options, whole, not a fragment, TCP or UDP.
        const uint8_t* ip = data + kIpAt;
        const uint32_t total = load_be16(ip + 2);
        const bool plain = load_be16(data + 12) == 0x0800 && ip[0] == 0x45 && total >= 40 &&
                           kIpAt + total <= frame.length && (load_be16(ip + 6) & 0x3fff) == 0 &&
                           (ip[9] == 6 || ip[9] == 17);
        mbufs_[count_] = mbuf;
        if (plain) ++count_;
        else drop(count_);
    }
}

void BareLoop::firewall() {
    const uint8_t* keys[kBatch];
    uint32_t results[kBatch];
    // The classifier reads the headers where they lie.
    for (unsigned i = 0; i < count_; ++i) keys[i] = rte_pktmbuf_mtod(mbufs_[i], const uint8_t*) + kIpAt;
    rte_acl_classify(tables_->acl, keys, results, count_, 1);
    unsigned kept = 0;
    for (unsigned i = 0; i < count_; ++i) {
        if (results[i] == 2) drop(i);
        else mbufs_[kept++] = mbufs_[i];
    }
    count_ = kept;
}

void BareLoop::nids() {
    for (unsigned i = 0; i < count_; ++i) {
        const uint8_t* data = rte_pktmbuf_mtod(mbufs_[i], const uint8_t*);
        const uint32_t end = kIpAt + load_be16(data + kIpAt + 2);
        const uint32_t header = data[kIpAt + 9] == 6 ? (data[kL4At + 12] >> 4) * 4u : 8u;
        const uint32_t at = std::min(kL4At + header, end);
        payloads_[i] = {data + at, end - at};
    }
    matcher_->scan(std::span(payloads_, count_), hits_);
    if (hits_.empty()) return;
    unsigned kept = 0;
    for (unsigned i = 0; i < count_; ++i) {
        bool drops = false, passes = false;
        for (const uint32_t pattern : hits_[i]) (tables_->pattern_drops[pattern] ? drops : passes) = true;
        if (drops && !passes) drop(i);
        else mbufs_[kept++] = mbufs_[i];
    }
    count_ = kept;
}

void BareLoop::router() {
    uint32_t addresses[kBatch];
    uint64_t next_hops[kBatch];
    unsigned kept = 0;
    for (unsigned i = 0; i < count_; ++i) {
        const uint8_t* ip = rte_pktmbuf_mtod(mbufs_[i], const uint8_t*) + kIpAt;
        const uint8_t src = ip[12], dst = ip[16];
        const bool martian = src == 0 || src == 127 || src >= 224 || dst == 0 || dst == 127 || dst >= 224 ||
                             load_be16(ip + 12) == 0xa9fe || load_be16(ip + 16) == 0xa9fe;
        if (!is_plain_ipv4_sum_right(ip) || martian || ip[8] <= 1) {
            drop(i);
            continue;
        }
        addresses[kept] = load_be32(ip + 16);
        mbufs_[kept++] = mbufs_[i];
    }
    rte_fib_lookup_bulk(tables_->fib, addresses, next_hops, static_cast<int>(kept));
    count_ = 0;
    for (unsigned i = 0; i < kept; ++i) {
        if (next_hops[i] == kLocalOrNone) {
            drop(i);
            continue;
        }
        uint8_t* data = rte_pktmbuf_mtod(mbufs_[i], uint8_t*);
        std::memcpy(data, tables_->routes[next_hops[i] - 1].macs, 12);
        uint8_t* ip = data + kIpAt;
        const uint16_t before = load_be16(ip + 8);
        const uint16_t after = static_cast<uint16_t>(before - 0x100);
        store_be16(ip + 8, after);
        store_be16(ip + 10, checksum_update(load_be16(ip + 10), before, after));
        mbufs_[count_++] = mbufs_[i];
    }
}

/// RFC 4303, with AES in counter mode (RFC 3686) and HMAC-SHA1-96 (RFC 2404), in a tunnel over IPv4.
void BareLoop::encapsulate(rte_mbuf* mbuf, unsigned index) {
    uint8_t* inner = rte_pktmbuf_mtod(mbuf, uint8_t*);
    const uint32_t inner_bytes = load_be16(inner + kIpAt + 2);
    const uint32_t padding = (0u - (inner_bytes + 2)) & 3;
    const uint32_t text_bytes = inner_bytes + padding + 2;
    const uint32_t outer_bytes = static_cast<uint32_t>(sizeof outer_) + text_bytes + kIcvBytes;
    uint8_t* data = inner - sizeof outer_;
    std::memmove(data, inner, kIpAt);
    uint8_t* ip = data + kIpAt;
    const uint8_t* inner_ip = inner + kIpAt;
    const uint8_t traffic_class = inner_ip[1];
    const uint8_t dont_fragment = inner_ip[6] & 0x40;
    const uint64_t sequence = ++sequence_;
    std::memcpy(ip, outer_, sizeof outer_);
    ip[1] = traffic_class;
    store_be16(ip + 2, static_cast<uint16_t>(outer_bytes));
    store_be16(ip + 4, static_cast<uint16_t>(sequence));
    ip[6] = dont_fragment;
    store_be16(ip + 10, checksum(ip, 20));
    store_be32(ip + 24, static_cast<uint32_t>(sequence));
    store_be64(ip + 28, sequence);
    uint8_t* text = ip + sizeof outer_;
    uint8_t* trailer = text + inner_bytes;
    for (uint32_t i = 0; i < padding; ++i) *trailer++ = static_cast<uint8_t>(i + 1);
    trailer[0] = static_cast<uint8_t>(padding);
    trailer[1] = 4;
    mbuf->data_off = static_cast<uint16_t>(mbuf->data_off - sizeof outer_);
    mbuf->data_len = static_cast<uint16_t>(kIpAt + outer_bytes);
    mbuf->pkt_len = mbuf->data_len;

    store_be64(counters_[index] + 4, sequence);
    IMB_JOB& cipher = cipher_jobs_[index];
    cipher.src = text;
    cipher.dst = text;
    cipher.msg_len_to_cipher_in_bytes = text_bytes;
    IMB_JOB& hash = hash_jobs_[index];
    hash.src = ip + 20;
    hash.msg_len_to_hash_in_bytes = 16 + text_bytes;
    hash.auth_tag_output = text + text_bytes;
}

void BareLoop::ipsec() {
    for (unsigned i = 0; i < count_; ++i) encapsulate(mbufs_[i], i);
    for (unsigned at = 0; at < count_; at += IMB_MAX_BURST_SIZE) {
        const uint32_t n = std::min<uint32_t>(IMB_MAX_BURST_SIZE, count_ - at);
        if (IMB_SUBMIT_CIPHER_BURST_NOCHECK(crypto_, cipher_jobs_ + at, n, IMB_CIPHER_CNTR, IMB_DIR_ENCRYPT,
                                            IMB_KEY_128_BYTES) != n ||
            IMB_SUBMIT_HASH_BURST_NOCHECK(crypto_, hash_jobs_ + at, n, IMB_AUTH_HMAC_SHA_1) != n)
            throw std::runtime_error("intel-ipsec-mb refuses a burst");
    }
}

void BareLoop::send() {
    for (unsigned i = 0; i < count_; ++i) sent_bytes_ += mbufs_[i]->pkt_len;
    if (kept_.size() < keep_) {
        for (unsigned i = 0; i < count_ && kept_.size() < keep_; ++i) {
            const uint8_t* data = rte_pktmbuf_mtod(mbufs_[i], const uint8_t*);
            kept_.push_back({io::packet_number(mbufs_[i]), {data, data + mbufs_[i]->data_len}});
        }
        if (kept_.size() == keep_) keep_ = 0;  // from here on no numbers are needed
    }
    rte_pktmbuf_free_bulk(mbufs_, count_);
    rte_pktmbuf_free_bulk(dropped_, dropped_count_);
}

}  // namespace millrace::lab
