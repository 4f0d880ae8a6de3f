// The same work as the chain's, written as one loop around the libraries, with nothing in between.
#pragma once

#include <rte_acl.h>
#include <rte_fib.h>
#include <rte_mbuf.h>

// Behind DPDK's headers, which define the same macro.
#include <intel-ipsec-mb.h>

#include <memory>
#include <vector>

#include "millrace/io/memory/pool.hpp"
#include "millrace/nf/nids/pattern/cpu/matcher.hpp"
#include "lab/workload.hpp"

namespace millrace::lab {

/// Cycles (TSC) of the stages of the bare loop, over all packets that came to each.
struct Stage {
    uint64_t packets = 0, cycles = 0;
};
enum StageIndex { kReceive, kFirewall, kNids, kRouter, kIpsec, kSend, kStages };

/// What many loops may look things up in at once.
struct BareTables {
    explicit BareTables(const Workload& workload);
    ~BareTables();
    BareTables(const BareTables&) = delete;
    BareTables& operator=(const BareTables&) = delete;

    struct Route {
        uint8_t macs[12];
    };
    rte_acl_ctx* acl = nullptr;
    rte_fib* fib = nullptr;
    std::vector<Route> routes;
    std::shared_ptr<const nf::nids::pattern::PatternSet> patterns;
    std::vector<bool> pattern_drops;

private:
    void build_acl(const Workload& workload);
    void build_fib(const Workload& workload);
    void add_route(const Prefix& prefix, uint64_t next_hop);
};

/// Receives from templates in memory, batch by batch, and sends to nowhere. Knows of packets only what this
/// traffic needs: whatever is not plain IPv4 with TCP or UDP and without options it drops.
class BareLoop {
public:
    static constexpr unsigned kBatch = 256;

    /// `keep`: how many sent frames stay for comparison. `traffic` is of one loop of `loops`, which share its flows.
    BareLoop(const Workload& workload, std::shared_ptr<const BareTables> tables, const Traffic& traffic, size_t keep,
             unsigned loop = 0, unsigned loops = 1);
    ~BareLoop();

    /// One batch; returns the packets that came in.
    size_t iterate();

    uint64_t received() const { return stages_[kReceive].packets; }
    uint64_t sent() const { return stages_[kSend].packets; }
    const Stage* stages() const { return stages_; }
    struct Frame {
        uint64_t number;
        std::vector<uint8_t> bytes;
    };
    const std::vector<Frame>& kept() const { return kept_; }

private:
    struct alignas(64) CryptoKeys {
        alignas(16) uint8_t encrypt[16 * 15];
        alignas(16) uint8_t decrypt[16 * 15];
        alignas(16) uint8_t inner[20], outer[20];
    };
    void build_crypto(const Workload& workload);
    void receive();
    void firewall();
    void nids();
    void router();
    void ipsec();
    void encapsulate(rte_mbuf* mbuf, unsigned index);
    void send();
    void drop(unsigned i) { dropped_[dropped_count_++] = mbufs_[i]; }
    void mark(StageIndex stage, size_t packets);

    io::PacketPool pool_;
    io::TrafficFrames frames_;
    size_t next_frame_ = 0;
    uint64_t number_ = 0;
    rte_mbuf* mbufs_[kBatch];  // those still under way, in order
    unsigned count_ = 0;
    rte_mbuf* dropped_[kBatch];
    unsigned dropped_count_ = 0;

    std::shared_ptr<const BareTables> tables_;
    std::unique_ptr<nf::nids::pattern::Matcher> matcher_;
    nf::nids::pattern::PatternHits hits_;
    nf::nids::pattern::Payload payloads_[kBatch];
    IMB_MGR* crypto_ = nullptr;
    std::unique_ptr<CryptoKeys> keys_;
    alignas(64) uint8_t outer_[36];  // IPv4 and ESP header and IV of every packet, but for what changes
    uint64_t sequence_ = 0;
    IMB_JOB cipher_jobs_[kBatch], hash_jobs_[kBatch];
    alignas(64) uint8_t counters_[kBatch][16];

    Stage stages_[kStages];
    uint64_t last_mark_ = 0;
    uint64_t sent_bytes_ = 0;
    size_t keep_;
    std::vector<Frame> kept_;
};

}  // namespace millrace::lab
