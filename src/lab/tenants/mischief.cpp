#include "lab/tenants/mischief.hpp"

#include <fmt/format.h>
#include <sys/socket.h>

#include <algorithm>
#include <chrono>
#include <iostream>
#include <optional>
#include <stdexcept>
#include <thread>

#include "millrace/tenancy/gpu/half.hpp"
#include "millrace/tenancy/member/member.hpp"

namespace millrace::lab {
namespace {

using namespace std::chrono_literals;

/// A function that goes round so many times, and gives each packet its first outcome; 0: without end. The count is
/// kept in memory, so that nobody leaves the loop out.
std::string looping_ptx(const std::string& architecture, uint32_t rounds) {
    const std::string leave = rounds == 0 ? "" : fmt::format("setp.ge.u32 %p1, %r1, {};\n@%p1 bra done;\n", rounds);
    return fmt::format(
        ".version 8.0\n.target {}\n.address_size 64\n"
        ".visible .func (.param .align 4 .b8 result[8]) goes_round(.param .b64 packet, .param .b64 tables)\n{{\n"
        ".reg .pred %p<2>;\n.reg .b32 %r<3>;\n.reg .b64 %rd<2>;\n"
        "ld.param.u64 %rd1, [tables];\nmov.u32 %r1, 0;\n"
        "again:\nadd.u32 %r1, %r1, 1;\nst.u32 [%rd1], %r1;\n{}bra again;\n"
        "done:\nmov.u32 %r2, 0;\nst.param.b32 [result], %r2;\nst.param.b32 [result+4], %r2;\nret;\n}}\n",
        architecture, leave);
}

tenancy::DeviceHalf looping_half(const std::string& architecture, uint32_t rounds) {
    tenancy::DeviceHalf half;
    half.ptx = looping_ptx(architecture, rounds);
    half.function = "goes_round";
    half.to_terms = {0};
    half.tables.resize(64);
    return half;
}

/// All go on as they came.
void let_pass(const tenancy::Member::Batch& batch) {
    for (uint32_t i = 0; i < batch.count; ++i) {
        const auto in = batch.in(i);
        const auto back = batch.back(i);
        batch.outcome(i) = 0;
        std::copy_n(in.begin(), std::min(in.size(), back.size()), back.begin());
    }
}

}  // namespace

void misbehave(const std::string& what, const std::string& manager, const std::string& name) {
    // Some hundred us of a GPU for each batch, and less than its budget.
    constexpr uint32_t kRounds = 60'000;
    const auto* const known = std::ranges::find(kMischiefs, what);
    if (known == std::end(kMischiefs)) throw std::invalid_argument("'" + what + "' is no mischief");
    const bool loops = what == "loops", floods = what == "floods";
    while (true) {
        std::optional<tenancy::Member> member;
        try {
            member.emplace(manager, name);
        } catch (const std::runtime_error& e) {
            std::cerr << e.what() << "\n";
            std::this_thread::sleep_for(50ms);
            continue;
        }
        if (!floods && !member->architecture().empty())
            member->offer(
                tenancy::sealed_memory(half_bytes(looping_half(member->architecture(), loops ? 0 : kRounds)))->get());
        while (member->attached()) {
            if (const auto placed = member->placement()) std::cerr << placed->text << "\n";
            if (floods) {
                const uint64_t nonsense = 0x1234;
                send(member->socket(), &nonsense, sizeof nonsense, MSG_NOSIGNAL | MSG_DONTWAIT);
            }
            const auto batch = member->next(floods ? 1ms : 5ms);
            if (!batch) continue;
            // Its process keeps a core busy and says nothing.
            if (loops && member->architecture().empty()) {
                for (const auto end = std::chrono::steady_clock::now() + 50ms;
                     std::chrono::steady_clock::now() < end;) {
                }
                continue;
            }
            if (!floods) std::this_thread::sleep_for(2ms);
            let_pass(*batch);
            member->answer(*batch);
        }
        std::cerr << "detached: " << member->why() << "\n";
    }
}

}  // namespace millrace::lab
