#include "millrace/tenancy/member/offering.hpp"

#include <stdexcept>

namespace millrace::tenancy {

void Offering::begin(const Member& member) {
    due_ = false;
    if (member.architecture().empty()) throw std::runtime_error("the run takes no device half of it");
    host_.check_device_half();
    if (architecture_ != member.architecture()) {
        architecture_ = member.architecture();
        ptx_ = std::async(std::launch::async, [this, wanted = architecture_] { return host_.compile_half(wanted); });
    }
    due_ = true;
}

void Offering::go_on(Member& member) {
    if (!due_ || ptx_.wait_for(std::chrono::seconds(0)) != std::future_status::ready) return;
    due_ = false;
    member.offer(sealed_memory(half_bytes(host_.device_half(ptx_.get())))->get());
}

}  // namespace millrace::tenancy
