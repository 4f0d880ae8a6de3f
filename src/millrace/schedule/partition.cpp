#include "millrace/schedule/partition.hpp"

#include <algorithm>
#include <cmath>
#include <limits>

namespace millrace::schedule {
namespace {

constexpr double kSecond = 1e9;

/// Nothing longer is a batch.
constexpr double kLongest = 10 * kSecond;

void tell(Stop* stop, Limit limit, size_t load, double asked, double possible) {
    if (stop != nullptr) *stop = {limit, load, asked, possible};
}

/// Of the loads, the one that a cycle of so many ns breaks the promise of, with what breaks it.
std::optional<Stop> broken(std::span<const Load* const> loads, uint32_t sms, double cycle_ns) {
    for (size_t i = 0; i < loads.size(); ++i) {
        const Load& load = *loads[i];
        const double latency = load.latency_ns > 0 ? load.latency_ns : 2 * kLongest;
        if (2 * cycle_ns > latency) return Stop{Limit::latency, i, latency, 2 * cycle_ns};
        const double packets = std::ceil(load.rate * cycle_ns / kSecond);
        const double most = double(load.most_packets(sms)) * load.queues;
        if (packets > most) return Stop{Limit::batch, i, packets, most};
    }
    return std::nullopt;
}

}  // namespace

uint32_t Load::most_packets(uint32_t sms) const {
    uint64_t most = max_batch == 0 ? std::numeric_limits<uint32_t>::max() : max_batch;
    if (model.most_of_sm != 0) most = std::min(most, uint64_t{model.most_of_sm} * sms);
    return static_cast<uint32_t>(most);
}

std::optional<Turn> settle(std::span<const Load* const> loads, uint32_t sms, Stop* stop, double least_cycle_ns) {
    double starts_ns = 0, busy = 0;
    for (size_t i = 0; i < loads.size(); ++i)
        if (sms < loads[i]->least_sms) {
            tell(stop, Limit::sms, i, loads[i]->least_sms, sms);
            return std::nullopt;
        }
    for (const Load* load : loads) {
        starts_ns += load->start_ns();
        busy += load->rate / kSecond * load->packet_ns(sms);
    }
    if (loads.empty() || sms == 0) return std::nullopt;
    if (busy >= 1) {
        // What the last one could have beside the others.
        const Load& last = *loads.back();
        const double others = busy - last.rate / kSecond * last.packet_ns(sms);
        tell(stop, Limit::rate, loads.size() - 1, last.rate, std::max(1 - others, 0.0) * kSecond / last.packet_ns(sms));
        return std::nullopt;
    }
    // From below to the least cycle within which all that comes is done. What is not whole is no more than what is.
    Turn turn{std::max(starts_ns / (1 - busy), least_cycle_ns), std::vector<uint32_t>(loads.size())};
    constexpr int kMaxSteps = 20'000;
    for (int step = 0; step < kMaxSteps; ++step) {
        if (const auto why = broken(loads, sms, turn.cycle_ns)) {
            if (stop != nullptr) *stop = *why;
            return std::nullopt;
        }
        double cycle_ns = 0;
        for (size_t i = 0; i < loads.size(); ++i) {
            const Load& load = *loads[i];
            turn.batches[i] = static_cast<uint32_t>(std::max(1.0, std::ceil(load.rate * turn.cycle_ns / kSecond)));
            cycle_ns += load.batches_ns(turn.batches[i], sms);
        }
        const bool settled = cycle_ns <= turn.cycle_ns;
        turn.cycle_ns = std::max(cycle_ns, turn.cycle_ns);
        if (settled) return turn;
    }
    const Load& last = *loads.back();
    tell(stop, Limit::rate, loads.size() - 1, last.rate, last.rate * (1 - busy));
    return std::nullopt;
}

double bus_share(const Load& load, uint32_t packets) {
    return packets == 0 ? 0 : load.rate / kSecond / packets * load.transfers_ns(packets);
}

}  // namespace millrace::schedule
