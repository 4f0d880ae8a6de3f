// Alerts as lines of JSON in Suricata's EVE format (Suricata User Guide, "Eve JSON Format").
#pragma once

#include <string>

#include "millrace/nf/nf.hpp"
#include "millrace/nf/nids/rules/rule_files.hpp"

namespace millrace::nf::nids {

/// The line of one alert, without its LF.
std::string eve_line(const Rule& rule, const Classifications& classes, const Event& event, const nf::PacketInfo& info);

}  // namespace millrace::nf::nids
