#include "isolation/device_halves.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <filesystem>

#include "lab/nf/nf_runner.hpp"
#include "millrace/device/cuda/nf_source.hpp"
#include "millrace/isolation/rewrite.hpp"
#include "millrace/nf/variant.hpp"
#include "support/data.hpp"
#include "support/packet_arena.hpp"

namespace millrace::test {

namespace cuda = device::cuda;

namespace {

constexpr uint32_t kRoom = 128;
constexpr uint64_t kPacketAt = kTestWindow + 0x100, kFrameAt = kTestWindow + 0x10000, kTablesAt = kTestWindow + 0x100000;

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

DeviceHalf::DeviceHalf(const std::string& type, const std::string& options)
    : type_(nf::find_type(type)), window_(kTestWindow, isolation::RewriteOptions().guard_bytes) {
    const nf::Environment environment{
        .node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = lab::kTestPorts};
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
    tables_ = free_ = kTablesAt;
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

HalfResult DeviceHalf::run(const isolation::ptx::Module& module, const Frame& frame, uint64_t& steps) {
    const uint64_t data_at = kFrameAt + kRoom;
    uint8_t* const data = window_.at(kFrameAt, frame.size() + 2 * kRoom).data() + kRoom;
    std::memset(data - kRoom, 0xa5, frame.size() + 2 * kRoom);
    std::memcpy(data, frame.data(), frame.size());
    const auto length = static_cast<uint32_t>(frame.size());
    Packet packet;
    packet.attach(data, length, length, kRoom, kRoom);
    packet.set_index(0);
    packet.parse();
    HalfResult made;
    made.parsed = packet.layers().malformed == Malformed::no;
    // The handle begins with the address of the frame.
    static_assert(std::is_standard_layout_v<Packet>);
    uint8_t* const handle = window_.at(kPacketAt, sizeof packet).data();
    std::memcpy(handle, static_cast<const void*>(&packet), sizeof packet);
    std::memcpy(handle, &data_at, sizeof data_at);

    ptx_machine::MachineOptions options;
    options.shared_bytes = type_->block_bytes;
    ptx_machine::Machine machine(module, window_, options);
    machine.shared() = block_memory_;
    const auto call = [&](const char* what, std::vector<uint64_t> arguments) {
        const auto outcome = machine.run(cuda::function_name(*type_, 1, what), arguments);
        EXPECT_TRUE(outcome.harmless()) << outcome.violation.what;
        steps += outcome.steps;
        Decision decision;
        if (outcome.result.size() == sizeof decision) std::memcpy(&decision, outcome.result.data(), sizeof decision);
        return decision;
    };
    if (made.parsed) made.decision = call("process", {kPacketAt, tables_});
    if (made.parsed && type_->finishes) {
        uint64_t decision = 0;
        std::memcpy(&decision, &made.decision, sizeof decision);
        made.decision = call("finish", {kPacketAt, tables_, decision});
    }
    std::memcpy(static_cast<void*>(&packet), handle, sizeof packet);
    uint64_t begin = 0;
    std::memcpy(&begin, handle, sizeof begin);
    const auto bytes = window_.at(begin, packet.present());
    made.frame.assign(bytes.begin(), bytes.end());
    made.out_port = packet.out_port();
    return made;
}

}  // namespace millrace::test
