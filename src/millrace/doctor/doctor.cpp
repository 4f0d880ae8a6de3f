#include "millrace/doctor/doctor.hpp"

#include "millrace/doctor/parts.hpp"

namespace millrace::doctor {

std::vector<Finding> examine_machine() {
    std::vector<Finding> findings;
    examine_memory(findings);
    examine_cpu(findings);
    examine_network(findings);
    examine_gpu(findings);
    examine_rights(findings);
    examine_libraries(findings);
    return findings;
}

}  // namespace millrace::doctor
