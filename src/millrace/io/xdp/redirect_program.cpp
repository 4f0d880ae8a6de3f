#include "millrace/io/xdp/redirect_program.hpp"

#include <linux/if_link.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <vector>

#include "millrace/io/kernel/bpf.hpp"
#include "millrace/io/xdp/kernel_functions.hpp"

namespace millrace::io {
namespace {

// Younger than some distributions' headers: the program is for one interface, and may ask its driver of frames.
constexpr uint32_t kBoundToDevice = 1u << 6;

/// As kernels have it (Documentation/bpf/standardization/instruction-set.rst). Their own name for it is libpcap's, too.
struct Instruction {
    uint8_t code;
    uint8_t registers;  // to, and from in the upper half
    int16_t offset;
    int32_t value;
};
static_assert(sizeof(Instruction) == 8);

/// Writes a program.
class Assembler {
public:
    enum Register : uint8_t { r0, r1, r2, r3, r4, r5, r6, r7, r8, r9, stack };
    enum Size : uint8_t { word = BPF_W, half = BPF_H };

    void move(Register to, Register from) { add(BPF_ALU64 | BPF_MOV | BPF_X, to, from, 0, 0); }
    void set(Register to, int32_t value) { add(BPF_ALU64 | BPF_MOV | BPF_K, to, 0, 0, value); }
    void plus(Register to, int32_t value) { add(BPF_ALU64 | BPF_ADD, to, 0, 0, value); }
    void shift_left(Register to, int32_t bits) { add(BPF_ALU64 | BPF_LSH | BPF_K, to, 0, 0, bits); }
    void join(Register to, Register from) { add(BPF_ALU64 | BPF_OR | BPF_X, to, from, 0, 0); }
    /// From the network's order.
    void to_host(Register to) { add(BPF_ALU | BPF_END | BPF_TO_BE, to, 0, 0, 16); }
    void load(Size size, Register to, Register from, int16_t offset) {
        add(static_cast<uint8_t>(BPF_LDX | BPF_MEM | size), to, from, offset, 0);
    }
    void store(Size size, Register to, int16_t offset, Register from) {
        add(static_cast<uint8_t>(BPF_STX | BPF_MEM | size), to, from, offset, 0);
    }
    void set_map(Register to, int map) {
        add(BPF_LD | BPF_DW, to, BPF_PSEUDO_MAP_FD, 0, map);
        add(0, 0, 0, 0, 0);
    }
    void call(int32_t helper) { add(BPF_JMP | BPF_CALL, 0, 0, 0, helper); }
    void call_kernel(uint32_t function) {
        add(BPF_JMP | BPF_CALL, 0, BPF_PSEUDO_KFUNC_CALL, 0, static_cast<int32_t>(function));
    }
    void leave() { add(BPF_JMP | BPF_EXIT, 0, 0, 0, 0); }
    /// A jump over what is yet to come, until `here`.
    size_t unless_zero(Register what) { return jump(BPF_JMP | BPF_JNE | BPF_K, what, 0); }
    size_t if_above(Register what, Register bound) { return jump(BPF_JMP | BPF_JGT | BPF_X, what, bound); }
    void here(size_t jump) { code_[jump].offset = static_cast<int16_t>(code_.size() - jump - 1); }
    const std::vector<Instruction>& code() const { return code_; }

private:
    size_t jump(uint8_t code, uint8_t what, uint8_t bound) {
        add(code, what, bound, 0, 0);
        return code_.size() - 1;
    }
    void add(uint8_t code, uint8_t to, uint8_t from, int16_t offset, int32_t value) {
        code_.push_back({code, static_cast<uint8_t>(to | from << 4), offset, value});
    }
    std::vector<Instruction> code_;
};

/// Puts the tag that stands beside the frame before it, where there is room. `vlan_tag` is kVlanTagFunction.
void put_tag(Assembler& code, uint32_t vlan_tag) {
    using enum Assembler::Register;
    using enum Assembler::Size;
    code.set(r7, 0);
    code.store(word, stack, -4, r7);
    code.move(r1, r6);
    code.move(r2, stack);
    code.plus(r2, -4);
    code.move(r3, stack);
    code.plus(r3, -2);
    code.call_kernel(vlan_tag);
    const size_t has_none = code.unless_zero(r0);
    code.load(half, r7, stack, -4);
    code.to_host(r7);
    code.shift_left(r7, 16);
    code.load(half, r1, stack, -2);
    code.join(r7, r1);
    code.here(has_none);
    code.move(r1, r6);
    code.set(r2, -static_cast<int32_t>(RedirectProgram::kTagBytes));
    code.call(BPF_FUNC_xdp_adjust_meta);
    const size_t has_no_room = code.unless_zero(r0);
    code.load(word, r1, r6, offsetof(xdp_md, data_meta));
    code.load(word, r2, r6, offsetof(xdp_md, data));
    code.move(r3, r1);
    code.plus(r3, RedirectProgram::kTagBytes);
    const size_t is_beyond = code.if_above(r3, r2);
    code.store(word, r1, 0, r7);
    code.here(has_no_room);
    code.here(is_beyond);
}

/// `vlan_tag`: 0 where the kernel has no such function.
std::vector<Instruction> program(int map, uint32_t vlan_tag) {
    using enum Assembler::Register;
    Assembler code;
    code.move(r6, r1);
    if (vlan_tag != 0) put_tag(code, vlan_tag);
    code.load(Assembler::word, r2, r6, offsetof(xdp_md, rx_queue_index));
    code.set_map(r1, map);
    code.set(r3, XDP_PASS);
    code.call(BPF_FUNC_redirect_map);
    code.leave();
    return code.code();
}

[[noreturn]] void fail_by_error(const std::string& what) {
    const bool is_forbidden = errno == EPERM || errno == EACCES;
    throw std::runtime_error(
        what + ": " + std::strerror(errno) +
        (is_forbidden ? "; it takes the rights CAP_BPF, CAP_NET_ADMIN and CAP_NET_RAW: run as root, or setcap "
                        "cap_bpf,cap_net_admin,cap_net_raw+ep on the program"
                      : ""));
}

int make_map(uint32_t queues) {
    bpf_attr request{};
    request.map_type = BPF_MAP_TYPE_XSKMAP;
    request.key_size = request.value_size = sizeof(uint32_t);
    request.max_entries = queues;
    const int fd = bpf(BPF_MAP_CREATE, request);
    if (fd < 0) fail_by_error("no map of AF_XDP sockets");
    return fd;
}

/// Negative where the kernel does not take it.
int load(int map, uint32_t vlan_tag, int interface) {
    const std::vector<Instruction> code = program(map, vlan_tag);
    // Who calls functions of the kernel has to be under its licence, too. The instructions of `program`, alone of all
    // that is Millrace's, may be used under the MIT licence and the GPL, version 2, as well.
    static constexpr char kLicence[] = "Dual MIT/GPL";
    bpf_attr request{};
    request.prog_type = BPF_PROG_TYPE_XDP;
    request.expected_attach_type = BPF_XDP;
    request.insns = reinterpret_cast<uintptr_t>(code.data());
    request.insn_cnt = static_cast<uint32_t>(code.size());
    request.license = reinterpret_cast<uintptr_t>(kLicence);
    std::memcpy(request.prog_name, "millrace", sizeof "millrace");
    if (vlan_tag != 0) {
        request.prog_flags = kBoundToDevice;
        request.prog_ifindex = static_cast<uint32_t>(interface);
    }
    return bpf(BPF_PROG_LOAD, request);
}

/// Negative where it can't be.
int attach(int program, int interface, uint32_t mode) {
    bpf_attr request{};
    request.link_create.prog_fd = static_cast<uint32_t>(program);
    request.link_create.target_ifindex = static_cast<uint32_t>(interface);
    request.link_create.attach_type = BPF_XDP;
    request.link_create.flags = mode;
    return bpf(BPF_LINK_CREATE, request);
}

/// What keeps the program from the interface, by the last error.
[[noreturn]] void refuse(const std::string& name) {
    switch (errno) {
        case EBUSY:
        case EEXIST:
            throw std::runtime_error("another XDP program is at the interface " + name +
                                     "; end who put it there, or "
                                     "'ip link set dev NAME xdp off' ('bpftool net' shows it)");
        case ERANGE:
            throw std::runtime_error("the MTU at the other end of " + name +
                                     " is too long for XDP; set a shorter one "
                                     "there, 3498 at most");
        case ENOSPC:
            throw std::runtime_error("the other end of " + name +
                                     " sends by more queues than this one receives by; "
                                     "'ethtool -L' there or here makes them equal");
        default: fail_by_error("XDP can't be had at the interface " + name);
    }
}

}  // namespace

RedirectProgram::RedirectProgram(int interface, const std::string& name, uint32_t queues) : map_(make_map(queues)) {
    if (const uint32_t vlan_tag = kernel_function(kVlanTagFunction); vlan_tag != 0)
        program_ = Descriptor(load(map_.get(), vlan_tag, interface));
    tells_tags_ = program_.get() >= 0;
    if (!tells_tags_) program_ = Descriptor(load(map_.get(), 0, interface));
    if (program_.get() < 0) fail_by_error("the kernel does not take an XDP program");
    link_ = Descriptor(attach(program_.get(), interface, XDP_FLAGS_DRV_MODE));
    if (link_.get() < 0 && errno == EOPNOTSUPP) {
        is_in_driver_ = false;
        if (tells_tags_)
            program_ = Descriptor(load(map_.get(), 0, interface));  // one that is for a driver goes nowhere else
        tells_tags_ = false;
        link_ = Descriptor(attach(program_.get(), interface, XDP_FLAGS_SKB_MODE));
    }
    if (link_.get() < 0) refuse(name);
}

void RedirectProgram::redirect(uint32_t queue, int socket) {
    const auto value = static_cast<uint32_t>(socket);
    bpf_attr request{};
    request.map_fd = static_cast<uint32_t>(map_.get());
    request.key = reinterpret_cast<uintptr_t>(&queue);
    request.value = reinterpret_cast<uintptr_t>(&value);
    if (bpf(BPF_MAP_UPDATE_ELEM, request) != 0) fail_by_error("an AF_XDP socket does not get its queue");
}

}  // namespace millrace::io
