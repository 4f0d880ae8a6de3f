// Rules that change while headers are looked up.
#pragma once

#include "lab/lookup/lookup_run.hpp"

namespace millrace::lab {

struct ChangeOptions {
    double changes_per_second = 10'000;  ///< asked for
    double keys_per_second = 0;          ///< headers that come meanwhile
};

struct ChangeRate {
    double changes_per_second = 0;  ///< that came to work
    double generations_per_second = 0;
    double delay_p50_ms = 0, delay_highest_ms = 0;  ///< of a change, from when it was asked for until the device's
                                                    ///< tables have it
    LookupRun::Paced lookups;
    size_t checked = 0, mistakes = 0;  ///< of the last generation
};

/// Adds and removes rules one by one at a fixed pace, an eighth of the set being away at any time. As the switch does
/// it, all that have come due while one generation of tables was made become the next; batches take it over between
/// them, and none waits.
ChangeRate measure_changes(device::Device& device, const LookupSet& set, Engine engine, unsigned lanes, LookupRun& run,
                           double seconds, const ChangeOptions& options);

}  // namespace millrace::lab
