// Alerts as lines of JSON in Suricata's EVE format (Suricata User Guide, "Eve JSON Format").
#pragma once

#include <string>

#include "millrace/nf/nf.hpp"
#include "millrace/nf/nids/rules/rule_files.hpp"

namespace millrace::nf::nids {

/// The line of one alert, without its LF.
std::string eve_line(const Rule& rule, const Classifications& classes, const Event& event, const nf::PacketInfo& info);

/// The line of something that is no rule's: of `event_type` anomaly, `name` as Suricata's decoders have it.
std::string anomaly_line(const char* name, const Event& event, const nf::PacketInfo& info);

}  // namespace millrace::nf::nids
