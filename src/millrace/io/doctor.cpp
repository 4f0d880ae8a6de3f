#include "millrace/io/doctor.hpp"

#include "millrace/io/doctor_parts.hpp"

namespace millrace::io {

std::vector<Finding> examine_machine() {
    std::vector<Finding> findings;
    doctor::examine_memory(findings);
    doctor::examine_cpu(findings);
    doctor::examine_network(findings);
    doctor::examine_gpu(findings);
    doctor::examine_rights(findings);
    doctor::examine_libraries(findings);
    return findings;
}

}  // namespace millrace::io
