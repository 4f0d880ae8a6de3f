#include "millrace/io/kernel/ingress_drop.hpp"

#include <linux/pkt_cls.h>

#include <array>
#include <cerrno>
#include <cstdint>
#include <cstring>
#include <stdexcept>

#include "millrace/io/kernel/bpf.hpp"

namespace millrace::io {
namespace {

// Younger than some distributions' headers (BPF_TCX_INGRESS).
constexpr uint32_t kTcxIngress = 46;

[[noreturn]] void fail_by_error() {
    throw std::runtime_error(errno == EINVAL ? "it takes Linux 6.6" : std::strerror(errno));
}

}  // namespace

IngressDrop::IngressDrop(int interface) {
    // r0 = TC_ACT_SHOT; exit. As kernels have instructions: code, registers, offset, value.
    struct Instruction {
        uint8_t code, registers;
        int16_t offset;
        int32_t value;
    };
    const std::array<Instruction, 2> code{
        {{BPF_ALU64 | BPF_MOV | BPF_K, 0, 0, TC_ACT_SHOT}, {BPF_JMP | BPF_EXIT, 0, 0, 0}}};
    bpf_attr request{};
    request.prog_type = BPF_PROG_TYPE_SCHED_CLS;
    request.insns = reinterpret_cast<uintptr_t>(code.data());
    request.insn_cnt = code.size();
    request.license = reinterpret_cast<uintptr_t>("");
    std::memcpy(request.prog_name, "millrace", sizeof "millrace");
    program_ = Descriptor(bpf(BPF_PROG_LOAD, request));
    if (program_.get() < 0) fail_by_error();
    request = {};
    request.link_create.prog_fd = static_cast<uint32_t>(program_.get());
    request.link_create.target_ifindex = static_cast<uint32_t>(interface);
    request.link_create.attach_type = static_cast<bpf_attach_type>(kTcxIngress);
    link_ = Descriptor(bpf(BPF_LINK_CREATE, request));
    if (link_.get() < 0) fail_by_error();
}

}  // namespace millrace::io
