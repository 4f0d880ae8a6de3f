#include "lab/lookup/lookup_changes.hpp"

#include <algorithm>
#include <atomic>
#include <chrono>
#include <deque>
#include <exception>
#include <random>
#include <stop_token>
#include <thread>

#include "lab/clock.hpp"

namespace millrace::lab {
namespace {

/// Tables that are or were in use.
struct Generation {
    std::unique_ptr<LookupTables> tables;
    std::shared_ptr<device::LoadedTask> task;
    uint64_t number = 0;
};

/// The newest generation, and what the thread that looks up has taken.
struct Handover {
    std::atomic<const Generation*> newest{nullptr};
    std::atomic<uint64_t> in_use{0};  ///< number of the generation that the latest batches take
    std::atomic<uint64_t> batches{0};
    std::atomic<uint64_t> since{0};  ///< `batches` when it was taken
};

/// Makes generations.
class Changer {
public:
    Changer(device::Device& device, const LookupSet& set, Engine engine, unsigned lanes, unsigned batches_under_way)
        : device_(device), set_(set), engine_(engine), task_(lookup_task(set.words, engine, lanes)),
          under_way_(batches_under_way), present_(set.rule_count, true) {
        for (uint32_t i = 0; i < set.rule_count; ++i) {
            if (i % 8 == 7) present_[i] = false;
            (i % 8 == 7 ? away_ : there_).push_back(i);
        }
        publish();
    }
    Handover& handover() { return handover_; }
    const Generation& newest() const { return *generations_.back(); }
    const std::vector<bool>& present() const { return present_; }

    /// A rule goes, or one comes.
    void change() {
        std::vector<uint32_t>& from = random_() % 2 == 0 && !there_.empty() ? there_ : away_;
        std::vector<uint32_t>& to = &from == &there_ ? away_ : there_;
        if (from.empty() || away_.size() > set_.rule_count / 4) return change_back();
        move(from, to);
    }
    void publish() {
        auto made = std::make_unique<Generation>();
        made->tables = set_.build(engine_, &present_);
        made->task = device_.load(task_, made->tables->image);
        made->number = generations_.empty() ? 0 : generations_.back()->number + 1;
        handover_.newest = made.get();
        generations_.push_back(std::move(made));
        // Batches of an older one are done once as many have followed as can be under way.
        while (generations_.front()->number < handover_.in_use && handover_.batches > handover_.since + under_way_)
            generations_.pop_front();
    }

private:
    void change_back() { move(away_.empty() ? there_ : away_, away_.empty() ? away_ : there_); }
    void move(std::vector<uint32_t>& from, std::vector<uint32_t>& to) {
        const size_t at = random_() % from.size();
        present_[from[at]] = &to == &there_;
        to.push_back(from[at]);
        from[at] = from.back();
        from.pop_back();
    }

    device::Device& device_;
    const LookupSet& set_;
    const Engine engine_;
    const device::Task task_;
    const unsigned under_way_;
    std::vector<bool> present_;
    std::vector<uint32_t> there_, away_;
    std::mt19937_64 random_{1};
    std::deque<std::unique_ptr<Generation>> generations_;
    Handover handover_;
};

}  // namespace

ChangeRate measure_changes(device::Device& device, const LookupSet& set, Engine engine, unsigned lanes, LookupRun& run,
                           double seconds, const ChangeOptions& options) {
    Changer changer(device, set, engine, lanes, 64);
    Handover& handover = changer.handover();
    uint64_t changes = 0, generations = 0;
    std::vector<double> delays;
    double took = 0;
    std::exception_ptr failed;
    // Ends with this function, however that ends.
    std::jthread thread([&](const std::stop_token& stop) {
        const auto begin = Clock::now();
        try {
            while (!stop.stop_requested()) {
                const auto due = static_cast<uint64_t>(seconds_since(begin) * options.changes_per_second);
                if (due == changes) continue;
                const double asked = static_cast<double>(changes + 1) / options.changes_per_second;
                for (; changes < due; ++changes) changer.change();
                changer.publish();
                ++generations;
                delays.push_back(seconds_since(begin) - asked);
            }
        } catch (...) {
            failed = std::current_exception();
        }
        took = seconds_since(begin);
    });
    const Generation* current = handover.newest;
    const auto between = [&] {
        const Generation* const newest = handover.newest;
        const uint64_t batch = handover.batches.fetch_add(1) + 1;
        if (newest != current) {
            current = newest;
            handover.since = batch;
            handover.in_use = newest->number;
        }
        return current->task.get();
    };
    ChangeRate rate;
    const auto begin = Clock::now();
    std::vector<LookupRun::Paced> rounds;
    while (seconds_since(begin) < seconds)
        rounds.push_back(run.paced(*current->task, options.keys_per_second, between));
    thread.request_stop();
    thread.join();
    if (failed) std::rethrow_exception(failed);
    for (const auto& round : rounds) {
        rate.lookups.rate += round.rate / static_cast<double>(rounds.size());
        rate.lookups.p50_us = std::max(rate.lookups.p50_us, round.p50_us);
        rate.lookups.p99_us = std::max(rate.lookups.p99_us, round.p99_us);
        rate.lookups.highest_us = std::max(rate.lookups.highest_us, round.highest_us);
    }
    rate.changes_per_second = static_cast<double>(changes) / took;
    rate.generations_per_second = static_cast<double>(generations) / took;
    if (!delays.empty()) {
        std::sort(delays.begin(), delays.end());
        rate.delay_p50_ms = delays[delays.size() / 2] * 1e3;
        rate.delay_highest_ms = delays.back() * 1e3;
    }
    rate.checked = std::min<size_t>(200, set.count());
    const std::vector<uint32_t> found = run.rules(*changer.newest().task, rate.checked);
    for (size_t i = 0; i < rate.checked; ++i) rate.mistakes += found[i] != set.reference(i, &changer.present());
    return rate;
}

}  // namespace millrace::lab
