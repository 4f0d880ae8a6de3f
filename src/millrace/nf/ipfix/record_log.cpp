#include "millrace/nf/ipfix/record_log.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <string_view>

namespace millrace::nf::ipfix {
namespace {

/// Packets may be late.
constexpr uint64_t kGraceNs = decltype(Ipfix::Tables::state)::kGraceNs;
constexpr uint64_t kBetweenLooksNs = 1'000'000'000;
/// A look takes one part of so many of a core's time.
constexpr uint64_t kShareOfTime = 50;

std::string_view bytes_of(const FlowKey& key) { return {reinterpret_cast<const char*>(&key), sizeof key}; }

EndReason end_reason(const FlowCount& count, EndReason otherwise) {
    return count.ended != 0 ? EndReason::end_of_flow : otherwise;
}

}  // namespace

size_t RecordLog::Hash::operator()(const FlowKey& key) const { return std::hash<std::string_view>()(bytes_of(key)); }
bool RecordLog::Equal::operator()(const FlowKey& a, const FlowKey& b) const { return bytes_of(a) == bytes_of(b); }

RecordLog::RecordLog(const ExportOptions& options, std::unique_ptr<Sender> sender, std::vector<std::string> ports,
                     std::function<uint64_t()> wall_ns)
    : options_(options), wall_ns_(std::move(wall_ns)), since_ns_(wall_ns_()),
      exporter_(options, std::move(sender), std::move(ports), wall_ns_) {}

FlowCount RecordLog::rest_of(const FlowKey& key, FlowCount count) {
    const auto told = told_.find(key);
    if (told == told_.end()) return count;
    const FlowCount& before = told->second.count;
    if (before.first_ns == count.first_ns && before.packets <= count.packets) {
        count.packets -= before.packets;
        count.octets -= before.octets;
        count.first_ns = before.last_ns;
    }
    told_.erase(told);
    return count;
}

void RecordLog::put(const FlowKey& key, const FlowCount& count, EndReason reason) {
    newest_ns_ = std::max(newest_ns_, count.last_ns);
    if (count.packets > 0) exporter_.add({count, key, reason});
}

void RecordLog::add(const Note& note) {
    const std::lock_guard lock(mutex_);
    if (looking_ && ended_.size() < kMaxEnded) ended_.insert_or_assign(note.key, note.count.first_ns);
    put(note.key, rest_of(note.key, note.count), note.reason);
}

void RecordLog::send_rest() {
    const std::lock_guard lock(mutex_);
    exporter_.send_rest();
}

void RecordLog::found(const FlowKey& key, const FlowCount& count, EndReason reason) {
    const std::lock_guard lock(mutex_);
    const auto ended = ended_.find(key);
    if (ended_.size() >= kMaxEnded || (ended != ended_.end() && ended->second == count.first_ns)) return;
    const auto told = told_.find(key);
    if (told != told_.end() && told->second.count.first_ns == count.first_ns &&
        told->second.count.packets == count.packets) {
        told->second.look = looks_;
        return;
    }
    put(key, rest_of(key, count), reason);
    told_.insert_or_assign(key, Told{count, looks_});
}

void RecordLog::end_idle(uint64_t entries, const Each& each) {
    const auto start = std::chrono::steady_clock::now();
    const uint64_t now = wall_ns_(), until = now - kGraceNs;
    {
        const std::lock_guard lock(mutex_);
        // The time of day may have been set back meanwhile.
        if (now >= last_look_ns_ && now - last_look_ns_ < pause_ns_) return;
        last_look_ns_ = now;
        pause_ns_ = kBetweenLooksNs;
        exporter_.settle_last();
        if (entries <= told_.size()) return;
        looking_ = true;
        ++looks_;
    }
    const bool whole = each(until, [&](const FlowKey& key, const FlowCount& count, uint64_t) {
        if (count.last_ns >= since_ns_) found(key, count, end_reason(count, EndReason::idle));
    });
    const std::lock_guard lock(mutex_);
    looking_ = false;
    ended_.clear();
    // What was told of and is gone from the table was freed, or went with a device.
    std::erase_if(told_, [&](const auto& told) { return !whole || told.second.look != looks_; });
    exporter_.send_rest();
    const std::chrono::nanoseconds taken = std::chrono::steady_clock::now() - start;
    pause_ns_ += static_cast<uint64_t>(taken.count()) * kShareOfTime;
}

void RecordLog::end_all(const Each& each) {
    each(UINT64_MAX, [this](const FlowKey&, const FlowCount& count, uint64_t) {
        const std::lock_guard lock(mutex_);
        newest_ns_ = std::max(newest_ns_, count.last_ns);
    });
    {
        const std::lock_guard lock(mutex_);
        exporter_.wait_for_room();
    }
    each(UINT64_MAX, [this](const FlowKey& key, const FlowCount& count, uint64_t deadline_ns) {
        const std::lock_guard lock(mutex_);
        const bool idle = deadline_ns < newest_ns_;
        put(key, rest_of(key, count), end_reason(count, idle ? EndReason::idle : EndReason::forced));
    });
    const std::lock_guard lock(mutex_);
    told_.clear();
    exporter_.finish();
}

void RecordLog::forget() {
    const std::lock_guard lock(mutex_);
    told_.clear();
}

void RecordLog::set_ignored(uint64_t packets, const RecordSum& not_told) {
    const std::lock_guard lock(mutex_);
    exporter_.set_ignored(packets, not_told);
}

RecordSum RecordLog::sent() const {
    const std::lock_guard lock(mutex_);
    return exporter_.sent();
}
RecordSum RecordLog::unsent(Unsent why) const {
    const std::lock_guard lock(mutex_);
    return exporter_.unsent(why);
}
uint64_t RecordLog::messages() const {
    const std::lock_guard lock(mutex_);
    return exporter_.messages();
}
uint64_t RecordLog::message_bytes() const {
    const std::lock_guard lock(mutex_);
    return exporter_.message_bytes();
}

}  // namespace millrace::nf::ipfix
