// Device halves as PTX: compiled by NVRTC, with their tables and packets in a window.
#pragma once

#include <functional>
#include <memory>
#include <span>
#include <string>
#include <vector>

#include "isolation/interpreter/machine.hpp"
#include "millrace/device/cuda/compile/compiler.hpp"
#include "millrace/nf/nf.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {

/// One compiler for all tests; null, and why, without NVRTC.
std::pair<device::cuda::Compiler*, std::string> isolation_compiler();

inline constexpr uint64_t kTestWindow = uint64_t{0x7000} << 32;

/// A network function and its options.
struct HalfCase {
    const char* name;
    const char* type;
    const char* options;
};
/// Those whose device halves the verifier takes.
const std::vector<HalfCase>& half_cases();

/// What a device half made of a packet.
struct HalfResult {
    Frame frame;
    Decision decision;
    uint16_t out_port = 0;
    bool parsed = false;  ///< an executor would have handed it over
    friend bool operator==(const HalfResult&, const HalfResult&) = default;
};

/// A network function with its tables in a window.
class DeviceHalf {
public:
    /// Throws as the NF and the compiler do.
    explicit DeviceHalf(const std::string& type, const std::string& options, uint64_t window = kTestWindow);
    ~DeviceHalf();
    DeviceHalf(const DeviceHalf&) = delete;
    DeviceHalf& operator=(const DeviceHalf&) = delete;

    const nf::Type& type() const { return *type_; }
    /// Its device half as PTX, with one lane a packet.
    std::string ptx() const;
    /// Fills the block's memory by the function that does it, as it was compiled: before the first run.
    void stage(const isolation::ptx::Module& bare);
    /// By what g++ made of the device half.
    HalfResult run_host(const Frame& frame) const;
    /// Calls a function of the device half, with addresses of the window; returns what it does.
    using Call = std::function<Decision(const std::string& function, const std::vector<uint64_t>& arguments)>;
    /// By whatever `call` calls. `layers`: what the frame's headers are said to be; null: they are parsed.
    HalfResult run_by(const Frame& frame, const Call& call, const Layers* layers = nullptr);
    /// The window, here, and how much of it tables and packet take up; the packet's part comes first.
    std::span<uint8_t> memory() { return window_.at(begin_, free_ - begin_); }
    static constexpr uint64_t kPacketBytes = 0x100000;
    /// By the interpreter; expects that it is harmless. `steps` counts instructions.
    HalfResult run(const isolation::ptx::Module& module, const Frame& frame, uint64_t& steps,
                   const Layers* layers = nullptr);

private:
    void place_tables();

    const nf::Type* type_;
    std::unique_ptr<nf::NetworkFunction> nf_;
    ptx_machine::Window window_;
    uint64_t begin_, tables_ = 0, free_ = 0;
    std::vector<uint8_t> block_memory_;
};

}  // namespace millrace::test
