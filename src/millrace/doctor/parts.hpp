// The doctor's single examinations. Private to doctor/.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

#include "millrace/doctor/doctor.hpp"

namespace millrace::doctor {

using Findings = std::vector<Finding>;

void examine_memory(Findings& findings);
void examine_cpu(Findings& findings);
void examine_network(Findings& findings);
void examine_gpu(Findings& findings);
void examine_rights(Findings& findings);
void examine_libraries(Findings& findings);

inline void ok(Findings& findings, std::string group, std::string name, std::string value) {
    findings.push_back({std::move(group), std::move(name), Finding::State::ok, std::move(value), {}, {}});
}
inline void note(Findings& findings, std::string group, std::string name, std::string value) {
    findings.push_back({std::move(group), std::move(name), Finding::State::note, std::move(value), {}, {}});
}
/// What only some uses need.
inline void absent(Findings& findings, std::string group, std::string name, std::string value, std::string cost,
                   std::string remedy) {
    findings.push_back({std::move(group), std::move(name), Finding::State::optional, std::move(value), std::move(cost),
                        std::move(remedy)});
}
inline void missing(Findings& findings, std::string group, std::string name, std::string value, std::string cost,
                    std::string remedy) {
    findings.push_back({std::move(group), std::move(name), Finding::State::missing, std::move(value), std::move(cost),
                        std::move(remedy)});
}

/// The first line of a small file such as those below /sys; empty when it cannot be read.
std::string first_line(const std::string& path);
/// What stands behind `key` and a colon in a file such as /proc/cpuinfo; empty when it is not there.
std::string field_of(const std::string& path, const std::string& key);
/// The last part of what a link points to; empty when it is no link.
std::string link_name(const std::string& path);

}  // namespace millrace::doctor
