#include "lab/lookup/lookup_run.hpp"

#include <algorithm>
#include <chrono>
#include <deque>

#include "lab/clock.hpp"

namespace millrace::lab {
namespace {

using device::Address;
using device::Status;

}  // namespace

/// A batch under way.
struct LookupRun::Slot {
    device::StreamId stream = 0;
    Address keys = 0, rules = 0;
    uint32_t* results = nullptr;  // pinned
    device::EventId event = 0;
    double due = 0;
};

LookupRun::LookupRun(device::Device& device, const LookupSet& set, const LookupOptions& options,
                     std::vector<device::StreamId>& streams)
    : device_(device), options_(options), words_(set.words), headers_(set.count()) {
    const size_t batch_words = options_.batch * words_, bytes = batch_words * options_.batches * sizeof(uint32_t);
    keys_ = static_cast<uint32_t*>(device_.allocate_host(bytes));
    // The trace over and over, each batch with the first words of its keys contiguous, and so on.
    size_t header = 0;
    for (uint32_t b = 0; b < options_.batches; ++b)
        for (uint32_t i = 0; i < options_.batch; ++i, header = header + 1 == headers_ ? 0 : header + 1)
            for (size_t k = 0; k < words_; ++k)
                keys_[b * batch_words + k * options_.batch + i] = set.key_words[header * words_ + k];
    device_keys_ = device_.allocate(bytes, "keys to look up");
    for (unsigned s = 0; s < options_.streams; ++s) {
        slots_.push_back(std::make_unique<Slot>());
        Slot& slot = *slots_.back();
        if (streams.size() <= s) streams.push_back(device_.create_stream());
        slot.stream = streams[s];
        slot.keys = device_.allocate(batch_words * sizeof(uint32_t), "keys to look up");
        slot.rules = device_.allocate(options_.batch * sizeof(uint32_t), "rules found");
        slot.results = static_cast<uint32_t*>(device_.allocate_host(options_.batch * sizeof(uint32_t)));
    }
    require(device_.copy_to_device(slots_[0]->stream, device_keys_, keys_, bytes));
    require(device_.record(slots_[0]->stream, slots_[0]->event));
    while (!done(*slots_[0])) {
    }
}

LookupRun::~LookupRun() {
    device_.free(device_keys_);
    device_.free_host(keys_);
    for (const auto& slot : slots_) {
        device_.free(slot->keys);
        device_.free(slot->rules);
        device_.free_host(slot->results);
    }
}

bool LookupRun::done(Slot& slot) {
    const Status status = device_.query(slot.event);
    if (status == Status::pending) return false;
    require(status);
    return true;
}

void LookupRun::submit(const device::LoadedTask& task, Slot& slot, uint64_t batch, bool over_the_bus) {
    const size_t batch_words = options_.batch * words_, first = batch % options_.batches * batch_words;
    const Address in = over_the_bus ? slot.keys : device_keys_ + first * sizeof(uint32_t);
    if (over_the_bus) require(device_.copy_to_device(slot.stream, in, keys_ + first, batch_words * sizeof(uint32_t)));
    require(device_.launch(
        slot.stream, task,
        {reinterpret_cast<const uint32_t*>(in), reinterpret_cast<uint32_t*>(slot.rules), options_.batch}));
    if (over_the_bus)
        require(device_.copy_to_host(slot.stream, slot.results, slot.rules, options_.batch * sizeof(uint32_t)));
    require(device_.record(slot.stream, slot.event));
}

double LookupRun::run(const device::LoadedTask& task, bool over_the_bus, const Between& between) {
    std::deque<Slot*> under_way;
    const device::LoadedTask* current = &task;
    uint64_t batches = 0, finished = 0;
    const auto drain = [&](size_t leave) {
        for (; under_way.size() > leave; under_way.pop_front(), ++finished)
            while (!done(*under_way.front())) {
            }
    };
    const auto go = [&](double seconds, uint64_t least) {
        const uint64_t from = finished;
        const auto begin = Clock::now();
        while (seconds_since(begin) < seconds || finished < from + least) {
            drain(slots_.size() - 1);
            if (between) current = between();
            Slot& slot = *slots_[batches % slots_.size()];
            submit(*current, slot, batches++, over_the_bus);
            under_way.push_back(&slot);
        }
        return static_cast<double>(finished - from) / seconds_since(begin);
    };
    go(options_.seconds / 4, 1);
    const double per_second = go(options_.seconds, slots_.size());
    drain(0);
    return per_second * options_.batch;
}

double LookupRun::kernel_rate(const device::LoadedTask& task) { return run(task, false, {}); }
double LookupRun::bus_rate(const device::LoadedTask& task, const Between& between) { return run(task, true, between); }

LookupRun::Paced LookupRun::paced(const device::LoadedTask& task, double keys_per_second, const Between& between) {
    const double fill = options_.batch / keys_per_second;
    std::deque<Slot*> free, under_way;
    for (const auto& slot : slots_) free.push_back(slot.get());
    std::vector<double> delays;
    const device::LoadedTask* current = &task;
    uint64_t batches = 0;
    const auto begin = Clock::now();
    double now = 0, first_done = 0, last_done = 0;
    while (now < options_.seconds || !under_way.empty()) {
        now = seconds_since(begin);
        const double due = static_cast<double>(batches + 1) * fill;
        if (now >= due && now < options_.seconds && !free.empty()) {
            if (between) current = between();
            Slot* const slot = free.front();
            free.pop_front();
            slot->due = due;
            submit(*current, *slot, batches++, true);
            under_way.push_back(slot);
        }
        if (under_way.empty() || !done(*under_way.front())) continue;
        last_done = seconds_since(begin);
        if (delays.empty()) first_done = last_done;
        delays.push_back(last_done - under_way.front()->due + fill);
        free.push_back(under_way.front());
        under_way.pop_front();
    }
    Paced result;
    if (delays.size() < 2) return result;
    result.rate = static_cast<double>(delays.size() - 1) * options_.batch / (last_done - first_done);
    delays.erase(delays.begin(), delays.begin() + static_cast<ptrdiff_t>(delays.size() / 10));  // until it has come to
                                                                                                // its pace
    std::sort(delays.begin(), delays.end());
    const auto at = [&](double share) {
        return delays[static_cast<size_t>(share * static_cast<double>(delays.size() - 1))] * 1e6;
    };
    result.p50_us = at(0.5);
    result.p99_us = at(0.99);
    result.highest_us = at(1);
    return result;
}

std::vector<uint32_t> LookupRun::rules(const device::LoadedTask& task, size_t count) {
    std::vector<uint32_t> found;
    Slot& slot = *slots_[0];
    for (uint64_t batch = 0; found.size() < count; ++batch) {
        submit(task, slot, batch, true);
        while (!done(slot)) {
        }
        found.insert(found.end(), slot.results, slot.results + std::min<size_t>(options_.batch, count - found.size()));
    }
    return found;
}

}  // namespace millrace::lab
