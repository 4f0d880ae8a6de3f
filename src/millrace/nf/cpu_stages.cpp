#include "millrace/nf/cpu_stages.hpp"

#include "millrace/nf/nf.hpp"

namespace millrace::nf {

CpuStages cpu_stages_of(const NetworkFunction& function) {
    return {dynamic_cast<const BeforeDevice*>(&function) != nullptr,
            dynamic_cast<const AfterDevice*>(&function) != nullptr};
}

}  // namespace millrace::nf
