// Sequence numbers for a burst of packets, drawn once for each security association.
#pragma once

#include <algorithm>
#include <array>
#include <atomic>

#include "millrace/packet/packet.hpp"
#include "millrace/packet/view.hpp"

namespace millrace::nf::ipsec {

/// Gives the packets of a burst their tickets. Workers share the counters of the SAs, and each drawing takes a
/// counter's cache line from another core: so the packets of an SA draw together, wherever they stand in the burst, and
/// keep the order in which they came. `kBurst`: most packets of a burst.
template <size_t kBurst>
class BurstTickets {
public:
    /// The next packet of the burst that gets a number, and its SA's slot.
    void add(Packet& packet, uint32_t slot) {
        if (run_count_ == 0 || drawings_[runs_[run_count_ - 1].drawing].slot != slot) begin_run(slot);
        Run& run = runs_[run_count_ - 1];
        ++run.packets;
        ++drawings_[run.drawing].packets;
        packets_[packet_count_++] = &packet;
    }

    /// Draws for all that were added, and forgets them.
    void draw(MutableView<uint64_t> tickets) {
        find_order();
        for (size_t i = 0; i < std::min(kAhead, drawing_count_); ++i) ask_for(tickets, i);
        for (size_t i = 0; i < drawing_count_; ++i) {
            if (i + kAhead < drawing_count_) ask_for(tickets, i + kAhead);
            Drawing& drawing = drawings_[order_[i]];
            drawing.first = std::atomic_ref(tickets[drawing.slot])
                                .fetch_add(drawing.packets, std::memory_order_relaxed);
            places_[drawing.place] = kFree;
        }
        size_t at = 0;
        for (size_t i = 0; i < run_count_; ++i) {
            const uint64_t first = drawings_[runs_[i].drawing].first + runs_[i].before;
            for (uint32_t k = 0; k < runs_[i].packets; ++k) packets_[at++]->set_ticket(first + k);
        }
        packet_count_ = run_count_ = drawing_count_ = 0;
    }

private:
    static constexpr size_t kPlaces = 4 * kBurst;
    static_assert((kPlaces & (kPlaces - 1)) == 0);
    static constexpr uint16_t kFree = 0xffff;

    /// What is drawn of one SA.
    struct Drawing {
        uint32_t slot, packets;
        size_t place;  ///< in places_
        uint64_t first;
    };
    /// Neighbours on one SA.
    struct Run {
        uint16_t drawing;
        uint32_t before, packets;  ///< of its drawing: before them; of them
    };

    // Other cores have most of the counters' cache lines: these come together, where atomic additions would wait for
    // one after the other.
    static constexpr size_t kAhead = 8;
    void ask_for(MutableView<uint64_t> tickets, size_t i) {
        __builtin_prefetch(&tickets[drawings_[order_[i]].slot], 1);
    }

    /// Counters of neighbouring SAs lie in one cache line: of few SAs these are drawn from in a row, so that
    /// the line changes cores once.
    void find_order() {
        constexpr size_t kFew = 32;
        for (size_t i = 0; i < drawing_count_; ++i) {
            size_t at = i;
            if (drawing_count_ <= kFew)
                for (; at > 0 && drawings_[order_[at - 1]].slot > drawings_[i].slot; --at) order_[at] = order_[at - 1];
            order_[at] = static_cast<uint16_t>(i);
        }
    }

    void begin_run(uint32_t slot) {
        size_t place = slot * 0x9e3779b1u % kPlaces;
        while (places_[place] != kFree && drawings_[places_[place]].slot != slot) place = (place + 1) % kPlaces;
        if (places_[place] == kFree) {
            places_[place] = static_cast<uint16_t>(drawing_count_);
            drawings_[drawing_count_++] = {slot, 0, place, 0};
        }
        runs_[run_count_++] = {places_[place], drawings_[places_[place]].packets, 0};
    }

    std::array<uint16_t, kPlaces> places_ = [] {
        std::array<uint16_t, kPlaces> places;
        places.fill(kFree);
        return places;
    }();
    std::array<Drawing, kBurst> drawings_;
    std::array<uint16_t, kBurst> order_;  // of these
    std::array<Run, kBurst> runs_;
    std::array<Packet*, kBurst> packets_;
    size_t packet_count_ = 0, run_count_ = 0, drawing_count_ = 0;
};

}  // namespace millrace::nf::ipsec
