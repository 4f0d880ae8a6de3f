// Any frames through a whole chain: the cpu with CPU halves, the cpu with device halves, and the simulated device (a
// GPU where MILLRACE_TEST_DEVICES names cuda) must decide alike, packet by packet, and leave the same bytes.
//
// Input: a byte that chooses mode, transfers and batches, then frames, each behind its length in two bytes.
#include <rte_mbuf.h>

#include <cstdlib>
#include <cstring>
#include <iostream>
#include <map>
#include <memory>
#include <string>
#include <utility>
#include <vector>

#include "fuzz/entry.hpp"
#include "lab/compared/comparison.hpp"
#include "millrace/chain/frames/whole_frames.hpp"
#include "millrace/base/eal.hpp"
#include "millrace/chain/configuration.hpp"
#include "millrace/device/cuda/cuda_device.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/offload/offload_engine.hpp"
#include "millrace/io/metadata.hpp"
#include "millrace/io/memory/pool.hpp"

namespace chain_fuzz {

using namespace millrace;

constexpr size_t kMaxFrames = 48;
constexpr size_t kMaxBytes = 2000;

// The example's chain with small tables, and IPsec in both directions.
const char* const kChain = R"(version: 1
ports: {lan: {null: {}}, wan: {null: {}}, other: {null: {}}}
chains:
  gateway:
    input: lan
    output: wan
    max-batch: 64
    nfs:
      - firewall:
          default: permit
          rules:
            - deny tcp from 10.0.0.0/8 to any port 22-23
            - permit udp from any port 53 to any
            - deny udp,tcp from 2001:db8::/32 to any port 1000-2000
            - deny ip from 192.0.2.128/25
            - deny tcp from any to any flags SF/SF
      - nids:
          mode: ips
          eve: /dev/null
          rule:
            - 'drop tcp any any -> any any (msg:"a"; content:"evil"; nocase; offset:2; depth:40; sid:1;)'
            - 'alert udp any any -> any 53 (msg:"b"; content:"|00 01|"; content:"|03|"; distance:2; within:20; sid:2;)'
            - 'alert tcp any any -> any 80 (msg:"c"; content:"GET "; pcre:"/id=[0-9]{2,5}(x|yz)+$/"; sid:3;)'
            - 'alert ip any any -> any any (msg:"d"; content:"AAAA"; content:!"BB"; distance:0; sid:4;)'
            - 'alert http any any -> any any (msg:"e"; http.uri; content:"/admin"; sid:5;)'
            - 'alert icmp any any -> any any (msg:"f"; itype:8; dsize:>20; sid:6;)'
            - 'alert udp any any -> any 53 (msg:"g"; dns.query; content:"bad"; sid:7;)'
            - 'alert tcp any any -> any 443 (msg:"h"; tls.sni; content:"example"; sid:8;)'
            - 'alert tcp any any -> any any (msg:"i"; byte_test:2,>,1000,4; content:"len"; sid:9;)'
      - router:
          routes:
            - {prefix: 10.0.0.0/8, via: [one, two]}
            - {prefix: 192.0.2.0/24, via: two}
            - {prefix: 198.51.100.1/32, via: one}
            - {prefix: "2001:db8::/32", via: [one, two]}
            - {prefix: 0.0.0.0/1, via: one}
          local: [192.0.2.1/32]
          next-hops:
            one: {mac: "02:00:00:00:00:01"}
            two: {port: other, mac: "02:00:00:00:00:02", src-mac: "02:00:00:00:00:03"}
        on: {local: next, ttl-expired: punt}
      - ipsec:
          mtu: 1800
          sas:
            - {name: out4, direction: out, spi: 0x1001, local: 192.0.2.1, remote: 198.51.100.1,
              cipher: aes-128-ctr, key: 7e24067817fae0d743d6ce1f32539163, nonce: "006cb6db",
              auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba98}
            - {name: out6, direction: out, spi: 0x1002, local: "2001:db8::1", remote: "2001:db8::2",
              cipher: aes-128-cbc, key: 7e24067817fae0d743d6ce1f32539164,
              auth-key: 1f2e3d4c5b6a79880123456789abcdeffedcba99}
            - {name: in4, direction: in, spi: 0x2001, local: 192.0.2.1, cipher: aes-128-cbc, auth: none,
              replay-window: 0, key: 7e24067817fae0d743d6ce1f32539165}
          policies:
            - {dst: 10.0.0.0/9, action: protect, sa: out4}
            - {dst: "2001:db8::/33", action: protect, sa: out6}
            - {protocol: icmp, action: discard}
          default: bypass
)";

