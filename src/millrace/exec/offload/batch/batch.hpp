// A batch: packets of one chain that cross to a device together.
#pragma once

#include <atomic>
#include <memory>
#include <utility>
#include <vector>

#include "millrace/exec/offload/batch/batch_buffers.hpp"
#include "millrace/exec/offload/batch/batch_input.hpp"
#include "millrace/exec/offload/batch/batch_results.hpp"

namespace millrace::exec {

/// What is noted by who makes the driver's calls for a batch.
struct BatchRecord {
    device::Status status = device::Status::ok;
    device::EventId done = 0;
    uint64_t number = 0;                       ///< on the resident kernel's list
    uint64_t submit_begin = 0, submitted = 0;  ///< when its submission began, and when the device had it (TSC)
    uint64_t calls = 0;                        ///< TSC cycles that the driver was told of it, both parts
    uint64_t bytes_in = 0, bytes_back = 0;     ///< that cross the bus
    uint64_t order = 0;                        ///< among the device's ordered batches, from 1; 0: not ordered
    uint64_t submitted_ns = 0;                 ///< for the timeline, as `submitted`
    std::vector<device::CopyPiece> pieces;     ///< what comes back; copies may read this until they are done
    /// For the timeline: what the stream has been given to do, up to when.
    struct Mark {
        const std::string* name;
        device::EventId event;
        uint64_t bytes;
    };
    std::vector<Mark> marks;

    /// For the next batch.
    void clear() {
        std::vector<device::CopyPiece> old_pieces = std::move(pieces);
        std::vector<Mark> old_marks = std::move(marks);
        old_pieces.clear();
        old_marks.clear();
        *this = {.pieces = std::move(old_pieces), .marks = std::move(old_marks)};
    }
};

class Batch;

/// What of a batch the driver is told of.
enum class BatchPart : uint8_t {
    all,
    unordered,  ///< all up to its first kernel that has an order
    ordered,    ///< from there on, once the rest is done
};

/// All of a batch that may be touched by who makes the driver's calls for it: the worker, or a CallThread. It reads
/// what is laid out, and writes down what it has done.
class BatchSubmission {
public:
    const BatchInput& input() const { return input_; }
    const BatchBuffers& buffers() const { return buffers_; }
    device::StreamId stream() const { return stream_; }
    BatchPart part() const { return part_; }
    BatchRecord& record() { return record_; }
    /// It has been submitted, or that failed: the batch is the worker's again.
    inline void submitted(device::Status status);

private:
    friend class Batch;
    BatchSubmission(Batch& batch, const BatchInput& input, const BatchBuffers& buffers)
        : batch_(batch), input_(input), buffers_(buffers) {}
    Batch& batch_;
    const BatchInput& input_;
    const BatchBuffers& buffers_;
    device::StreamId stream_ = 0;
    BatchPart part_ = BatchPart::all;
    BatchRecord record_;
};

/// It owns its buffers and is in one state; each of its parts has one writer in each of them.
class Batch {
public:
    enum class State : uint8_t {
        idle,       ///< empty, or the worker writes its input
        laid_out,   ///< of who makes the calls: its input does not change any more
        half,       ///< of the device but for what has an order; or of the worker, if that failed
        submitted,  ///< of the device; or of the worker, if that failed (record().status)
        rest,       ///< back but for what could only be asked for when the results were here
        back,       ///< of the worker, all of it
    };

    /// Room for `max_packets` and as many bytes of frames. Throws device::DeviceError.
    Batch(std::shared_ptr<device::Device> device, uint32_t max_packets, size_t max_bytes, bool wants_visits);
    Batch(const Batch&) = delete;
    Batch& operator=(const Batch&) = delete;

    BatchBuffers& buffers() { return buffers_; }
    const BatchBuffers& buffers() const { return buffers_; }
    const BatchInput& input() const { return input_; }
    const BatchRecord& record() const { return submission_.record_; }
    device::StreamId stream() const { return submission_.stream_; }
    BatchPart part() const { return submission_.part_; }

    State state() const { return state_.load(std::memory_order_acquire); }
    /// An idle batch is to take packets of that chain: its input, to be written until it is laid out.
    BatchInput& begin(std::shared_ptr<const LoadedChain> chain);
    /// It has this piece of the packet ring, and this stream until it ends.
    void place(device::Address piece, device::StreamId stream) {
        input_.address = piece;
        submission_.stream_ = stream;
    }
    /// Its input is whole, or the device is done with the part before this one: what the driver is to be told of.
    BatchSubmission& lay_down(BatchPart part);
    /// Once it has been submitted and the results are here: what the driver is to be told to bring the rest.
    BatchSubmission& ask_for_rest();
    /// All of it is back.
    void arrive() { state_.store(State::back, std::memory_order_relaxed); }
    /// Its packets have gone, or never came: it is idle.
    void end();

    /// Once it has been submitted: adds the bytes that cross the bus for it to the chain's, those since it was last
    /// asked.
    void count_bytes();
    /// Once they are here.
    BatchResults results() const { return {buffers_, input_.piece}; }

private:
    friend class BatchSubmission;
    std::atomic<State> state_{State::idle};
    BatchBuffers buffers_;
    BatchInput input_;
    BatchSubmission submission_;
};

inline void BatchSubmission::submitted(device::Status status) {
    record_.status = status;
    batch_.state_.store(part_ == BatchPart::unordered ? Batch::State::half : Batch::State::submitted,
                        std::memory_order_release);
}

}  // namespace millrace::exec
