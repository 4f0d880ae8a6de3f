// Marks packets by whose customer sent them: the device half of a function with CPU stages.
#pragma once

#include "millrace/packet/argument.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/view.hpp"

namespace customer_marks {

using namespace millrace;

struct CustomerMarks {
    enum Outcome : uint32_t { kMarked, kGuest, kStranger, kNotIpv4 };  // in the order of the host half's `outcomes`

    static constexpr Fields reads = field::ip_src | field::ip_tos | field::ip_checksum;  // the stages', too
    static constexpr Fields writes = field::ip_tos | field::ip_checksum;
    static constexpr unsigned lanes = 1;

    struct Tables {
        View<uint8_t> marks;  // DSCP, by the customer's number
    };

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes) {
        if (!packet.layers().is_ipv4()) return {kNoDetail, kNotIpv4};
        const uint32_t customer = argument_of(packet);  // from `before`
        if (customer >= tables.marks.size()) return {kNoDetail, kStranger};
        uint8_t* const ip = packet.l3();
        const uint8_t tos = ip[1], marked = static_cast<uint8_t>(tables.marks[customer] << 2 | (tos & 3));
        ip[1] = marked;
        store_be16(ip + 10, checksum_update(load_be16(ip + 10), tos, marked));
        return {customer, kMarked};
    }
};

}  // namespace customer_marks