/// What became of each packet, as text: comparing is one operation, and a difference can be shown.
class Record : public exec::Delivery {
public:
    bool wants_visits() const override { return true; }  // for the details of decisions
    explicit Record(const chain::Configuration& configuration) : counters(*configuration.chains[0]) {}
    exec::ChainCounters counters;
    std::vector<std::string> outcomes;

    void deliver(const chain::Program&, exec::ChainCounters&, rte_mbuf* const* mbufs, const exec::Verdict* verdicts,
                 size_t count) override {
        for (size_t i = 0; i < count; ++i) {
            const exec::Verdict& verdict = verdicts[i];
            const bool dropped = verdict.target.kind == Target::Kind::drop;
            std::string text = std::to_string(io::packet_number(mbufs[i])) + ": target " +
                               std::to_string(static_cast<int>(verdict.target.kind)) + " node " +
                               std::to_string(verdict.node) + " outcome " + std::to_string(verdict.decision.outcome) +
                               " detail " + std::to_string(verdict.decision.detail) + " port " +
                               (dropped ? "-" : std::to_string(verdict.out_port)) + " ";
            static const char* const kDigits = "0123456789abcdef";
            const auto* data = rte_pktmbuf_mtod(mbufs[i], const uint8_t*);
            for (size_t k = 0; !dropped && k < mbufs[i]->data_len; ++k) {
                text += kDigits[data[k] >> 4];
                text += kDigits[data[k] & 15];
            }
            outcomes.push_back(std::move(text));
        }
        rte_pktmbuf_free_bulk(const_cast<rte_mbuf**>(mbufs), static_cast<unsigned>(count));
    }
};

struct Frame {
    const uint8_t* data;
    size_t size;
};

std::vector<Frame> split(const uint8_t* data, size_t size) {
    std::vector<Frame> frames;
    while (size >= 2 && frames.size() < kMaxFrames) {
        const size_t bytes = std::min({static_cast<size_t>(data[0] | data[1] << 8), size - 2, kMaxBytes});
        frames.push_back({data + 2, bytes});
        data += 2 + bytes;
        size -= 2 + bytes;
    }
    return frames;
}

io::PacketPool& pool() {
    static io::PacketPool* const instance = [] {
        start_eal();
        io::register_metadata();
        io::PoolOptions options;
        options.packets = 255;
        options.max_frame_bytes = kMaxBytes;
        options.headroom_bytes = 256;
        options.tailroom_bytes = 128;
        return new io::PacketPool("chain_fuzz", options);
    }();
    return *instance;
}

std::vector<std::string> run(exec::Engine& engine, Record& record, const chain::Configuration& configuration,
                             const std::vector<Frame>& frames, size_t burst) {
    const uint64_t before = record.counters.received_packets.get();
    std::vector<rte_mbuf*> mbufs;
    for (size_t i = 0; i < frames.size(); ++i) {
        rte_mbuf* mbuf = nullptr;
        if (!pool().allocate(&mbuf, 1)) std::abort();  // somebody has lost packets
        if (frames[i].size > 0) std::memcpy(rte_pktmbuf_mtod(mbuf, void*), frames[i].data, frames[i].size);
        mbuf->data_len = static_cast<uint16_t>(frames[i].size);
        mbuf->pkt_len = static_cast<uint32_t>(frames[i].size);
        mbuf->port = 0;
        io::set_packet_metadata(mbuf, 1'700'000'000'000'000'000ull, i);
        mbufs.push_back(mbuf);
        if (mbufs.size() < burst && i + 1 < frames.size()) continue;
        engine.submit(configuration.chains[0], record.counters, mbufs.data(), mbufs.size());
        engine.poll();
        mbufs.clear();
    }
    engine.drain();
    if (record.counters.received_packets.get() - before != frames.size() || record.outcomes.size() != frames.size())
        std::abort();
    return std::exchange(record.outcomes, {});
}

