#include "millrace/cli/text/stages_text.hpp"

#include "millrace/cli/text/table.hpp"

namespace millrace::cli {

std::string stages_text(const std::string& tenant, const std::map<std::string, exec::TenantReport::Times>& stages) {
    std::string times;
    for (const char* const stage : {"before", "device", "after"})
        if (const auto own = stages.find(stage); own != stages.end())
            times += (times.empty() ? "" : ", ") + std::string(stage) + " " + time_text(own->second.p50_ns);
    return times.empty() ? ""
                         : "tenant " + tenant + " has CPU stages; half of its batches take at most: " + times + "\n";
}

}  // namespace millrace::cli
