// The same on a GPU: hostile functions leave everything else alone and give what the interpreter says, and our own
// device halves give what g++'s code gives. For machines with a GPU (MILLRACE_TEST_DEVICES=cuda).
#include <dlfcn.h>
#include <gtest/gtest.h>

#include <algorithm>
#include <cstring>
#include <map>

#include "isolation/device_halves.hpp"
#include "isolation/hostile_corpus.hpp"
#include "millrace/device/cuda/driver.hpp"
#include "millrace/isolation/ptx/reader.hpp"
#include "millrace/isolation/ptx/writer.hpp"
#include "millrace/isolation/rewrite.hpp"
#include "support/devices.hpp"

namespace millrace::isolation {
namespace {

using device::cuda::DevicePointer;
using device::cuda::Driver;
using test::ptx_machine::Machine;
using test::ptx_machine::MachineOptions;
using test::ptx_machine::Outcome;
using test::ptx_machine::Window;

constexpr uint64_t kGuard = 2u << 20;
constexpr uint64_t kBeside = 64u << 20;  ///< bytes behind each guard that are looked at

/// Memory of a GPU with a window in its middle; what lies beside it is somebody else's.
class GpuWindow {
public:
    GpuWindow() : driver_(Driver::get()) {
        expect(driver_->init(0));
        device::cuda::DeviceOrdinal gpu = 0;
        expect(driver_->device_get(&gpu, 0));
        device::cuda::Context context = nullptr;
        expect(driver_->context_retain(&context, gpu));
        expect(driver_->context_set(context));
        expect(driver_->device_attribute(&major_, 75, gpu));
        expect(driver_->device_attribute(&minor_, 76, gpu));
        // 4 GiB and what is looked at on both sides, wherever the memory begins.
        expect(driver_->allocate(&memory_, 2 * kWindowBytes + 2 * (kGuard + kBeside)));
        begin_ = (memory_ + kGuard + kBeside + kWindowBytes - 1) / kWindowBytes * kWindowBytes;
        expect(driver_->allocate(&out_, 64));
        fill_beside();
    }
    ~GpuWindow() {
        driver_->free(out_);
        driver_->free(memory_);
    }
    GpuWindow(const GpuWindow&) = delete;
    GpuWindow& operator=(const GpuWindow&) = delete;

    uint64_t begin() const { return begin_; }
    std::string architecture() const { return "sm_" + std::to_string(major_ * 10 + minor_); }
    void clear() { expect(driver_->clear(begin_ - kGuard, 0, kWindowBytes + 2 * kGuard)); }
    void put(uint64_t offset, std::span<const uint8_t> bytes) {
        expect(driver_->copy_to_device(begin_ + offset, bytes.data(), bytes.size()));
    }
    std::vector<uint8_t> get(DevicePointer from, size_t bytes) {
        std::vector<uint8_t> made(bytes);
        expect(driver_->copy_to_host_async(made.data(), from, bytes, nullptr));
        expect(driver_->stream_synchronize(nullptr));
        return made;
    }
    /// Whether the neighbours' bytes are as they were.
    bool neighbours_intact() {
        for (const DevicePointer from : {begin_ - kGuard - kBeside, begin_ + kWindowBytes + kGuard}) {
            const std::vector<uint8_t> bytes = get(from, kBeside);
            if (!std::ranges::all_of(bytes, [](uint8_t byte) { return byte == kTheirs; })) return false;
        }
        return true;
    }
    /// Loads a module and runs its `kernel`. What the first eight bytes of the result are.
    uint64_t run(const std::string& cubin, unsigned blocks, unsigned threads, unsigned shared, uint64_t packet,
                 uint64_t tables) {
        device::cuda::Module module = nullptr;
        device::cuda::Function function = nullptr;
        expect(driver_->module_load(&module, cubin.data()));
        expect(driver_->module_function(&function, module, "kernel"));
        void* parameters[] = {&packet, &tables, &out_};
        expect(driver_->launch(function, blocks, 1, 1, threads, 1, 1, shared, nullptr, parameters, nullptr));
        expect(driver_->stream_synchronize(nullptr));
        expect(driver_->module_unload(module));
        uint64_t given = 0;
        std::memcpy(&given, get(out_, 8).data(), 8);
        return given;
    }

private:
    static constexpr uint8_t kTheirs = 0x5a;
    void expect(device::cuda::Result result) const {
        ASSERT_EQ(result, device::cuda::kSuccess) << driver_->text(result);
    }
    void fill_beside() {
        expect(driver_->clear(begin_ - kGuard - kBeside, kTheirs, kBeside));
        expect(driver_->clear(begin_ + kWindowBytes + kGuard, kTheirs, kBeside));
    }

    const Driver* driver_;
    DevicePointer memory_ = 0, begin_ = 0, out_ = 0;
    int major_ = 0, minor_ = 0;
};

class OnAGpu : public testing::TestWithParam<Isolation> {
protected:
    void SetUp() override {
        MILLRACE_NEEDS_DEVICE("cuda");
        void* const driver = dlopen("libcuda.so.1", RTLD_NOW);
        if (driver != nullptr && dlsym(driver, "emulator_inject") != nullptr)
            GTEST_SKIP() << "an emulated GPU interprets PTX, slowly";
        const auto [compiler, why] = test::isolation_compiler();
        if (compiler == nullptr) GTEST_SKIP() << why;
        compiler_ = compiler;
        gpu_ = std::make_unique<GpuWindow>();
    }

