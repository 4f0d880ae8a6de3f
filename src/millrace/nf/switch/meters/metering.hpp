// Meters: each packet uses up units of every band, and meets the band of the highest rate that has none left (OpenFlow
// 1.3.5, section 5.7).
//
// How many units a band has had since it began is known to the host alone, which adds some with each generation
// (meter_rates.hpp); the device counts those that were used. So a device needs no clock, and all of them agree on what
// a generation allows. Packets that are metered at the same time may meet a band that has a unit left for one of them:
// none of them takes it then.
#pragma once

#include "millrace/nf/switch/device.hpp"
#include "millrace/packet/counter.hpp"

namespace millrace::nf::flow_switch {

struct Metering {
    static constexpr uint32_t kNone = 0xffffffffu;
    static constexpr uint32_t kWordsOfBand = 3, kWordsOfMeter = 2;

    /// The band that a packet meets, or kNone.
    template <class Lanes>
    MILLRACE_DEVICE static uint32_t band_of(const Switch::Tables& tables, const Switch::Meter& meter, uint32_t bytes,
                                            Lanes lanes) {
        // One lane looks, as it changes what it looks at.
        return lanes.minimum(1, [&](uint32_t) {
            add_atomically(tables.meter_counters[meter.counters], 1);
            add_atomically(tables.meter_counters[meter.counters + 1], bytes);
            const uint64_t units = meter.by_packets != 0 ? 1 : bytes;
            uint32_t met = kNone;
            for (uint32_t i = meter.first_band; i < meter.first_band + meter.bands; ++i) {
                const uint32_t at = tables.bands[i].counters;
                uint64_t& used = tables.meter_counters[at];
                if (add_atomically(used, units) + units <= tables.allowed[i]) continue;
                add_atomically(used, uint64_t{0} - units);
                if (met != kNone) continue;
                met = i;
                add_atomically(tables.meter_counters[at + 1], 1);
                add_atomically(tables.meter_counters[at + 2], bytes);
            }
            return met;
        });
    }

    /// RFC 2597: raises the drop precedence of the four classes that have one; all else stays as it is.
    MILLRACE_DEVICE static void remark(Packet& packet, uint32_t by) {
        const Layers& layers = packet.layers();
        if (!layers.is_ip()) return;
        const uint32_t dscp = layers.is_ipv4() ? packet.l3()[1] >> 2 : load_be16(packet.l3()) >> 6 & 0x3fu;
        const uint32_t group = dscp >> 3, precedence = dscp >> 1 & 3;
        if (group < 1 || group > 4 || precedence == 0 || (dscp & 1) != 0) return;
        const uint32_t to = group << 3 | smaller(precedence + by, 3u) << 1;
        Edit::set_tos(packet, static_cast<uint8_t>(to << 2), 0xfc);
    }
};

}  // namespace millrace::nf::flow_switch
