// Packets and bytes of each flow, kept when flows come and go.
#pragma once

#include <algorithm>
#include <bit>
#include <cstddef>
#include <cstdint>
#include <deque>
#include <memory>
#include <vector>

namespace millrace::nf::flow_switch {

/// The counters that the generations of one switch share. A flow has its place as long as it lives. The generation
/// before may still count while the next one is made, so the place of a flow that went is given to another one only
/// when that generation is certain to be over: when the next but one is at work.
class Counters {
public:
    using Values = std::vector<uint64_t>;
    struct Counts {
        uint64_t packets = 0, bytes = 0;
    };

    /// With room for so many flows at least.
    explicit Counters(size_t room);

    /// A place for another flow, while the generation with version `at_work` is. What stands there is what others have
    /// counted.
    uint32_t take(uint64_t at_work);
    /// The flow at a place is not in the generation with that version, nor in later ones.
    void leave(uint32_t place, uint64_t version);
    /// None but these places belong to flows from that version on.
    void keep_only(const std::vector<uint32_t>& places, uint64_t version);

    /// What stands at a place; nothing where there is no such place yet.
    static Counts at(const Values& values, uint32_t place) {
        if (place + size_t{1} >= values.size()) return {};
        return {__atomic_load_n(&values[place], __ATOMIC_RELAXED),
                __atomic_load_n(&values[place + 1], __ATOMIC_RELAXED)};
    }
    /// Another vector when more places are needed than there is room for. What is counted in the one before from then
    /// on, until it is not at work any more, is lost.
    const std::shared_ptr<Values>& values() const { return values_; }
    /// Values from the start of which all places given out so far are part. It grows by doubling: devices make room for
    /// what comes back of them with each batch, and make it anew where it grows.
    size_t in_use() const { return std::bit_ceil(std::max<size_t>(fresh_, 128)); }

private:
    struct Leaving {
        uint32_t place;
        uint64_t version;
    };
    std::shared_ptr<Values> values_;
    uint32_t fresh_ = 0;  // the first place that nobody ever had
    std::vector<uint32_t> free_;
    std::deque<Leaving> leaving_;
};

}  // namespace millrace::nf::flow_switch