    std::string fenced(const ptx::Module& module, const Verdict& verdict, uint32_t shared,
                       uint32_t budget = RewriteOptions().budget) const {
        RewriteOptions options;
        options.isolation = GetParam();
        options.window = gpu_->begin();
        options.budget = budget;
        options.shared_bytes = shared;
        return ptx::write(rewrite(module, verdict, options).module);
    }

    const device::cuda::Compiler* compiler_ = nullptr;
    std::unique_ptr<GpuWindow> gpu_;
};

TEST_P(OnAGpu, HostileFunctionsLeaveOthersAloneAndDoWhatTheInterpreterSays) {
    constexpr size_t kCompared = 64u << 10;
    constexpr uint32_t kBudget = 500;
    Window window(gpu_->begin(), kGuard);
    size_t ran = 0;
    for (const test::HostileCase& one : test::hostile_cases()) {
        if (!one.refused.empty()) continue;
        SCOPED_TRACE(one.name);
        Bounds bounds;
        bounds.shared_bytes = one.shared_bytes;
        const ptx::Module module = ptx::read(one.text, one.name);
        const std::string text = fenced(module, verify(module, bounds), one.shared_bytes, kBudget);
        ptx::Limits limits;
        limits.reserved_names = true;
        window.clear();
        MachineOptions options;
        options.shared_bytes = one.shared_bytes;
        options.threads = 1;
        const uint64_t packet = gpu_->begin() + 0x1000, tables = packet + 0x1000;
        const ptx::Module again = ptx::read(text, one.name, limits);
        Machine machine(again, window, options);
        const Outcome expected = machine.run("hostile", {packet, tables});
        const std::string cubin = compiler_->assemble(test::with_kernel(text, "hostile"), gpu_->architecture());
        gpu_->clear();
        const uint64_t given = gpu_->run(cubin, 1, 1, one.shared_bytes, packet, tables);
        uint64_t wanted = 0;
        std::memcpy(&wanted, expected.result.data(), std::min<size_t>(8, expected.result.size()));
        EXPECT_EQ(given, wanted);
        const std::vector<uint8_t> bytes = gpu_->get(gpu_->begin(), kCompared);
        // What an atomic operation on old bytes of the block's memory gives, is the GPU's own.
        if (one.shared_bytes == 0 && !one.at_own_addresses) {
            EXPECT_EQ(std::memcmp(bytes.data(), window.at(gpu_->begin(), kCompared).data(), kCompared), 0);
        }
        gpu_->run(cubin, 4, 256, one.shared_bytes, packet, tables);
        ++ran;
    }
    EXPECT_TRUE(gpu_->neighbours_intact());
    EXPECT_GT(ran, 200u);
}

TEST_P(OnAGpu, DeviceHalvesGiveWhatTheHostGives) {
    for (const test::HalfCase& one : test::half_cases()) {
        test::DeviceHalf half(one.type, one.options, gpu_->begin());
        // Its tables in the block's memory are filled by a function that a kernel of the chain calls.
        if (half.type().block_bytes > 0) continue;
        SCOPED_TRACE(one.name);
        const ptx::Module module = ptx::read(half.ptx(), "half.ptx");
        const Verdict verdict = verify(module);
        ASSERT_TRUE(verdict.sound());
        std::map<std::string, std::string> cubins;
        gpu_->clear();
        gpu_->put(0, half.memory());
        const auto call = [&](const std::string& function, const std::vector<uint64_t>& arguments) {
            std::string& cubin = cubins[function];
            if (cubin.empty())
                cubin = compiler_->assemble(test::with_kernel(fenced(module, verdict, 0), function),
                                            gpu_->architecture());
            gpu_->put(0, half.memory().first(test::DeviceHalf::kPacketBytes));
            const uint64_t given = gpu_->run(cubin, 1, 1, 0, arguments.at(0), arguments.at(1));
            const std::vector<uint8_t> back = gpu_->get(gpu_->begin(), test::DeviceHalf::kPacketBytes);
            std::ranges::copy(back, half.memory().begin());
            Decision decision;
            std::memcpy(static_cast<void*>(&decision), &given, sizeof decision);
            return decision;
        };
        test::Rng rng(21);
        test::RandomOptions random;
        random.max_payload = 300;
        for (const test::Frame& frame : test::random_packets(rng, 100, random)) {
            ASSERT_EQ(half.run_by(frame, call), half.run_host(frame));
        }
    }
    EXPECT_TRUE(gpu_->neighbours_intact());
}

INSTANTIATE_TEST_SUITE_P(Kinds, OnAGpu, testing::Values(Isolation::fenced, Isolation::checked),
                         [](const auto& info) { return info.param == Isolation::fenced ? "Fenced" : "Checked"; });

}  // namespace
}  // namespace millrace::isolation
