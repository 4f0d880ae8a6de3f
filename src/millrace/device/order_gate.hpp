// The order of packets over batches, workers and devices.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <vector>

#include "millrace/base/spin_lock.hpp"
#include "millrace/device/device.hpp"

namespace millrace::device {

/// A state in host memory that kernels reach, where each batch leaves it for the next one.
class SharedState {
public:
    /// Begins as the host's copy is, all of it: a later generation may change more of it than this one.
    SharedState(std::shared_ptr<Device> device, const StateArray& state);
    ~SharedState();
    SharedState(const SharedState&) = delete;
    SharedState& operator=(const SharedState&) = delete;
    uint32_t* words() const { return static_cast<uint32_t*>(memory_); }

private:
    friend struct OrderGate;
    const std::shared_ptr<Device> device_;
    const std::weak_ptr<const void> owner_;
    void* const memory_;
};

/// Which of the batches that change an NF's state was the last to be launched. All chains that have the NF, of all
/// workers and generations, have the same one.
class StateSequence {
public:
    explicit StateSequence(uint32_t place) : place_(place), latest_{place} {}
    /// The one before, now that batch `number` follows. With OrderGate::launching held.
    SequencePoint follow(uint64_t number) {
        const SequencePoint before = latest_;
        latest_.word = number << SequencePoint::kPlaceBits | place_;
        return before;
    }
    uint32_t place() const { return place_; }

private:
    const uint32_t place_;
    SequencePoint latest_;
};

/// Keeps the ordered steps of all batches in one order, whichever worker's and device's they are: two of
/// them must not number packets or commit at once, and the host's copy of state must never fall back
/// behind what a packet that has left was numbered by. Locked once or twice a batch, and only by ordered chains.
///
/// Several devices that run the same chains have one gate. State then goes from batch to batch through host memory: the
/// ordered steps begin with taking what the batch before has left there, and end with leaving it for the next. When one
/// of the devices fails, batches of the others may build upon what it can't bring back any more: all ordered chains go
/// over to the CPU, from the host's copy.
///
/// The batches of a single device have numbers, in the order in which they are launched. Their kernels wait for it, by
/// the state of each NF (BatchView::after): the driver is asked for nothing but those kernels. Between devices each
/// batch waits for the event of the one before.
struct OrderGate {
    SpinLock mutex;
    /// Held while the kernels of a batch are launched, from the first that has an order to the last. So kernels wait
    /// only for what has been launched before them, all of it: whatever stands in front of that in a queue of the GPU
    /// waits for nothing behind it. A device takes it around calls by which its driver waits for all kernels to end and
    /// launches no others meanwhile. Before the mutex.
    SpinLock launching;
    Device* last_device = nullptr;
    EventId last = 0;                    ///< behind the ordered steps of the latest batch; 0: none
    uint64_t batches = 0;                ///< that have passed
    uint64_t resident_sequences = 0;     ///< of those, that resident kernels keep in order by themselves
    std::atomic<bool> broken{false};     ///< a device has failed; written under the mutex
    std::atomic<unsigned> restoring{0};  ///< workers that make what came with a batch the host's
    /// By host copy of a state and bytes from its start: the batch that they are of. Generations with more
    /// state and with less may be in flight together.
    std::map<const void*, std::map<uint64_t, uint64_t>> restored;

    /// What a device has of a state that the CPU has had.
    struct Brought {
        uint64_t hand_over = 0;           ///< from the CPU, that it was there by (exec::Placement)
        uint64_t bytes = 0;               ///< from its start
        std::weak_ptr<const void> owner;  ///< of the host's copy
        bool has_returned = false;        ///< to the CPU since, of a state that does not come back with batches
    };
    /// By device (null: where devices share their states) and host copy.
    std::map<std::pair<const Device*, const void*>, Brought> brought;

    /// What keeps the batches that change these arrays in sequence, one NF's, as long as somebody has it. Throws
    /// DeviceError when there are too many, or the arrays were of several NFs. Takes the mutex.
    std::shared_ptr<StateSequence> sequence_of(const nf::Image& image);

    /// Where devices leave this state for each other; the same for all of them, as long as the state lives. Takes the
    /// mutex.
    uint32_t* share(const std::shared_ptr<Device>& device, const StateArray& state);
    /// Where resident kernels leave the last sequence number that is done: a word of host memory that kernels of all
    /// devices reach, for as long as somebody has it. Takes the mutex.
    std::shared_ptr<uint64_t> sequence_word(const std::shared_ptr<Device>& device);

private:
    struct OfState {
        std::weak_ptr<const void> owner;
        std::weak_ptr<StateSequence> sequence;
        bool gone() const { return owner.expired() || sequence.expired(); }
    };
    std::map<const void*, OfState> sequences_;         // by the host's copy of an array
    std::vector<std::weak_ptr<StateSequence>> taken_;  // by place
    std::weak_ptr<uint64_t> sequence_word_;
    std::map<const void*, std::unique_ptr<SharedState>> shared_;  // by host copy
};

}  // namespace millrace::device
