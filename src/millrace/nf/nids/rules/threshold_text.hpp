// Reading `threshold`, `detection_filter` and `event_filter`.
#pragma once

#include <string_view>

#include "millrace/nf/nids/rules/rule.hpp"

namespace millrace::nf::nids {

/// Reads `type limit, track by_src, count 1, seconds 60` (a detection filter has no type). Throws RuleError.
Threshold read_threshold(std::string_view value, size_t at, bool detection_filter);

}  // namespace millrace::nf::nids
