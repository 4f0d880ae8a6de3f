#include "millrace/nf/state/keyed_table.hpp"

#include <algorithm>
#include <bit>
#include <random>
#include <thread>

namespace millrace::nf {
namespace {

std::string most_name(const std::string& what) { return "max-" + what; }

}  // namespace

std::vector<std::string> KeyedOptions::names(const std::string& what) {
    return {most_name(what), "timeout", "when-full"};
}

KeyedOptions KeyedOptions::read(const Config& options, const std::string& what, const KeyedOptions& usual) {
    KeyedOptions own = usual;
    if (const auto most = options.find(most_name(what))) {
        own.most = most->size();
        if (own.most == 0 || own.most > kMaxKeyed)
            most->fail("'" + most_name(what) + "' is from 1 to 16 Mi",
                       "each takes some memory twice, where it runs and on the host");
    }
    if (const auto timeout = options.find("timeout")) {
        own.timeout_ns = static_cast<uint64_t>(timeout->duration().count());
        if (own.timeout_ns == 0) timeout->fail("a time-out of 0 forgets everything at once", "write timeout: 60s");
    }
    if (const auto full = options.find("when-full"))
        own.when_full = full->choice({"refuse", "evict"}) == 0 ? WhenFull::refuse : WhenFull::evict;
    own.journal = options.boolean_or("journal", own.journal);
    return own;
}

uint32_t keyed_buckets(uint64_t most, uint32_t ways) {
    const uint64_t half_full = (std::max<uint64_t>(most, 1) * 2 + ways - 1) / ways;
    return static_cast<uint32_t>(std::bit_ceil(half_full));
}

uint64_t keyed_seed(bool live) {
    constexpr uint64_t kFixed = 0x9e3779b97f4a7c15ull;
    if (!live) return kFixed;
    std::random_device source;
    return uint64_t{source()} << 32 | source();
}

void make_state_present(const NetworkFunction& function, bool on_cpu) {
    if (on_cpu) function.image().make_resident_present();
    if (const auto* keeps = dynamic_cast<const KeepsJournal*>(&function); keeps != nullptr && keeps->keeps_journal())
        keeps->make_present();
}

uint64_t sum_of_parts(uint64_t count, const std::function<uint64_t(uint64_t first, uint64_t end)>& of_part) {
    constexpr uint64_t kShare = 1 << 18;  // starting a thread costs as much as some of them
    const uint64_t threads = std::clamp<uint64_t>(count / kShare, 1, std::max(1u, std::thread::hardware_concurrency()));
    const uint64_t share = (count + threads - 1) / threads;
    std::atomic<uint64_t> sum{0};
    std::vector<std::jthread> others;
    for (uint64_t at = share; at < count; at += share)
        others.emplace_back([&, at] { sum += of_part(at, std::min(at + share, count)); });
    sum += of_part(0, std::min(share, count));
    others.clear();
    return sum;
}

std::vector<Statistic> keyed_statistics(const std::vector<uint64_t>& counts, uint64_t lost) {
    const auto of = [&](KeyedCount what) { return counts[static_cast<size_t>(what)]; };
    const uint64_t gone = of(KeyedCount::expired) + of(KeyedCount::removed) + of(KeyedCount::evicted);
    return {
        {"entries", of(KeyedCount::created) - std::min(gone, of(KeyedCount::created)), "keys that have state now"},
        {"entries-created", of(KeyedCount::created), "keys that were new"},
        {"entries-expired", of(KeyedCount::expired), "entries that have timed out"},
        {"entries-evicted", of(KeyedCount::evicted), "entries that had to make room for new ones"},
        {"entries-refused", of(KeyedCount::refused), "packets whose key was new and found no room"},
        {"entries-lost", lost, "entries that went with a device, or with a table of another size"},
        {"decided-ahead", of(KeyedCount::ahead), "packets that a GPU has decided on ahead of sequence"},
        {"decided-together", of(KeyedCount::together),
         "packets that a GPU has decided on together with others of their key"},
        {"decided-by-scan", of(KeyedCount::scanned), "of these, packets that it has decided on in one pass"},
    };
}

}  // namespace millrace::nf
