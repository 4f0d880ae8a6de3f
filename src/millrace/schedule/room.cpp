#include "millrace/schedule/room.hpp"

#include <algorithm>
#include <cmath>

namespace millrace::schedule {
namespace {

constexpr double kLongestNs = 1e10;  // the longest batch, as of settle

/// The number of two digits that is next below or above.
double two_digits(double value, bool up) {
    const double unit = std::pow(10, std::floor(std::log10(value)) - 1);
    return (up ? std::ceil(value / unit) : std::floor(value / unit)) * unit;
}

/// Between `bad`, for which there is no room, and `good`, for which there is: the number next to `bad` that is good.
template <class HasRoom>
double halve(double good, double bad, HasRoom&& has_room) {
    constexpr double kClose = 1.01;
    while (std::max(good, bad) > std::min(good, bad) * kClose) {
        const double middle = std::sqrt(good * bad);
        (has_room(middle) ? good : bad) = middle;
    }
    const double rounded = two_digits(good, good > bad);
    return has_room(rounded) ? rounded : 0;
}

}  // namespace

bool keeps_promises(const std::vector<Tenant>& tenants, const Plan& plan) {
    return std::ranges::none_of(plan.refusals, [&](const Refusal& own) { return tenants[own.tenant].load.rate > 0; });
}

Room room_for_last(std::vector<Tenant> tenants, const Gpu& gpu, Sharing sharing) {
    Room room;
    if (tenants.empty()) return room;
    const Load asked = tenants.back().load;
    const auto has_room = [&](double rate, double latency_ns) {
        tenants.back().load.rate = rate;
        tenants.back().load.latency_ns = latency_ns;
        return keeps_promises(tenants, make_plan(tenants, gpu, sharing));
    };
    constexpr double kLeastRate = 1;
    if (asked.rate > kLeastRate && has_room(kLeastRate, asked.latency_ns))
        room.rate = halve(kLeastRate, asked.rate, [&](double rate) { return has_room(rate, asked.latency_ns); });
    if (asked.latency_ns > 0 && has_room(asked.rate, kLongestNs))
        room.latency_ns = halve(kLongestNs, asked.latency_ns, [&](double ns) { return has_room(asked.rate, ns); });
    return room;
}

}  // namespace millrace::schedule
