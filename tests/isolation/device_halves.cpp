#include "isolation/device_halves.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "millrace/nftest/nf_runner.hpp"
#include "millrace/device/cuda/compile/nf_source.hpp"
#include "millrace/isolation/rewrite.hpp"
#include "millrace/nf/variant.hpp"
#include "support/data.hpp"
#include "support/packet_arena.hpp"

namespace millrace::test {

namespace cuda = device::cuda;

namespace {

constexpr uint32_t kRoom = 128;
constexpr uint64_t kPacketAt = 0x100, kFrameAt = 0x10000;  // in the window

uint64_t aligned(uint64_t value) { return (value + 255) & ~uint64_t{255}; }

}  // namespace

std::pair<cuda::Compiler*, std::string> isolation_compiler() {
    static std::string why;
    static const std::unique_ptr<cuda::Compiler> compiler = []() -> std::unique_ptr<cuda::Compiler> {
        // Wheels are looked for below the working directory.
        std::filesystem::current_path(source_path(""));
        try {
            return std::make_unique<cuda::Compiler>();
        } catch (const cuda::CompileError& e) {
            why = e.what();
            return nullptr;
        }
    }();
    return {compiler.get(), why};
}

const std::vector<HalfCase>& half_cases() {
    static const std::vector<HalfCase> kCases = {
        {"Mirror", "mirror", "{}"},
        {"Router", "router",
         "{next-hops: {a: {port: port1, mac: '02:00:00:00:01:01', src-mac: '02:00:00:00:01:00'}, b: {port: port2, mac: "
         "'02:00:00:00:02:01', src-mac: '02:00:00:00:02:00'}}, routes: [{prefix: 0.0.0.0/0, via: a}, {prefix: "
         "10.0.0.0/9, "
         "via: b}, {prefix: 128.0.0.0/1, via: b}, {prefix: '::/0', via: a}, {prefix: '8000::/1', via: b}]}"},
        {"Firewall", "firewall",
         "{rules: ['deny tcp from any port 0-9999 to any', 'permit udp from 0.0.0.0/1 to any', 'deny udp from any to "
         "any "
         "port 1000-40000', 'permit tcp from any to 128.0.0.0/2'], default: deny}"},
        {"Crc", "crc", "{mode: set, polynomial: ethernet}"},
        {"CrcOfIscsi", "crc", "{mode: set, polynomial: castagnoli}"},
        {"Switch", "switch",
         "{flows: ['priority=9,tcp,tp_dst=80,actions=output:2', "
         "'priority=5,ip,nw_src=128.0.0.0/1,actions=dec_ttl,output:3', "
         "'priority=4,udp,actions=mod_tp_dst:53,output:1', 'actions=output:4']}"},
    };
    return kCases;
}

DeviceHalf::DeviceHalf(const std::string& type, const std::string& options, uint64_t window)
    : type_(nf::find_type(type)), window_(window, isolation::RewriteOptions().guard_bytes), begin_(window) {
    const nf::Environment environment{
        .node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = nftest::kTestPorts};
    nf_ = type_->create(Config::parse(options), environment);
    type_ = &nf::type_of(*type_, *nf_);
    place_tables();
}

DeviceHalf::~DeviceHalf() = default;

std::string DeviceHalf::ptx() const {
    return isolation_compiler().first->compile_ptx(cuda::nf_unit(*type_, 1), "sm_90");
}

void DeviceHalf::place_tables() {
    const nf::Image& image = nf_->image();
    std::vector<void*> addresses;
    tables_ = free_ = begin_ + kPacketBytes;
    free_ = aligned(free_ + image.tables_bytes());
    for (const nf::Image::Array& array : image.arrays()) {
        std::memcpy(window_.at(free_, array.bytes).data(), array.data, array.bytes);
        addresses.push_back(reinterpret_cast<void*>(free_));
        free_ = aligned(free_ + array.bytes);
    }
    const auto tables = image.relocated(addresses);
    if (!tables.empty()) std::memcpy(window_.at(tables_, tables.size()).data(), tables.data(), tables.size());
}

/// By one thread, as if it were all of a block.
void DeviceHalf::stage(const isolation::ptx::Module& bare) {
    if (type_->block_bytes == 0) return;
    ptx_machine::MachineOptions options;
    options.shared_bytes = type_->block_bytes;
    options.threads = 1;
    ptx_machine::Machine machine(bare, window_, options);
    const auto outcome = machine.run(cuda::function_name(*type_, 1, "stage"), {tables_, ptx_machine::kGenericShared});
    EXPECT_TRUE(outcome.harmless()) << outcome.violation.what;
    block_memory_ = machine.shared();
}

HalfResult DeviceHalf::run_host(const Frame& frame) const {
    PacketArena arena(kRoom, kRoom);
    Packet& packet = arena.add(frame);
    HalfResult made;
    made.parsed = packet.layers().malformed == Malformed::no;
    if (made.parsed) made.decision = type_->process_with(1)(packet, nf_->image().tables());
    made.frame = arena.bytes(0);
    made.out_port = packet.out_port();
    return made;
}

HalfResult DeviceHalf::run_by(const Frame& frame, const Call& call, const Layers* layers) {
    const uint64_t data_at = begin_ + kFrameAt + kRoom;
    uint8_t* const data = window_.at(begin_ + kFrameAt, frame.size() + 2 * kRoom).data() + kRoom;
    std::memset(data - kRoom, 0xa5, frame.size() + 2 * kRoom);
    std::memcpy(data, frame.data(), frame.size());
    const auto length = static_cast<uint32_t>(frame.size());
    Packet packet;
    packet.attach(data, length, length, kRoom, kRoom);
    packet.set_index(0);
    if (layers != nullptr) packet.set_layers(*layers);
    else packet.parse();
    HalfResult made;
    made.parsed = packet.layers().malformed == Malformed::no;
    // The handle begins with the address of the frame.
    static_assert(std::is_standard_layout_v<Packet>);
    uint8_t* const handle = window_.at(begin_ + kPacketAt, sizeof packet).data();
    std::memcpy(handle, static_cast<const void*>(&packet), sizeof packet);
    std::memcpy(handle, &data_at, sizeof data_at);
    if (made.parsed) {
        made.decision = call(cuda::function_name(*type_, 1, "process"), {begin_ + kPacketAt, tables_});
        if (type_->finishes) {
            uint64_t decision = 0;
            std::memcpy(&decision, &made.decision, sizeof decision);
            made.decision = call(cuda::function_name(*type_, 1, "finish"), {begin_ + kPacketAt, tables_, decision});
        }
    }
    std::memcpy(static_cast<void*>(&packet), handle, sizeof packet);
    uint64_t begin = 0;
    std::memcpy(&begin, handle, sizeof begin);
    const auto bytes = window_.at(begin, packet.present());
    made.frame.assign(bytes.begin(), bytes.end());
    made.out_port = packet.out_port();
    return made;
}

HalfResult DeviceHalf::run(const isolation::ptx::Module& module, const Frame& frame, uint64_t& steps,
                           const Layers* layers) {
    ptx_machine::MachineOptions options;
    options.shared_bytes = type_->block_bytes;
    ptx_machine::Machine machine(module, window_, options);
    machine.shared() = block_memory_;
    return run_by(
        frame,
        [&](const std::string& function, const std::vector<uint64_t>& arguments) {
            const auto outcome = machine.run(function, arguments);
            EXPECT_TRUE(outcome.harmless()) << outcome.violation.what;
            steps += outcome.steps;
            Decision decision;
            if (outcome.result.size() == sizeof decision)
                std::memcpy(&decision, outcome.result.data(), sizeof decision);
            return decision;
        },
        layers);
}

}  // namespace millrace::test
