#include "millrace/nf/switch/meters/meter_tables.hpp"

#include <algorithm>
#include <bit>
#include <numeric>

#include "millrace/nf/switch/meters/metering.hpp"

namespace millrace::nf::flow_switch {
namespace {

constexpr double kDefaultBurstSeconds = 1;
/// A bucket that holds less than a whole frame would never let one pass.
constexpr double kLeastBurstBytes = 9216, kLeastBurstPackets = 1;
/// Room for counters that is there from the first meter on: devices make it anew where it grows.
constexpr size_t kFirstPlaces = 1024;

uint32_t words_of(const Meter& meter) {
    return Metering::kWordsOfMeter + Metering::kWordsOfBand * static_cast<uint32_t>(meter.bands.size());
}

}  // namespace

void MeterTables::attach(Image& image, Switch::Tables& tables) const {
    if (by_slot->empty()) return;
    image.attach(tables.meters, by_slot);
    if (!bands->empty()) {
        image.attach(tables.bands, bands);
        image.attach(tables.allowed, allowed);
    }
    image.attach_state(tables.meter_counters, counters, "meters", counters_in_use);
}

/// Where so many counters may stand, of which nobody else has any.
uint32_t MeterRates::take_place(uint32_t words) {
    if (const auto left = free_.find(words); left != free_.end()) {
        const uint32_t place = left->second;
        free_.erase(left);
        return place;
    }
    if (counters_ == nullptr || places_ + words > counters_->size()) {
        // What packets count in the one before from now on is lost.
        auto larger = std::make_shared<std::vector<uint64_t>>(std::max(kFirstPlaces, 2 * (places_ + words)));
        for (size_t i = 0; i < places_; ++i) (*larger)[i] = __atomic_load_n(&(*counters_)[i], __ATOMIC_RELAXED);
        counters_ = std::move(larger);
    }
    const auto place = static_cast<uint32_t>(places_);
    places_ += words;
    return place;
}

void MeterRates::leave_place(const Entry& entry) { free_.emplace(words_of(entry.meter), entry.counters); }

void MeterRates::put(Meter meter, Clock::time_point now) {
    if (ids_.empty()) filled_ = now;
    // Lists of actions name slots, so a meter keeps its own.
    const auto known = ids_.find(meter.id);
    size_t slot = 0;
    if (known != ids_.end()) {
        slot = known->second;
        leave_place(entries_[slot]);
        meter.begin = entries_[slot].meter.begin;
    } else {
        while (slot < entries_.size() && !entries_[slot].gone) ++slot;
        if (slot == entries_.size()) entries_.emplace_back();
        meter.begin = now;
    }
    Entry& entry = entries_[slot] = Entry{};
    const uint32_t words = words_of(meter);
    entry.counters = take_place(words);
    for (uint32_t i = 0; i < words; ++i) entry.first.push_back((*counters_)[entry.counters + i]);
    uint32_t at = entry.counters + Metering::kWordsOfMeter;
    for (const Meter::Band& band : meter.bands) {
        Bucket bucket;
        bucket.counters = at;
        at += Metering::kWordsOfBand;
        const double unit = meter.by_packets ? 1 : 125;  // bytes of a kilobit
        bucket.rate = unit * band.rate;
        const double burst = band.burst != 0 ? unit * band.burst : kDefaultBurstSeconds * bucket.rate;
        bucket.burst = std::max(burst, meter.by_packets ? kLeastBurstPackets : kLeastBurstBytes);
        bucket.tokens = bucket.burst;
        bucket.used = (*counters_)[bucket.counters];
        bucket.allowed = bucket.used + static_cast<uint64_t>(bucket.tokens);
        entry.buckets.push_back(bucket);
    }
    ids_[meter.id] = static_cast<uint32_t>(slot);
    entry.meter = std::move(meter);
    made_.reset();
}

void MeterRates::remove(uint32_t id) {
    const auto found = ids_.find(id);
    if (found == ids_.end()) return;
    Entry& entry = entries_[found->second];
    leave_place(entry);
    entry.gone = true;
    ids_.erase(found);
    made_.reset();
}

std::vector<Meter> MeterRates::meters() const {
    std::vector<Meter> all;
    for (const Entry& entry : entries_)
        if (!entry.gone) all.push_back(entry.meter);
    std::sort(all.begin(), all.end(), [](const Meter& a, const Meter& b) { return a.id < b.id; });
    return all;
}

uint64_t MeterRates::counter(const Entry& entry, uint32_t offset) const {
    return __atomic_load_n(&(*counters_)[entry.counters + offset], __ATOMIC_RELAXED) - entry.first[offset];
}

MeterCounts MeterRates::counts(uint32_t id) const {
    const auto found = ids_.find(id);
    if (found == ids_.end()) return {};
    const Entry& entry = entries_[found->second];
    return {counter(entry, 0), counter(entry, 1)};
}

MeterCounts MeterRates::band_counts(uint32_t id, size_t band) const {
    const auto found = ids_.find(id);
    if (found == ids_.end()) return {};
    const Entry& entry = entries_[found->second];
    const auto at = static_cast<uint32_t>(Metering::kWordsOfMeter + Metering::kWordsOfBand * band);
    return {counter(entry, at + 1), counter(entry, at + 2)};
}

bool MeterRates::refill(Clock::time_point now) {
    if (ids_.empty() || now <= filled_) return false;
    const double seconds = std::chrono::duration<double>(now - filled_).count();
    filled_ = now;
    bool more = false;
    for (Entry& entry : entries_) {
        if (entry.gone) continue;
        for (Bucket& bucket : entry.buckets) {
            const uint64_t used = __atomic_load_n(&(*counters_)[bucket.counters], __ATOMIC_RELAXED);
            // Some batch may be about to give back what it could not take: then there seems to be less than before.
            const double taken = used > bucket.used ? static_cast<double>(used - bucket.used) : 0;
            bucket.used = std::max(bucket.used, used);
            bucket.tokens = std::min(std::max(bucket.tokens - taken, -bucket.burst) + seconds * bucket.rate,
                                     bucket.burst);
            const double allowed = static_cast<double>(bucket.used) + std::max(bucket.tokens, 0.0);
            if (static_cast<uint64_t>(allowed) > bucket.allowed) {
                bucket.allowed = static_cast<uint64_t>(allowed);
                more = true;
            }
        }
    }
    if (more) made_.reset();
    return more;
}

std::shared_ptr<const MeterTables> MeterRates::tables() {
    if (made_ != nullptr) return made_;
    auto made = std::make_shared<MeterTables>();
    std::vector<Switch::Meter> by_slot;
    std::vector<Switch::Band> bands;
    std::vector<uint64_t> allowed;
    made->slots = ids_;
    for (const Entry& entry : entries_) {
        const auto first = static_cast<uint32_t>(bands.size());
        made->meters.push_back(entry.gone ? Meter{} : entry.meter);
        std::vector<size_t> order(entry.gone ? 0 : entry.buckets.size());
        std::iota(order.begin(), order.end(), size_t{0});
        std::stable_sort(order.begin(), order.end(),
                         [&](size_t a, size_t b) { return entry.meter.bands[a].rate > entry.meter.bands[b].rate; });
        for (const size_t band : order) {
            bands.push_back({entry.buckets[band].counters, entry.meter.bands[band].precedence});
            allowed.push_back(entry.buckets[band].allowed);
        }
        by_slot.push_back(
            {first, static_cast<uint32_t>(order.size()), entry.counters, entry.meter.by_packets ? 1u : 0u});
    }
    made->by_slot = std::make_shared<const std::vector<Switch::Meter>>(std::move(by_slot));
    made->bands = std::make_shared<const std::vector<Switch::Band>>(std::move(bands));
    made->allowed = std::make_shared<const std::vector<uint64_t>>(std::move(allowed));
    made->counters = counters_;
    made->counters_in_use = std::bit_ceil(std::max<size_t>(places_, 64));
    made_ = made;
    return made_;
}

}  // namespace millrace::nf::flow_switch
