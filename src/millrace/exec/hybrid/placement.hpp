// Where chains run that a CPU shares with devices: few packets on the CPU, which is done with them before a batch has
// crossed the bus; many on the devices. The split follows what packets are found to cost.
#pragma once

#include <atomic>
#include <cstddef>
#include <cstdint>
#include <memory>

namespace millrace::exec {

/// One for all engines of a runtime. They run chains on the CPU all together or not at all, so that the NFs' state is
/// in one place at a time: it goes to the CPU when all batches are back, and to the devices when no packet is in a CPU
/// half. While it is on its way packets wait; nobody is blocked.
class Placement {
public:
    enum class Place : uint8_t { cpu, to_device, device, to_cpu };  // in this order, round and round
    Place place() const { return place_of(epoch_.load()); }
    /// While chains are on devices: how often these have been given them. State that was brought to one at a lower
    /// count is out of date.
    uint64_t hand_overs() const { return epoch_.load() / kPlaces + 1; }

    /// While chains are on the CPU: how often it has been given them, but for the first time.
    uint64_t returns() const { return epoch_.load() / kPlaces; }

    class Member;

private:
    static constexpr uint64_t kPlaces = 4;
    static Place place_of(uint64_t epoch) { return static_cast<Place>(epoch % kPlaces); }
    std::atomic<uint64_t> epoch_{0};               // changes of place
    std::atomic<unsigned> members_{0}, light_{0};  // engines, and those of them whose load is light enough for the CPU
    std::atomic<unsigned> on_cpu_{0};              // that run packets on it at this moment
    std::atomic<unsigned> batches_{0};             // in flight, of all engines
};

/// One engine's part in it. All calls on the engine's thread.
class Placement::Member {
public:
    explicit Member(std::shared_ptr<Placement> placement);
    ~Member();
    Member(const Member&) = delete;
    Member& operator=(const Member&) = delete;

    const Placement& all() const { return *placement_; }
    /// Packets have been received.
    void on_receive(size_t packets) { received_ += packets; }
    /// Once an iteration of the worker's loop, at `now` (TSC): moves a hand-over on, or asks for one as the load
    /// demands.
    void update(uint64_t now);
    /// Packets that run on the CPU at once: few, so that nobody waits long for the NFs' state.
    static constexpr size_t kMaxAtOnce = 64;
    /// Whether packets may run on the CPU now; then `end_on_cpu` must follow, with how many did and the TSC cycles that
    /// they took.
    bool begin_on_cpu();
    void end_on_cpu(size_t packets, uint64_t cycles);
    /// Whether a batch may go to a device now; then `end_batches` must follow when it is back.
    bool begin_batch();
    void end_batches(size_t batches) { placement_->batches_.fetch_sub(static_cast<unsigned>(batches)); }
    /// Whether `update` has nothing to do until packets come: nothing is handed over, and this engine has no say in
    /// where they run.
    bool is_settled() const {
        const Place place = placement_->place();
        return place == Place::cpu || (place == Place::device && light_);
    }
    /// Nothing more will come here: others decide.
    void detach() { set_light(true); }

private:
    void set_light(bool light);

    const std::shared_ptr<Placement> placement_;
    bool light_ = true;
    Place seen_ = Place::cpu;
    double cost_;                 // TSC cycles that the CPU takes for a packet where it has many at once, smoothed
    double behind_ = 0;           // cycles on the CPU since it last had fewer packets than it may have at once
    uint64_t window_ = 0;         // when it began
    size_t received_ = 0;         // packets since
    unsigned light_windows_ = 0;  // one behind the other
};

}  // namespace millrace::exec
