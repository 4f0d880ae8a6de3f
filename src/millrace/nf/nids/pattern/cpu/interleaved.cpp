// A piece of a payload is searched as a lane of a device searches its share (device.hpp): from the root state, and
// behind its end only while the state's depth reaches back into it. So every occurrence is seen by the piece in which
// it begins. What the pieces of a payload find goes to one slot of the collector.
#include "millrace/nf/nids/pattern/cpu/interleaved.hpp"

namespace millrace::nf::nids::pattern {
namespace {

/// Every piece is walked this far behind its end, which is mostly far enough, before the depth is asked for.
constexpr size_t kMargin = 4;
/// Shorter pieces would be walked more behind their ends than within.
constexpr size_t kShortestPiece = 16;
/// As long as pieces can be no longer than this, each lane gets one. Beyond, it gets about two, so that payloads of
/// different lengths are shared out evenly.
constexpr size_t kLongestOfOneRound = 64;
/// Steps of all lanes between two looks at what they have found.
constexpr size_t kBlock = 16;
/// More than one match in so many bytes are many: noting them without branches is faster.
constexpr size_t kBytesPerMatch = 16;

size_t divide_up(size_t a, size_t b) { return (a + b - 1) / b; }

size_t longest_piece(std::span<const Payload> payloads) {
    size_t bytes = 0;
    for (const Payload& payload : payloads) bytes += payload.bytes;
    const size_t one_round = divide_up(bytes, kInterleaved);
    return std::max({kShortestPiece, std::min(one_round, kLongestOfOneRound), divide_up(one_round, 2)});
}

template <class Entry>
class Walk {
public:
    Walk(const Automaton& automaton, const Entry* next, std::span<const Payload> payloads, MatchCollector& found,
         PatternHits& hits)
        : next_(next), class_of_(automaton.class_of->data()), depth_(automaton.depth->data()),
          stride_(automaton.stride), first_match_(automaton.first_match), payloads_(payloads),
          longest_piece_(longest_piece(payloads)), found_(found), hits_(hits) {
        for (unsigned slot = 0; slot < kInterleaved; ++slot) free_[slot] = slot;
    }

    void run() {
        Lane lanes[kInterleaved];
        unsigned active = 0;
        while (active < kInterleaved && take(lanes[active])) ++active;
        while (active > 0) {
            size_t steps = static_cast<size_t>(lanes[0].stop - lanes[0].at);
            for (unsigned i = 1; i < active; ++i)
                steps = std::min(steps, static_cast<size_t>(lanes[i].stop - lanes[i].at));
            advance_all(lanes, active, steps);
            for (unsigned i = 0; i < active;) {
                if (lanes[i].at != lanes[i].stop) {
                    ++i;
                    continue;
                }
                finish(lanes[i]);
                if (take(lanes[i])) {
                    ++i;
                } else if (--active != i) {
                    std::swap(lanes[i], lanes[active]);
                }
            }
        }
    }

private:
    /// A piece under way: what begins before `end` is looked for.
    struct Lane {
        const uint8_t* at;
        const uint8_t* stop;  ///< it is walked to here, whatever the depth
        const uint8_t* end;
        const uint8_t* payload_end;
        uint32_t state;
        unsigned slot;
    };
    /// A payload that has a slot.
    struct UnderWay {
        size_t payload;
        size_t pieces;  ///< not done yet
    };

    /// Begins the next piece, if there is one. No more payloads than lanes are under way: each has a piece in a lane,
    /// or is the one that pieces are being taken of.
    bool take(Lane& lane) {
        if (rest_ == rest_end_) {
            while (taken_ < payloads_.size() && payloads_[taken_].bytes == 0) ++taken_;
            if (taken_ == payloads_.size()) return false;
            const size_t bytes = payloads_[taken_].bytes;
            rest_ = payloads_[taken_].data;
            rest_end_ = rest_ + bytes;
            rest_slot_ = free_[--free_count_];
            under_way_[rest_slot_] = {taken_++, cut(bytes)};
        }
        const size_t bytes = static_cast<size_t>(rest_end_ - rest_);
        const uint8_t* const end = rest_ + (is_last(bytes) ? bytes : piece_);
        const uint8_t* const stop = is_last(bytes) ? end : end + kMargin;
        lane = {rest_, stop, end, rest_end_, 0, rest_slot_};
        rest_ = end;
        return true;
    }

