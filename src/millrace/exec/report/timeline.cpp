#include "millrace/exec/report/timeline.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <chrono>
#include <map>
#include <nlohmann/json.hpp>

namespace millrace::exec {
namespace {

constexpr unsigned kWorkers = 1;  // the process whose threads the workers are; devices follow

/// Writes events one behind the other; they can be too many for a document in memory.
class Writer {
public:
    Writer(std::ostream& out, uint64_t origin_ns) : out_(out), origin_ns_(origin_ns) {
        out_ << "{\"displayTimeUnit\":\"ns\",\"traceEvents\":[";
    }

    void name_of(const char* what, unsigned process, uint64_t thread, const std::string& name) {
        begin(fmt::format(R"({{"ph":"M","name":"{}","pid":{},"tid":{},"args":{{"name":{}}}}})", what, process, thread,
                          quoted(name)));
    }
    void slice(const TimelineSlice& slice, unsigned process, uint64_t thread) {
        begin(fmt::format(R"({{"ph":"X",{},"ts":{},"dur":{},"args":{}}})", head(slice, process, thread),
                          time(slice.begin_ns), microseconds(slice.end_ns - slice.begin_ns), arguments(slice)));
    }
    /// A span that may overlap with others.
    void waiting(const TimelineSlice& slice, unsigned process, uint64_t thread) {
        const std::string both = fmt::format(R"({},"cat":"waiting","id":"{}.{}")", head(slice, process, thread), thread,
                                             slice.batch);
        begin(fmt::format(R"({{"ph":"b",{},"ts":{},"args":{}}})", both, time(slice.begin_ns), arguments(slice)));
        begin(fmt::format(R"({{"ph":"e",{},"ts":{}}})", both, time(slice.end_ns)));
    }
    void end(uint64_t left_out) { out_ << fmt::format("\n],\"otherData\":{{\"slices-left-out\":{}}}}}\n", left_out); }

private:
    void begin(const std::string& event) {
        out_ << (first_ ? "\n" : ",\n") << event;
        first_ = false;
    }
    static std::string quoted(const std::string& text) {
        return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
    }
    static std::string microseconds(uint64_t ns) { return fmt::format("{}.{:03}", ns / 1000, ns % 1000); }
    std::string time(uint64_t ns) const { return microseconds(ns - std::min(origin_ns_, ns)); }
    static std::string head(const TimelineSlice& slice, unsigned process, uint64_t thread) {
        return fmt::format(R"("name":{},"pid":{},"tid":{})", quoted(*slice.name), process, thread);
    }
    static std::string arguments(const TimelineSlice& slice) {
        return fmt::format(R"({{"chain":{},"batch":{},"packets":{},"bytes":{}}})", quoted(*slice.chain), slice.batch,
                           slice.packets, slice.bytes);
    }

    std::ostream& out_;
    const uint64_t origin_ns_;
    bool first_ = true;
};

}  // namespace

Timeline::Timeline(const std::string& file, size_t most) : file_(file), most_(most), origin_ns_(now_ns()) {}

uint64_t Timeline::now_ns() {
    return static_cast<uint64_t>(
        std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
            .count());
}

TimelineTrack& Timeline::add_track(const std::string& device) {
    tracks_.push_back(std::make_unique<TimelineTrack>(*this, device, most_));
    return *tracks_.back();
}

const std::string* TimelineTrack::name(const std::string& text) {
    const std::lock_guard lock(timeline_.mutex_);
    return &*timeline_.names_.insert(text).first;
}

WorkTrace::WorkTrace(TimelineTrack* track, const std::string* chain) : track_(track), chain_(chain) {
    if (track_ == nullptr) return;
    batch_ = track_->next_batch();
    begin_ns_ = last_ns_ = Timeline::now_ns();
}

uint64_t WorkTrace::add(const std::string* name, size_t packets, uint64_t bytes, uint64_t begin_ns) {
    const uint64_t now = Timeline::now_ns();
    track_->add({.name = name,
                 .chain = chain_,
                 .packets = static_cast<uint32_t>(packets),
                 .bytes = bytes,
                 .batch = batch_,
                 .begin_ns = begin_ns,
                 .end_ns = now});
    return now;
}

void Timeline::write() {
    Writer writer(file_.stream(), origin_ns_);
    writer.name_of("process_name", kWorkers, 0, "workers");
    std::map<std::string, unsigned> devices;
    uint64_t left_out = 0;
    for (size_t worker = 0; worker < tracks_.size(); ++worker) {
        const TimelineTrack& track = *tracks_[worker];
        writer.name_of("thread_name", kWorkers, worker, fmt::format("worker {}", worker));
        const auto [device, fresh] = devices.try_emplace(track.device_,
                                                         kWorkers + 1 + static_cast<unsigned>(devices.size()));
        std::set<uint32_t> streams;
        const uint64_t kept = std::min<uint64_t>(track.added_, most_);
        left_out += track.added_ - kept;
        for (uint64_t i = track.added_ - kept; i < track.added_; ++i) {
            const TimelineSlice& slice = track.slices_[i % most_];
            if (slice.place == TimelineSlice::Place::worker) writer.slice(slice, kWorkers, worker);
            if (slice.place == TimelineSlice::Place::waiting) writer.waiting(slice, kWorkers, worker);
            if (slice.place != TimelineSlice::Place::stream) continue;
            writer.slice(slice, device->second, slice.stream);
            if (streams.insert(slice.stream).second)
                writer.name_of("thread_name", device->second, slice.stream,
                               fmt::format("stream {} of worker {}", slice.stream, worker));
        }
        if (fresh && !streams.empty()) writer.name_of("process_name", device->second, 0, track.device_);
    }
    writer.end(left_out);
    file_.finish();
}

}  // namespace millrace::exec
