// A network function in a tenant's process: its host half, and its work on the packets that a manager asks about.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/exec/cpu/teller.hpp"
#include "millrace/tenancy/gpu/half.hpp"
#include "millrace/tenancy/member/member.hpp"

namespace millrace::tenancy {

class FunctionHost {
public:
    /// Makes the function. Throws ConfigError as it does, or std::runtime_error where no tenant can have it.
    FunctionHost(const nf::Type& kind, const Config& options, const std::string& name,
                 const std::string& output_folder);
    ~FunctionHost();

    /// Takes a manager's terms. Throws std::runtime_error where the function reads, changes or says what it may not.
    void agree(const Terms& terms);
    /// Runs the function over a batch, or the stage that it is asked for, and writes the answer. Behind `agree`. Throws
    /// std::runtime_error where the manager asks for what can't be, or the function does what no tenant's may.
    void answer(const Member::Batch& batch);
    // --- its device half, for the manager's GPU ---
    /// Behind `agree`. Throws std::runtime_error with why there is none that could be sent.
    void check_device_half() const;
    /// PTX of it, by NVRTC. Throws device::cuda::CompileError. Any thread.
    std::string compile_half(const std::string& architecture) const;
    /// All of it. Behind check_device_half.
    DeviceHalf device_half(std::string ptx) const;

    /// Writes out what is held back.
    void finish();

    const nf::NetworkFunction& function() const { return *node().nf; }
    const nf::CpuStages& stages() const { return stages_; }
    const exec::NodeCounters& counters() const { return *counters_->nodes.front(); }
    uint64_t batches() const { return counters_->batches.get(); }

private:
    const chain::Node& node() const { return program_->nodes.front(); }
    void check(const Member::Batch& batch) const;
    void lay_out(const Member::Batch& batch);
    void run_before();
    void run_half();
    void run_after();
    void write_decisions(const Member::Batch& batch);
    void listen_to_events();
    void tell();

    std::shared_ptr<chain::Program> program_;  // of this function alone
    std::unique_ptr<exec::ChainCounters> counters_;
    std::unique_ptr<nf::CpuHalf> half_;  // null: the device half runs
    nf::CpuStages stages_;
    nf::BeforeDevice* before_ = nullptr;
    nf::AfterDevice* after_ = nullptr;
    std::unique_ptr<exec::Teller> teller_;
    Fields sees_, changes_;
    std::vector<uint32_t> outcomes_;  // the manager's, by the function's

    std::vector<uint8_t> frames_;
    std::vector<About> about_;
    std::vector<Packet> packets_;
    std::vector<Packet*> pointers_;
    std::vector<uint32_t> arguments_;
    std::vector<Decision> decisions_;
    std::vector<exec::Verdict> verdicts_;
    std::vector<Event> events_;
    std::vector<LeftEvents> left_;
    EventBuffer buffer_;
    uint64_t seen_ = 0;  // packets before this batch
};

}  // namespace millrace::tenancy