chain::Configuration load(const std::string& device, unsigned lanes) {
    chain::LoadOptions options;
    options.device = device;
    options.lanes = lanes;
    options.output_folder = "/tmp";
    return chain::parse_configuration(kChain, "chain_fuzz.yaml", options);
}

void compare(const std::vector<std::string>& expected, const std::vector<std::string>& actual, const char* what) {
    if (expected == actual) return;
    for (size_t i = 0; i < std::max(expected.size(), actual.size()); ++i) {
        const std::string a = i < expected.size() ? expected[i] : "nothing",
                          b = i < actual.size() ? actual[i] : "nothing";
        if (a != b) std::cerr << what << "\n  cpu:   " << a << "\n  there: " << b << "\n";
    }
    std::abort();
}

std::shared_ptr<device::Device> open_device() {
    device::cuda::Driver::expect_residents();
    const char* devices = std::getenv("MILLRACE_TEST_DEVICES");
    if (devices != nullptr && std::strstr(devices, "cuda") != nullptr)
        return std::make_shared<device::cuda::CudaDevice>();
    return std::make_shared<device::sim::SimDevice>();
}

/// What stays from one input to the next, as building tables takes far longer than running a few frames. State
/// (sequence numbers) goes on in all three alike; replay windows, on which an input's verdict would depend, are
/// ipsec_fuzz's.
struct Gateways {
    chain::Configuration cpu = load("cpu", 0), halves = load("cpu", 32), on_device = load("sim", 0),
                         on_device_whole = chain::with_whole_frames(on_device);
    std::shared_ptr<device::Device> device = open_device();
    std::shared_ptr<device::LoadedProgram> loaded = device->load(on_device.chains[0],
                                                                 exec::steps_of(*on_device.chains[0], {}));
    Record cpu_record{cpu}, halves_record{halves}, device_record{on_device}, whole_record{on_device_whole};
    exec::CpuEngine cpu_engine{cpu_record}, halves_engine{halves_record, {.use_cpu_halves = false}};
    std::map<uint8_t, std::unique_ptr<exec::OffloadEngine>> engines;

    static bool whole(uint8_t choice) { return (choice & 128) != 0; }
    exec::OffloadEngine& engine(uint8_t choice) {
        auto& own = engines[choice];
        if (own) return *own;
        exec::OffloadOptions options;
        options.depth = choice & 2 ? 1 : 3;
        options.batch_bytes = size_t{256} << 10;
        options.mode = choice & 8   ? device::Mode::pipelined
                       : choice & 4 ? device::Mode::persistent
                                    : device::Mode::fused;
        const lab::Comparison compared{.no_sharing = (choice & 12) == 12, .selective = (choice & 192) == 192};
        options.transfer_in = exec::kTransfersIn[1 + (choice >> 4 & 3)];
        options.transfer_out = choice & 64 ? exec::TransferOut::zero_copy : exec::TransferOut::region;
        options.pinned = device->pin(pool().memory(), pool().memory_bytes());
        // A machine that is busy with other things is no lost device.
        options.patience = std::chrono::hours(1);
        return *(own = std::make_unique<exec::OffloadEngine>(compared.put_before(device),
                                                             whole(choice) ? whole_record : device_record, 64,
                                                             compared.apply(options, device->model())));
    }
};

MILLRACE_FUZZER(chain)(const uint8_t* data, size_t size) {
    if (size < 1) return 0;
    pool();
    static Gateways& gateways = *new Gateways;
    const uint8_t choice = data[0];
    const std::vector<Frame> frames = split(data + 1, size - 1);
    const size_t burst = choice & 1 ? 7 : kMaxFrames;
    const std::vector<std::string> expected = run(gateways.cpu_engine, gateways.cpu_record, gateways.cpu, frames,
                                                  burst);
    compare(expected, run(gateways.halves_engine, gateways.halves_record, gateways.halves, frames, burst),
            "device halves on the cpu");
    exec::OffloadEngine& engine = gateways.engine(choice & (choice & 8 ? 0xfe : 0xfa));
    if (Gateways::whole(choice))
        compare(expected, run(engine, gateways.whole_record, gateways.on_device_whole, frames, burst),
                "the device, whole frames");
    else compare(expected, run(engine, gateways.device_record, gateways.on_device, frames, burst), "the device");
    if (engine.failed_over()) std::abort();
    return 0;
}

}  // namespace chain_fuzz
