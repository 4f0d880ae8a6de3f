// Which of many overlapping port ranges hold a port: the ranges cut the ports into intervals.
#pragma once

#include "millrace/packet/view.hpp"

namespace millrace::nf::classify {

struct PortIntervals {
    struct Tables {
        View<uint16_t> starts;   ///< first port of each interval, ascending, beginning with 0
        View<uint32_t> values;   ///< of each interval
        View<uint32_t> buckets;  ///< 257: the interval that holds port 256 * i; of the last, the last interval
        uint32_t no_ports = 0;   ///< value of a packet without ports
    };

    MILLRACE_DEVICE static uint32_t find(const Tables& tables, bool has_ports, uint16_t port) {
        if (!has_ports) return tables.no_ports;
        // Bisection among the intervals of one bucket: 8 steps at most.
        uint32_t first = tables.buckets[port >> 8];
        uint32_t last = tables.buckets[(port >> 8) + 1];
        while (first < last) {
            const uint32_t middle = (first + last + 1) / 2;
            if (tables.starts[middle] <= port) {
                first = middle;
            } else {
                last = middle - 1;
            }
        }
        return tables.values[first];
    }
};

}  // namespace millrace::nf::classify
