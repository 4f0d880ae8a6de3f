#include "millrace/nf/flows/timeouts.hpp"

#include <string>
#include <vector>

namespace millrace::nf::flows {

void read_timeouts(const std::optional<Config>& given, std::span<const Timeout> all, uint64_t* kept_ns) {
    constexpr uint64_t kSecond = 1'000'000'000;
    std::vector<std::string> known;
    for (const Timeout& timeout : all) {
        known.emplace_back(timeout.name);
        kept_ns[timeout.kind] = timeout.seconds * kSecond;
    }
    if (!given) return;
    given->only(known);
    for (const Timeout& timeout : all) {
        const auto own = given->find(timeout.name);
        if (!own) continue;
        const auto ns = own->duration().count();
        if (ns <= 0) own->fail("a time-out of 0 forgets connections at once", "write 30s");
        kept_ns[timeout.kind] = static_cast<uint64_t>(ns);
    }
}

}  // namespace millrace::nf::flows
