// A batch: its memory goes back whatever happens, and one part of it after the other is whose turn it is.
#include <gtest/gtest.h>

#include <thread>
#include <type_traits>

#include "millrace/device/sim/sim_device.hpp"
#include "millrace/exec/offload/batch/batch_pool.hpp"
#include "support/engine_runner.hpp"

namespace millrace::exec {
namespace {

/// Says how much memory is out, and has none for one of those who ask.
class ScantDevice : public device::sim::SimDevice {
public:
    explicit ScantDevice(size_t refused) : refused_(refused) {}
    device::Address allocate(size_t bytes, const std::string& what) override {
        ask();
        ++out_;
        return SimDevice::allocate(bytes, what);
    }
    void free(device::Address address) override {
        --out_;
        SimDevice::free(address);
    }
    void* allocate_host(size_t bytes) override {
        ask();
        ++out_;
        return SimDevice::allocate_host(bytes);
    }
    void free_host(void* memory) override {
        --out_;
        SimDevice::free_host(memory);
    }
    size_t out() const { return out_; }
    size_t asked() const { return asked_; }

private:
    void ask() {
        if (asked_++ == refused_) throw device::DeviceError("no memory is left");
    }
    const size_t refused_;
    size_t asked_ = 0, out_ = 0;
};

/// Makes one with enough memory, and then without the first piece, the second, and so on: all of the others go back.
template <class Make>
void expect_no_leak(const Make& make, size_t pieces) {
    {
        const auto device = std::make_shared<ScantDevice>(SIZE_MAX);
        make(device);
        EXPECT_EQ(device->asked(), pieces);
        EXPECT_EQ(device->out(), 0u);
    }
    for (size_t refused = 0; refused < pieces; ++refused) {
        const auto device = std::make_shared<ScantDevice>(refused);
        EXPECT_THROW(make(device), device::DeviceError);
        EXPECT_EQ(device->asked(), refused + 1);
        EXPECT_EQ(device->out(), 0u) << "without piece " << refused;
    }
}

TEST(Batches, LeaveNoMemoryBehindWhenThereIsNotEnough) {
    expect_no_leak([](const std::shared_ptr<ScantDevice>& device) { const Batch batch(device, 64, 4096, true); }, 6);
    expect_no_leak([](const std::shared_ptr<ScantDevice>& device) { std::make_shared<ResultBuffers>(device, 3, 4096); },
                   3);
    OffloadOptions options;
    options.depth = 2;
    options.batch_bytes = 4096;
    const RingNeeds needs{.state_bytes = 1 << 20, .emitters = 2, .keepers = 1, .work = {.in_parts = true}};
    // Of a batch 4, of the ring 1 and 6 regions; then what needs more, with 3 more for each batch.
    expect_no_leak(
        [&](const std::shared_ptr<ScantDevice>& device) {
            BatchPool pool(device, options, 64, false);
            pool.fit(needs);
        },
        2 * 4 + 1 + 6 + 2 * 1 + 1 + 6 + 2 * 3);
}

TEST(Batches, AreOfOneAfterTheOther) {
    const auto device = std::make_shared<device::sim::SimDevice>();
    const auto configuration = test::make_configuration("[mirror]", "sim");
    ChainCounters counters(*configuration.chains[0]);
    const auto chain = std::make_shared<const LoadedChain>(configuration.chains[0], counters, device,
                                                           *device->order_gate(), OffloadOptions{});
    Batch batch(device, 64, 4096, false);
    for (int round = 0; round < 2; ++round) {
        EXPECT_EQ(batch.state(), Batch::State::idle);
        BatchInput& input = batch.begin(chain);
        EXPECT_EQ(batch.record().bytes_in, 0u) << "what was noted of the batch before";
        EXPECT_EQ(batch.record().order, 0u);
        EXPECT_TRUE(batch.record().marks.empty());
        input.frames.count = 7;
        BatchSubmission& submission = batch.lay_down(BatchPart::all);
        EXPECT_EQ(batch.state(), Batch::State::laid_out);
        static_assert(std::is_same_v<decltype(submission.input()), const BatchInput&>, "who submits writes no input");
        std::thread other([&submission] {
            submission.record().bytes_in += submission.input().frames.count;
            submission.record().bytes_back = 5;
            submission.record().order = 3;
            submission.record().marks.push_back({});
            submission.submitted(device::Status::lost);
        });
        while (batch.state() != Batch::State::submitted) std::this_thread::yield();
        EXPECT_EQ(batch.record().status, device::Status::lost) << "seen with the state";
        batch.count_bytes();
        batch.count_bytes();
        EXPECT_EQ(counters.bytes_to_device.get(), 7u * (round + 1)) << "once";
        other.join();
        batch.ask_for_rest().record().bytes_back = 4;
        EXPECT_EQ(batch.state(), Batch::State::rest);
        batch.count_bytes();
        EXPECT_EQ(counters.bytes_to_host.get(), 9u * (round + 1));
        batch.arrive();
        EXPECT_EQ(batch.state(), Batch::State::back);
        batch.end();
        EXPECT_EQ(batch.input().chain, nullptr) << "a chain that nobody needs goes";
    }
    EXPECT_EQ(chain.use_count(), 1);
}

TEST(Batches, KeepTheMemoryOfTheirListsFromOneToTheNext) {
    const auto device = std::make_shared<device::sim::SimDevice>();
    Batch batch(device, 64, 4096, false);
    batch.begin(nullptr);
    BatchRecord& record = batch.lay_down(BatchPart::all).record();
    record.pieces.resize(64);
    const void* const pieces = record.pieces.data();
    batch.end();
    batch.begin(nullptr);
    EXPECT_TRUE(record.pieces.empty());
    EXPECT_EQ(record.pieces.data(), pieces);
    EXPECT_GE(record.pieces.capacity(), 64u);
}

}  // namespace
}  // namespace millrace::exec
