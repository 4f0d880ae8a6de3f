// Sequence numbers and anti-replay windows, which outlive a configuration.
#pragma once

#include <atomic>
#include <chrono>
#include <deque>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <string>
#include <vector>

#include "millrace/nf/ipsec/esp/replay.hpp"
#include "millrace/nf/ipsec/sa/sequence_file.hpp"

namespace millrace::nf::ipsec {

/// How near an SA is to its end.
enum class Age : uint8_t { young, soft, hard };

/// The state of all SAs that a node ever had, by what they are and not by where they stand. A slot is
/// never given to another SA: an SA that is taken out and comes back with the same key goes on
/// counting where it stopped, and the tables of the generation before stay right while both run. (But see `retire`.)
/// Shared by all generations of a node, and by nodes that a device runs as one (nf::Siblings): then an SA that two of
/// them have counts once, and no number goes with its key twice.
class SaState {
public:
    using Clock = std::chrono::steady_clock;
    /// What is known of an SA beside what devices count.
    struct Record {
        std::string identity;
        uint64_t before = 0;                            ///< see Sa
        uint64_t reserved = 0;                          ///< in the file: the last that may be used
        uint64_t tickets_before = 0, bytes_before = 0;  ///< of the SA that had the slot before
        bool inbound = false;
        Clock::time_point since = Clock::now();
        uint64_t first_used = 0, told_bytes = 0;  ///< of the kernel's SAs: as it was last told, see KernelUse
    };

    /// So long after it was retired a slot is another SA's: no batch lives as long.
    static constexpr std::chrono::nanoseconds kRest = std::chrono::seconds(30);
    explicit SaState(size_t slots, std::chrono::nanoseconds rest = kRest);
    /// Gives back on disk what was reserved and not used. All devices are done.
    ~SaState();
    SaState(const SaState&) = delete;
    SaState& operator=(const SaState&) = delete;

    /// From here on new slots begin behind what the file says of them. Called before the first.
    void keep_in(std::unique_ptr<SequenceFile> file) { file_ = std::move(file); }
    SequenceFile* file() { return file_.get(); }

    /// The slot of an identity, the same for ever. Nothing when all slots are given out. `used_bytes`: that it has
    /// encrypted or decrypted before it was known here.
    std::optional<uint32_t> slot_of(const std::string& identity, bool inbound, uint64_t used_bytes = 0);
    /// The next generation has no such SA, and its keys hardly come back: after a while another SA gets its slot.
    /// Devices go on counting in it: `Record::before` makes up for that.
    void retire(const std::string& identity);
    size_t slots() const { return tickets->size(); }
    size_t given_out_slots() const { return records_.size(); }
    /// Of a slot that was given out. Changed by one thread at a time: that which makes generations.
    Record& record(uint32_t slot) { return records_[slot]; }
    /// Sequence numbers that an outbound SA has given out, those before this process began included.
    uint64_t given_out(uint32_t slot) const { return records_[slot].before + (*tickets)[slot]; }
    /// The highest sequence number that an inbound SA has accepted.
    uint64_t highest(uint32_t slot) const {
        return sequence_in(records_[slot].before, (*windows)[slot * kWindowWords]);
    }
    /// Bytes that an SA has encrypted or decrypted, if it counts them.
    uint64_t used_bytes(uint32_t slot) const { return (*bytes)[slot] - records_[slot].bytes_before; }
    /// ESP packets that named an inbound SA.
    uint64_t received(uint32_t slot) const { return (*tickets)[slot] - records_[slot].tickets_before; }

    const std::shared_ptr<std::vector<uint64_t>> tickets;  ///< see Tables::tickets
    const std::shared_ptr<std::vector<uint64_t>> windows;  ///< see Tables::windows
    const std::shared_ptr<std::vector<uint64_t>> bytes;    ///< see Tables::bytes
    /// One an SA slot, for CPU halves: SAs stay with one worker as long as steering keeps them there,
    /// and a window must not break where it does not.
    std::vector<std::atomic_flag> window_locks;
    /// By slot: as was told last. Any thread may look.
    std::vector<std::atomic<Age>> ages;
    /// How often SAs came near their end, and to it.
    std::atomic<uint64_t> soft_ends{0}, hard_ends{0};

private:
    void take_back(Record& record);

    const std::chrono::nanoseconds rest_;
    std::unique_ptr<SequenceFile> file_;  // null: nothing is kept
    std::vector<Record> records_;         // by slot
    std::mutex mutex_;
    std::map<std::string, uint32_t> by_identity_;
    std::deque<std::pair<Clock::time_point, uint32_t>> retired_;
};

}  // namespace millrace::nf::ipsec
