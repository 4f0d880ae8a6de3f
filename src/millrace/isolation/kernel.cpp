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

/// The packet in %rd2 and the tables in %rd4; the decision's words in %r3 and %r4. Names are the rewriter's: ptxas does
/// not survive a variable of the module that is called as one of these is.
constexpr const char* kCall = R"({{
.param .b64 fence_packet;
.param .b64 fence_own;
.param .align {0} .b8 fence_given[8];
st.param.b64 [fence_packet], %rd2;
st.param.b64 [fence_own], %rd4;
call (fence_given), {1}, (fence_packet, fence_own);
ld.param.b32 %r3, [fence_given];
ld.param.b32 %r4, [fence_given+4];
}}
)";

/// "%ctaid.x * %ntid.x + %tid.x" is the packet.
constexpr const char* kBegin = R"(
.visible .entry fence_kernel(
.param .b64 fence_packets, .param .b64 fence_stride, .param .b64 fence_tables, .param .b64 fence_decisions,
.param .b32 fence_count)
{{
.reg .pred %p<2>;
.reg .b32 %r<5>;
.reg .b64 %rd<7>;
mov.u32 %r1, %ctaid.x;
mov.u32 %r2, %ntid.x;
mov.u32 %r3, %tid.x;
mad.lo.s32 %r1, %r1, %r2, %r3;
ld.param.b32 %r2, [fence_count];
setp.ge.u32 %p1, %r1, %r2;
@%p1 bra $fence_end;
cvt.u64.u32 %rd1, %r1;
ld.param.b64 %rd2, [fence_packets];
ld.param.b64 %rd3, [fence_stride];
mad.lo.s64 %rd2, %rd1, %rd3, %rd2;
ld.param.b64 %rd4, [fence_tables];
ld.param.b64 %rd5, [fence_decisions];
shl.b64 %rd1, %rd1, 3;
add.s64 %rd5, %rd5, %rd1;
{0}st.global.b32 [%rd5], %r3;
st.global.b32 [%rd5+4], %r4;
$fence_end:
ret;
}}
)";

constexpr const char* kFunction = R"(
.visible .func (.param .b64 fence_decision) {1}(.param .b64 fence_handle, .param .b64 fence_tables)
{{
.reg .b32 %r<5>;
.reg .b64 %rd<5>;
ld.param.b64 %rd2, [fence_handle];
ld.param.b64 %rd4, [fence_tables];
{0}mov.b64 %rd1, {{%r3, %r4}};
st.param.b64 [fence_decision], %rd1;
ret;
}}
)";

std::string call_of(const FencedText& fenced) { return fmt::format(kCall, fenced.decision_alignment, fenced.process); }

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

FencedText write_fenced(ptx::Module fenced, const std::string& name) {
    const ptx::Function& process = *find(fenced, name);
    const uint32_t alignment = process.variables[process.results[0]].aligned_to();
    // What several modules call alike is each one's own when they are linked.
    for (ptx::Function& function : fenced.functions) {
        function.visible = false;
        if (function.entry) function.defined = false;  // a kernel of others, which nobody launches
    }
    return {ptx::write(fenced), name, alignment};
}

std::string with_kernel(const FencedText& fenced) { return fenced.text + fmt::format(kBegin, call_of(fenced)); }

std::string function_name(unsigned number) { return fmt::format("fence_function_{}", number); }

std::string as_function(const FencedText& fenced, unsigned number) {
    return fenced.text + fmt::format(kFunction, call_of(fenced), function_name(number));
}

}  // namespace millrace::isolation
