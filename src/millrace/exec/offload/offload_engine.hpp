// Chains on a device with memory of its own: batches, transfers by the field plan, several in flight.
//
// A packet waits in its chain's queue until a batch takes it (the adaptive batcher), crosses into
// the shared packet buffer, goes through the program's steps, and comes back in its batch's turn.
// Receive buffers stay as they were until their batch has come back whole: if the device fails, its
// batches run again on the CPU and nothing is lost. What comes back lies in pinned memory of its own,
// and the packets' mbufs are pointed there: the CPU touches no frame.
#pragma once

#include <rte_cycles.h>

#include <array>
#include <atomic>
#include <deque>
#include <optional>
#include <vector>

#include "millrace/exec/offload/chain_queue.hpp"
#include "millrace/exec/offload/cpu_path.hpp"
#include "millrace/exec/offload/frame_layout.hpp"
#include "millrace/exec/offload/frame_region.hpp"
#include "millrace/exec/offload/loaded_chain.hpp"
#include "millrace/exec/offload/offload_options.hpp"
#include "millrace/exec/offload/ordered_state.hpp"
#include "millrace/exec/offload/packet_ring.hpp"

namespace millrace::exec {

class OffloadEngine : public Engine {
public:
    /// `max_batch` is the largest of all chains that will run. Throws device::DeviceError when the
    /// device lacks memory.
    OffloadEngine(std::shared_ptr<device::Device> device, Delivery& delivery, uint32_t max_batch,
                  OffloadOptions options = {});
    ~OffloadEngine() override;

    void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                size_t count) override;
    bool takes_runs() const override { return options_.runs && options_.pinned && !failed_; }
    void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                const io::FrameRun& run) override;
    void poll() override;
    size_t in_flight() const override { return in_flight_; }
    void drain() override;
    std::string describe() const override;
    /// Whether the device has failed and the CPU has taken over.
    bool failed_over() const { return failed_; }

private:
    struct Slot;  // buffers of one batch, on both sides

    ChainQueue& queue_for(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, bool of_runs);
    void prepare(ChainQueue& queue, const std::shared_ptr<const chain::Program>& program, ChainCounters& counters);
    void allocate_ring(const RingNeeds& needs);
    bool batch_is_due(const ChainQueue& queue, uint64_t now) const;
    bool start_batch(ChainQueue& queue);
    void push_on(ChainQueue& queue);
    bool run_here(ChainQueue& queue);
    bool lay_out(const ChainQueue& queue, Slot& slot);
    FrameLayout lay_out_buffers(const ChainQueue& queue, Slot& slot, FramePlacer placer) const;
    FrameLayout lay_out_runs(const ChainQueue& queue, Slot& slot, FramePlacer placer) const;
    void write_input(Slot& slot);
    void put(Slot& slot);
    device::Status put_on_stream(Slot& slot);
    device::Status send(Slot& slot);
    device::Status send_frames(Slot& slot);
    device::Status send_rows(Slot& slot);
    device::Status send_packed(Slot& slot);
    device::Status send_landings(Slot& slot);
    void list_sources(Slot& slot, device::Address piece);
    void choose_transfer(Slot& slot) const;
    void pack_frames(Slot& slot);
    TransferIn resident_transfer(TransferIn chosen, bool of_runs) const;
    device::Status put_on_list(Slot& slot);
    void stop_residents();
    device::Status run_steps(Slot& slot, std::unique_lock<std::mutex>& in_order);
    device::Status cross(Slot& slot);
    void list_back(const Slot& slot, std::vector<device::CopyPiece>& pieces) const;
    device::Status fetch(Slot& slot);
    device::Status fetch_rest(Slot& slot);
    bool finish_front();
    bool too_late(uint64_t since) const {
        return to_nanoseconds(rte_rdtsc() - since) > static_cast<uint64_t>(options_.patience.count());
    }
    void complete(Slot& slot);
    /// How frames that have come back become their packets' own.
    enum class Return {
        lent,     ///< mbufs point into the region
        home,     ///< copied into the receive buffers
        heads,    ///< only heads came, and are copied there
        nothing,  ///< nothing came
    };
    void pass_on(Slot& slot, size_t first, size_t count, Return way);
    void pass_on_frames(Slot& slot);
    void pass_on_frames(Slot& slot, size_t first, const io::FrameRun& run, uint32_t from, uint32_t count);
    void tell_events(const Slot& slot);
    void tell_visits(const Slot& slot);
    void name_slices();
    void begin_trace(const ChainQueue& queue, Slot& slot, uint64_t put_from_ns);
    void mark(Slot& slot, const std::string* name, uint64_t bytes = 0);
    void trace(const Slot& slot, uint64_t applied_from_ns);
    FrameRegion* lend_region(Slot& slot);
    static Fate fate_of(const chain::Program& program, const device::PacketResult& result);
    template <Return way>
    void apply(Slot& slot, size_t first, size_t count);
    void count(const Slot& slot);
    static void count_bytes(Slot& slot);
    void fail_over(device::Status status);

    std::shared_ptr<device::Device> device_;
    Delivery& delivery_;
    const OffloadOptions options_;
    const std::shared_ptr<device::OrderGate> gate_;
    OrderedState states_;
    std::optional<Placement::Member> member_;
    const uint32_t max_batch_;
    CpuPath cpu_;
    PacketRing ring_{0};
    std::shared_ptr<uint64_t> turn_word_;  // where resident kernels keep ordered batches in order
    RingNeeds ring_has_;
    device::Address ring_address_ = 0;
    std::shared_ptr<FrameRegions> regions_;
    std::vector<std::unique_ptr<Slot>> slots_;
    std::deque<Slot*> flying_;   // in order of launch
    uint64_t last_turn_ = 0;     // BatchView::turn of the latest that takes one
    const uint64_t turn_place_;  // among device::Turns::done, this engine's alone
    std::vector<Slot*> idle_;
    std::vector<std::unique_ptr<ChainQueue>> queues_;
    size_t in_flight_ = 0;
    uint64_t away_ = 0;                     // TSC cycles that a batch takes from here until it is back, smoothed
    std::atomic<bool> failed_{false};       // read by reports, too
    std::optional<CallThread::Lane> lane_;  // of options_.call_thread
    std::vector<Fate> fates_;
    static constexpr uint32_t kFramesAtOnce = 256;
    std::array<io::FramePieces, kFramesAtOnce> pieces_;  // of frames on their way out
    std::vector<Visit> visits_;
    std::vector<uint32_t> retries_;
    struct Names {
        const std::string *waiting, *put, *in, *order, *away, *again, *back, *rest, *resident, *applied;
    } names_{};  // for the timeline
};

}  // namespace millrace::exec
