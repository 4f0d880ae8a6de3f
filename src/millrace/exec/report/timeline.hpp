// What became of every batch and when, as a trace for Perfetto and Chrome (`--timeline`).
#pragma once

#include <cstdint>
#include <memory>
#include <mutex>
#include <set>
#include <string>
#include <vector>

#include "millrace/base/files/output_file.hpp"

namespace millrace::exec {

/// A span of time that a batch spent somewhere.
struct TimelineSlice {
    enum class Place : uint8_t {
        worker,   ///< the worker's thread was busy with it
        waiting,  ///< its packets waited; such spans may overlap
        stream,   ///< on a stream of the worker's device
    };
    const std::string* name = nullptr;  ///< of TimelineTrack::name
    const std::string* chain = nullptr;
    Place place = Place::worker;
    uint32_t stream = 0;
    uint32_t packets = 0;
    uint64_t bytes = 0;
    uint64_t batch = 0;                 ///< of the worker, from 1
    uint64_t begin_ns = 0, end_ns = 0;  ///< Timeline::now_ns
};

class Timeline;

/// The latest slices of one worker: when there are more than it has room for, the oldest make way.
class TimelineTrack {
public:
    TimelineTrack(Timeline& timeline, std::string device, size_t most)
        : timeline_(timeline), device_(std::move(device)) {
        slices_.resize(most);
    }
    /// The text as slices have it. Not for every packet.
    const std::string* name(const std::string& text);
    /// On the worker's thread.
    void add(const TimelineSlice& slice) { slices_[added_++ % slices_.size()] = slice; }
    /// Makes the number of a batch.
    uint64_t next_batch() { return ++batches_; }

private:
    friend class Timeline;
    Timeline& timeline_;
    std::string device_;
    std::vector<TimelineSlice> slices_;
    uint64_t added_ = 0, batches_ = 0;
};

/// The text as slices of a track have it; null without a track.
inline const std::string* name_in(TimelineTrack* track, const std::string& text) {
    return track != nullptr ? track->name(text) : nullptr;
}

/// Slices of what a worker's thread does with one batch, one behind the other. Does nothing without a track.
class WorkTrace {
public:
    WorkTrace(TimelineTrack* track, const std::string* chain);
    /// Began where the slice before ended, ends now.
    void step(const std::string* name, size_t packets, uint64_t bytes) {
        if (track_ != nullptr) last_ns_ = add(name, packets, bytes, last_ns_);
    }
    /// Began with the object, ends now.
    void whole(const std::string* name, size_t packets, uint64_t bytes) {
        if (track_ != nullptr) add(name, packets, bytes, begin_ns_);
    }

private:
    uint64_t add(const std::string* name, size_t packets, uint64_t bytes, uint64_t begin_ns);
    TimelineTrack* const track_;
    const std::string* const chain_;
    uint64_t batch_ = 0, begin_ns_ = 0, last_ns_ = 0;
};

/// The trace of a run: memory for it is set aside at the start, the file is written at the end and appears when it is
/// whole.
class Timeline {
public:
    /// `most`: slices that are kept of each worker. Throws std::runtime_error when the file can't be made.
    explicit Timeline(const std::string& file, size_t most = size_t{1} << 17);

    Timeline(const Timeline&) = delete;
    Timeline& operator=(const Timeline&) = delete;

    /// The host's steady clock.
    static uint64_t now_ns();
    /// A worker's track, to be made in the workers' order; `device` is what runs its chains.
    TimelineTrack& add_track(const std::string& device);
    /// Writes the file, in the JSON of the Trace Event Format: workers and devices as processes, threads and streams as
    /// threads, and under `otherData` how many of the oldest slices were left out. After the workers have ended. Throws
    /// std::runtime_error when it can't.
    void write();

private:
    friend class TimelineTrack;
    WholeFile file_;
    const size_t most_;
    const uint64_t origin_ns_;
    std::vector<std::unique_ptr<TimelineTrack>> tracks_;
    std::mutex mutex_;  // of the names
    std::set<std::string> names_;
};

}  // namespace millrace::exec
