#include "millrace/isolation/kernel.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/isolation/ptx/writer.hpp"

namespace millrace::isolation {
namespace {

constexpr uint64_t kDecisionBytes = 8;

const ptx::Function* find(const ptx::Module& module, const std::string& name) {
    const auto found = std::ranges::find_if(
        module.functions, [&](const ptx::Function& function) { return function.name == name && function.defined; });
    return found == module.functions.end() ? nullptr : &*found;
}

/// "%ctaid.x * %ntid.x + %tid.x" is the packet.
constexpr const char* kBegin = R"(
.visible .entry fence_kernel(
.param .b64 packets, .param .b64 stride, .param .b64 tables, .param .b64 decisions, .param .b32 count)
{{
.reg .pred %p<2>;
.reg .b32 %r<5>;
.reg .b64 %rd<7>;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %tid.x;
mad.lo.s32 %r1, %r1, %r2, %r3;
ld.param.b32 %r2, [count];
setp.ge.u32 %p1, %r1, %r2;
@%p1 bra END;
cvt.u64.u32 %rd1, %r1;
ld.param.b64 %rd2, [packets];
ld.param.b64 %rd3, [stride];
mad.lo.s64 %rd2, %rd1, %rd3, %rd2;
ld.param.b64 %rd4, [tables];
ld.param.b64 %rd5, [decisions];
shl.b64 %rd1, %rd1, 3;
add.s64 %rd5, %rd5, %rd1;
{{
.param .b64 packet;
.param .b64 own;
.param .align {0} .b8 given[8];
st.param.b64 [packet], %rd2;
st.param.b64 [own], %rd4;
call (given), {1}, (packet, own);
ld.param.b32 %r3, [given];
ld.param.b32 %r4, [given+4];
}}
st.global.b32 [%rd5], %r3;
st.global.b32 [%rd5+4], %r4;
END:
ret;
}}
)";

}  // namespace

std::string why_not_process(const ptx::Module& module, const std::string& name) {
    const ptx::Function* const function = find(module, name);
    if (function == nullptr || function->entry || !function->visible)
        return fmt::format("there is no function '{}' that others may call", name);
    const auto variable = [&](uint32_t index) -> const ptx::Variable& { return function->variables[index]; };
    const bool takes = function->parameters.size() == 2 &&
                       std::ranges::all_of(function->parameters, [&](uint32_t index) {
                           return !variable(index).array && variable(index).type.bytes() == 8;
                       });
    if (!takes) return fmt::format("'{}' does not take the addresses of a packet and of tables", name);
    // The kernel reads it by words.
    const bool gives = function->results.size() == 1 && variable(function->results[0]).type.bits == 8 &&
                       variable(function->results[0]).bytes() == kDecisionBytes &&
                       variable(function->results[0]).aligned_to() >= 4;
    return gives ? "" : fmt::format("'{}' does not give a decision, which has {} bytes", name, kDecisionBytes);
}

std::string write_with_kernel(const ptx::Module& fenced, const std::string& name) {
    const ptx::Function& function = *find(fenced, name);
    const uint32_t alignment = function.variables[function.results[0]].aligned_to();
    return ptx::write(fenced) + fmt::format(kBegin, alignment, name);
}

}  // namespace millrace::isolation