    /// Chooses the pieces of the next payload, and returns their number. The last is longer by the others' margin, so
    /// that all take as long.
    size_t cut(size_t bytes) {
        piece_ = longest_piece_;
        if (is_last(bytes)) return 1;
        const size_t to_share = bytes - kMargin;
        piece_ = divide_up(to_share, divide_up(to_share, longest_piece_));
        return divide_up(to_share, piece_);
    }
    bool is_last(size_t bytes) const { return bytes <= piece_ + kMargin; }

    void finish(Lane& lane) {
        while (lane.at < lane.payload_end && depth_[lane.state] > lane.at - lane.end) advance_block<1, false>(&lane, 1);
        UnderWay& whole = under_way_[lane.slot];
        if (--whole.pieces > 0) return;
        found_.finish(lane.slot, whole.payload, hits_);
        free_[free_count_++] = lane.slot;
    }

    /// Takes the active lanes further. Copies of the first fill them up to a number for which there is a loop.
    void advance_all(Lane* lanes, unsigned active, size_t steps) {
        const unsigned width = active == 1 ? 1 : active <= 4 ? 4 : active <= 8 ? 8 : kInterleaved;
        for (unsigned i = active; i < width; ++i) lanes[i] = lanes[0];
        switch (width) {
            case 1: return advance<1>(lanes, steps);
            case 4: return advance<4>(lanes, steps);
            case 8: return advance<8>(lanes, steps);
            default: return advance<kInterleaved>(lanes, steps);
        }
    }

    template <unsigned Count>
    void advance(Lane* lanes, size_t steps) {
        while (steps > 0) {
            const size_t block = std::min(steps, kBlock);
            const size_t matches = many_ ? advance_block<Count, true>(lanes, block)
                                         : advance_block<Count, false>(lanes, block);
            many_ = matches * kBytesPerMatch > Count * block;
            steps -= block;
        }
    }

    /// Returns the number of matches. They are listed first, as a call in the loop would cost it its registers; where
    /// there are `Many`, without a branch for each state, which would often be mispredicted.
    template <unsigned Count, bool Many>
    size_t advance_block(Lane* lanes, size_t steps) const {
        const Entry* const next = next_;
        const uint8_t* const class_of = class_of_;
        const size_t stride = stride_;
        const uint32_t first_match = first_match_;
        uint32_t states[Count];
        const uint8_t* texts[Count];
        for (unsigned i = 0; i < Count; ++i) {
            states[i] = lanes[i].state;
            texts[i] = lanes[i].at;
        }
        uint32_t matches[Count * kBlock + 1];
        uint8_t found_by[Count * kBlock + 1];
        size_t count = 0;
        for (size_t step = 0; step < steps; ++step) {
            for (unsigned i = 0; i < Count; ++i) {
                states[i] = next[static_cast<size_t>(states[i]) * stride + class_of[texts[i][step]]];
                if (!Many && states[i] < first_match) [[likely]]
                    continue;
                matches[count] = states[i];
                found_by[count] = static_cast<uint8_t>(i);
                count += states[i] >= first_match;
            }
        }
        for (size_t i = 0; i < count; ++i) found_.add(lanes[found_by[i]].slot, matches[i]);
        for (unsigned i = 0; i < Count; ++i) {
            lanes[i].state = states[i];
            lanes[i].at += steps;
        }
        return count;
    }

    const Entry* next_;
    const uint8_t* class_of_;
    const uint32_t* depth_;
    uint32_t stride_;
    uint32_t first_match_;

    std::span<const Payload> payloads_;
    size_t longest_piece_;
    size_t taken_ = 0;               ///< payloads
    const uint8_t* rest_ = nullptr;  ///< of the last payload taken
    const uint8_t* rest_end_ = nullptr;
    size_t piece_ = 0;  ///< bytes of its pieces
    unsigned rest_slot_ = 0;

    MatchCollector& found_;
    PatternHits& hits_;
    UnderWay under_way_[kInterleaved];  ///< by slot
    unsigned free_[kInterleaved];       ///< slots
    unsigned free_count_ = kInterleaved;
    bool many_ = false;  ///< matches in the last block
};

}  // namespace

void walk_interleaved(const Automaton& automaton, std::span<const Payload> payloads, MatchCollector& found,
                      PatternHits& hits) {
    if (automaton.wide->empty()) {
        Walk(automaton, automaton.narrow->data(), payloads, found, hits).run();
    } else {
        Walk(automaton, automaton.wide->data(), payloads, found, hits).run();
    }
}

}  // namespace millrace::nf::nids::pattern
