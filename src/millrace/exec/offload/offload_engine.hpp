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

#include "millrace/device/order_gate.hpp"
#include "millrace/exec/offload/call_thread.hpp"
#include "millrace/exec/transfer/cost_model.hpp"
#include "millrace/exec/cpu/cpu_engine.hpp"
#include "millrace/exec/offload/frame_region.hpp"
#include "millrace/exec/hybrid/placement.hpp"

namespace millrace::exec {

struct OffloadOptions {
    unsigned depth = 4;                     ///< batches in flight
    size_t batch_bytes = size_t{16} << 20;  ///< most packet-buffer bytes of one batch
    device::Mode mode = device::Mode::fused;
    TransferIn transfer_in = TransferIn::automatic;
    TransferOut transfer_out = TransferOut::automatic;
    bool whole_frames = false;                       ///< move every byte both ways, whatever the plan says
    std::shared_ptr<const TransferFigures> figures;  ///< what the automatic ways are chosen by; null:
                                                     ///< built_in_figures()
    unsigned workers = 1;                            ///< that share the device, this one among them
    bool graphs = false;             ///< one graph tells the device of a batch, and not a call for each copy and kernel
    TimelineTrack* track = nullptr;  ///< what happens when is told there; null: nowhere
    std::shared_ptr<device::OrderGate> gate;  ///< of all devices that run these chains; null: there is one
    size_t full_burst = SIZE_MAX;          ///< so many packets submitted at once say that more are there to be received
    std::shared_ptr<Placement> placement;  ///< of chains that the CPU shares with the device; null: all packets go
                                           ///< there
    bool pinned = false;                   ///< all receive buffers are known to the device (Device::pin)
    bool runs = false;                     ///< frames may come side by side; then `frames` takes them
    FrameDelivery* frames = nullptr;
    bool calls_by_thread = false;  ///< one thread for each device makes the calls of its driver for all workers
    std::shared_ptr<CallThread> call_thread;                     ///< that one; null: the worker makes its own
    std::chrono::nanoseconds patience{std::chrono::seconds(5)};  ///< a batch that takes longer means that the device is
                                                                 ///< gone
};

/// The ring of packet memory that all chains of a worker share on a device (Gaviss, section 4.1):
/// one tail; what lies between the oldest batch in flight and the tail is in use. The paper sizes it
/// S = T · max(L) · α; T · L is what is in flight, at most `depth` batches, and α covers the turn-over.
class PacketRing {
public:
    explicit PacketRing(size_t bytes) : bytes_(bytes) {}
    static constexpr size_t kNoRoom = SIZE_MAX;
    /// `bytes` in one piece; its offset, or kNoRoom while batches in flight are in the way.
    size_t take(size_t bytes);
    /// Gives back the oldest piece.
    void give_back();
    size_t size() const { return bytes_; }

private:
    size_t bytes_;
    size_t tail_ = 0;
    std::deque<std::pair<size_t, size_t>> taken_;
};

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
    /// What the engine runs of a program; for those who load it ahead.
    static std::vector<device::Step> steps_of(const chain::Program& program, const OffloadOptions& options);
    /// Whether the device has failed and the CPU has taken over.
    bool failed_over() const { return failed_; }

private:
    struct Queue;  // packets of one chain that wait for a batch: with mbufs, or of runs
    struct Slot;   // buffers of one batch, on both sides

    Queue& queue_for(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, bool of_runs);
    void prepare(Queue& queue);
    /// What pieces of the packet ring have room for besides frames and what all batches have.
    struct RingNeeds {
        size_t state_bytes = 0;  // of the NFs
        unsigned emitters = 1;   // NFs of a chain that emit events
        unsigned keepers = 0;    // those of them whose packets others have changed
    };
    void allocate_ring(const RingNeeds& needs);
    bool batch_is_due(const Queue& queue, uint64_t now) const;
    bool start_batch(Queue& queue);
    void push_on(Queue& queue);
    bool run_here(Queue& queue);
    device::Status bring_states(Queue& queue, device::StreamId stream);
    bool lay_out(const Queue& queue, Slot& slot);
    class Layout;
    Layout lay_out_buffers(const Queue& queue, Slot& slot, Layout layout) const;
    Layout lay_out_runs(const Queue& queue, Slot& slot, Layout layout) const;
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
    bool restore_states(const Slot& slot);
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
    void decide_here(const Slot& slot, const io::FrameRun& run, uint32_t index);
    void tell_events(const Slot& slot);
    void tell_visits(const Slot& slot);
    void name_slices();
    void begin_trace(const Queue& queue, Slot& slot, uint64_t put_from_ns);
    void mark(Slot& slot, const std::string* name, uint64_t bytes = 0);
    void trace(const Slot& slot, uint64_t applied_from_ns);
    FrameRegion* lend_region(Slot& slot);
    static Fate fate_of(const Slot& slot, const device::PacketResult& result);
    template <Return way>
    void apply(Slot& slot, size_t first, size_t count);
    void count(const Slot& slot);
    static void count_bytes(Slot& slot);
    void fail_over(device::Status status);
    void run_on_cpu(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                    std::span<rte_mbuf* const> mbufs);
    void run_on_cpu(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters,
                    const io::FrameRun& run);
    size_t copy_frames(const io::FrameRun& run, ChainCounters& counters, rte_mbuf** copies);

    std::shared_ptr<device::Device> device_;
    Delivery& delivery_;
    const OffloadOptions options_;
    const std::shared_ptr<device::OrderGate> gate_;
    std::optional<Placement::Member> member_;
    const uint32_t max_batch_;
    CpuEngine cpu_;
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
    std::vector<std::unique_ptr<Queue>> queues_;
    size_t in_flight_ = 0;
    uint64_t away_ = 0;                     // TSC cycles that a batch takes from here until it is back, smoothed
    std::atomic<bool> failed_{false};       // read by reports, too
    std::optional<CallThread::Lane> lane_;  // of options_.call_thread
    std::vector<Fate> fates_;
    static constexpr uint32_t kFramesAtOnce = 256;
    std::array<io::FramePieces, kFramesAtOnce> pieces_;  // of frames on their way out
    std::vector<Visit> visits_;
    std::vector<uint32_t> retries_;
    std::vector<std::pair<uint64_t, size_t>> here_;  // bursts of packets that the CPU runs
    struct Names {
        const std::string *waiting, *put, *in, *order, *away, *again, *back, *rest, *resident, *applied;
    } names_{};  // for the timeline
};

}  // namespace millrace::exec
