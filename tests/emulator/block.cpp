#include "block.hpp"

#include "ptx.hpp"

#include <sched.h>
#include <setjmp.h>
#include <signal.h>
#include <sys/mman.h>
#include <ucontext.h>
#include <unistd.h>

#include <algorithm>
#include <chrono>
#include <cstdio>
#include <cstring>
#include <deque>
#include <memory>
#include <mutex>
#include <random>
#include <stdexcept>
#include <vector>

// Goes from one stack to another: keeps what a function must keep on the one, and takes it from the other.
asm(R"(
.text
.globl emulator_switch
.hidden emulator_switch
.type emulator_switch, @function
emulator_switch:
    pushq %rbp
    pushq %rbx
    pushq %r12
    pushq %r13
    pushq %r14
    pushq %r15
    movq %rsp, (%rdi)
    movq %rsi, %rsp
    popq %r15
    popq %r14
    popq %r13
    popq %r12
    popq %rbx
    popq %rbp
    ret
.size emulator_switch, .-emulator_switch
)");
extern "C" void emulator_switch(void** from, void* to);

namespace emulator {
namespace {

// The driver's numbers for what kernels die of.
constexpr int kIllegalAddress = 700, kMisalignedAddress = 716, kLaunchFailed = 719;
constexpr unsigned kWarp = 32;
constexpr size_t kStackBytes = 256 << 10, kGuardBytes = 4096;
constexpr unsigned char kPoison = 0xa5;

/// Stacks of a block's threads, each with a page before it that is not there.
class Stacks {
public:
    explicit Stacks(unsigned count) : count_(count) {
        void* memory = mmap(nullptr, bytes(), PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS | MAP_NORESERVE, -1,
                            0);
        if (memory == MAP_FAILED) throw std::runtime_error("emulator: no memory for the stacks of a block's threads");
        memory_ = static_cast<unsigned char*>(memory);
        for (unsigned i = 0; i < count; ++i) mprotect(memory_ + i * kStackBytes, kGuardBytes, PROT_NONE);
    }
    ~Stacks() { munmap(memory_, bytes()); }
    Stacks(const Stacks&) = delete;
    Stacks& operator=(const Stacks&) = delete;
    unsigned count() const { return count_; }
    unsigned char* top(unsigned i) const { return memory_ + (i + 1) * kStackBytes; }

private:
    size_t bytes() const { return count_ * kStackBytes; }
    const unsigned count_;
    unsigned char* memory_ = nullptr;
};

std::mutex spare_mutex;
std::vector<std::unique_ptr<Stacks>>& spare_stacks() {
    static auto& spare = *new std::vector<std::unique_ptr<Stacks>>;
    return spare;
}
std::unique_ptr<Stacks> take_stacks(unsigned count) {
    {
        const std::lock_guard lock(spare_mutex);
        for (auto& stacks : spare_stacks())
            if (stacks->count() >= count) {
                std::swap(stacks, spare_stacks().back());
                auto taken = std::move(spare_stacks().back());
                spare_stacks().pop_back();
                return taken;
            }
    }
    return std::make_unique<Stacks>(std::max(count, 256u));
}
void give_stacks(std::unique_ptr<Stacks> stacks) {
    const std::lock_guard lock(spare_mutex);
    spare_stacks().push_back(std::move(stacks));
}

/// Lanes of a warp that wait for each other.
struct Meeting {
    unsigned mask = 0, here = 0;
    unsigned long long brought[kWarp] = {}, results[kWarp] = {};
};

struct Fiber {
    enum class State { runs, at_barrier, meets, ended };
    ThreadView view;
    void* stack = nullptr;
    State state = State::runs;
    unsigned mask = 0;  ///< of the lanes that it meets
};

class Runner;
thread_local Runner* running = nullptr;
std::atomic<unsigned> blocks_run{0};

class Runner {
public:
    Runner(const Code& code, const BlockLaunch& launch)
        : code_(code), launch_(launch), count_(launch.block_size.x), stacks_(take_stacks(count_)),
          memory_(launch.block_bytes + 16, kPoison), fibers_(count_), meetings_((count_ + kWarp - 1) / kWarp),
          random_(1 + blocks_run++) {
        auto* const memory = reinterpret_cast<unsigned char*>((reinterpret_cast<uintptr_t>(memory_.data()) + 15) &
                                                              ~uintptr_t{15});
        for (unsigned i = 0; i < count_; ++i) {
            fibers_[i].view = {{i, 0, 0}, launch.block, launch.block_size, launch.grid, memory};
            auto** const top = reinterpret_cast<void**>(stacks_->top(i));
            top[-2] = reinterpret_cast<void*>(&begin);
            fibers_[i].stack = top - 8;
            memset(fibers_[i].stack, 0, 6 * sizeof(void*));
        }
    }
    ~Runner() { give_stacks(std::move(stacks_)); }

    void run() {
        alive_ = count_;
        release([](const Fiber&) { return true; });
        running = this;
        // A thread that faults comes back here from wherever it was.
        if (sigsetjmp(escape_, 1) == 0) {
            while (alive_ > 0) {
                if (ready_.empty()) stuck();
                current_ = ready_.back();
                ready_.pop_back();
                code_.enter(&current_->view);
                in_kernel_ = 1;
                emulator_switch(&own_stack_, current_->stack);
                in_kernel_ = 0;
            }
        }
        running = nullptr;
        if (result_ != 0) throw KernelFault{result_, what_, instruction_, address_};
    }

    [[noreturn]] void fault(int result, const char* what, const void* instruction = nullptr,
                            const void* address = nullptr) {
        result_ = result;
        instruction_ = instruction;
        address_ = address;
        const Index& at = current_->view.thread;
        snprintf(what_, sizeof what_, "%s, block %u, thread %u: %s", code_.name, launch_.block.x, at.x, what);
        siglongjmp(escape_, 1);
    }
    /// What it waits for may take long to come, and who brings it needs a processor, too.
    void pause() {
        // Many blocks that wake up often leave none for the one which has work.
        constexpr unsigned kFew = 200, kNapUs = 50, kLongestUs = 800;
        give_up_if_abandoned();
        if (++pauses_ < kFew) sched_yield();
        else usleep(std::min(kNapUs * (pauses_ / kFew), kLongestUs));
    }
    /// Of a thread that may wait for memory which nobody will write to any more.
    void give_up_if_abandoned() {
        if (in_kernel_ != 0 && *launch_.abandoned) siglongjmp(escape_, 1);
    }

    unsigned barrier(unsigned own) {
        in_kernel_ = 0;
        pauses_ = 0;
        brought_ += own;
        current_->state = Fiber::State::at_barrier;
        ++at_barrier_;
        pass_barrier();
        yield();
        in_kernel_ = 1;
        return sum_;
    }

    void exchange(unsigned mask, unsigned long long own, unsigned long long* values) {
        const unsigned lane = current_->view.thread.x % kWarp, warp = current_->view.thread.x / kWarp;
        if ((mask >> lane & 1) == 0) fault(kLaunchFailed, "a lane that is not among those that it waits for");
        in_kernel_ = 0;
        Meeting& meeting = meeting_of(warp, mask);
        meeting.brought[lane] = own;
        meeting.here |= 1u << lane;
        if (meeting.here == mask) {
            meeting.here = 0;
            for (unsigned other = 0; other < kWarp; ++other) {
                meeting.results[other] = mask >> other & 1 ? meeting.brought[other] : kNothing;
                if (other == lane || (mask >> other & 1) == 0) continue;
                Fiber& fiber = fibers_[warp * kWarp + other];
                fiber.state = Fiber::State::runs;
                ready_.push_back(&fiber);
            }
        } else {
            current_->state = Fiber::State::meets;
            current_->mask = mask;
            yield();
        }
        memcpy(values, meeting.results, sizeof meeting.results);
        in_kernel_ = 1;
    }

    /// The interpreter's own faults are none of the kernel's code.
    unsigned long long foreign(const PtxModule& module, const char* name, void* handle, const void* tables) {
        in_kernel_ = 0;
        int result = 0;
        char what[240] = {};
        unsigned long long decision = 0;
        try {
            decision = module.call(name, current_->view,
                                   {reinterpret_cast<uint64_t>(handle), reinterpret_cast<uint64_t>(tables)},
                                   *launch_.memory);
        } catch (const KernelFault& fault) {
            result = fault.result;
            snprintf(what, sizeof what, "%s", fault.what.c_str());
        }
        in_kernel_ = 1;
        if (result != 0) fault(result, what);
        return decision;
    }

private:
    static void begin() { running->whole_thread(); }
    void whole_thread() {
        code_.entry->run(launch_.parameters);
        in_kernel_ = 0;
        current_->state = Fiber::State::ended;
        --alive_;
        pass_barrier();
        yield();
    }
    void yield() { emulator_switch(&current_->stack, own_stack_); }

    void pass_barrier() {
        if (alive_ == 0 || at_barrier_ < alive_) return;
        sum_ = brought_;
        brought_ = at_barrier_ = 0;
        release([](const Fiber& fiber) { return fiber.state == Fiber::State::at_barrier; });
    }
    /// Lets those run, in an order of their own.
    template <class Which>
    void release(Which&& which) {
        const unsigned from = random_() % count_;
        const bool back = random_() % 2 != 0;
        for (unsigned k = 0; k < count_; ++k) {
            Fiber& fiber = fibers_[(from + (back ? count_ - k : k)) % count_];
            if (!which(fiber)) continue;
            fiber.state = Fiber::State::runs;
            ready_.push_back(&fiber);
        }
    }
    Meeting& meeting_of(unsigned warp, unsigned mask) {
        for (Meeting& meeting : meetings_[warp])
            if (meeting.mask == mask) return meeting;
        meetings_[warp].emplace_back().mask = mask;
        return meetings_[warp].back();
    }
    [[noreturn]] void stuck() {
        unsigned at_barrier = 0, meet = 0;
        const Fiber* one = nullptr;
        for (const Fiber& fiber : fibers_) {
            at_barrier += fiber.state == Fiber::State::at_barrier;
            if (fiber.state != Fiber::State::meets) continue;
            ++meet;
            one = &fiber;
        }
        char text[160];
        snprintf(text, sizeof text,
                 "its threads wait for each other for ever: %u at a barrier, %u for lanes of their warps%s", at_barrier,
                 meet, one != nullptr ? ", as this one" : "");
        current_ = one != nullptr ? const_cast<Fiber*>(one) : &fibers_.front();
        fault(kLaunchFailed, text);
    }

    const Code& code_;
    const BlockLaunch& launch_;
    const unsigned count_;
    std::unique_ptr<Stacks> stacks_;
    std::vector<unsigned char> memory_;
    std::vector<Fiber> fibers_;
    std::vector<std::deque<Meeting>> meetings_;  // by warp
    std::vector<Fiber*> ready_;                  // the next at the end
    std::minstd_rand random_;
    Fiber* current_ = nullptr;
    void* own_stack_ = nullptr;
    sigjmp_buf escape_;
    volatile sig_atomic_t in_kernel_ = 0;  // its code runs, and no part of this
    unsigned alive_ = 0, at_barrier_ = 0, brought_ = 0, sum_ = 0;
    unsigned pauses_ = 0;  // one after the other, without anything else that a thread asks for
    int result_ = 0;
    const void *instruction_ = nullptr, *address_ = nullptr;
    char what_[320] = {};
};

struct sigaction before[NSIG];

void on_signal(int signal, siginfo_t* info, void* context) {
    if (running == nullptr) {
        sigaction(signal, &before[signal], nullptr);  // and it happens again
        return;
    }
    char text[96];
    if (signal == SIGILL) {
        snprintf(text, sizeof text, "a misaligned access");
    } else {
        snprintf(text, sizeof text, "an access to %p, where there is nothing", info->si_addr);
    }
    const auto& registers = static_cast<const ucontext_t*>(context)->uc_mcontext.gregs;
    running->fault(signal == SIGILL ? kMisalignedAddress : kIllegalAddress, text,
                   reinterpret_cast<const void*>(registers[REG_RIP]), signal == SIGILL ? nullptr : info->si_addr);
}

void on_give_up(int) {
    if (running != nullptr) running->give_up_if_abandoned();
}

/// A fault of a thread whose stack is full needs another one.
struct SignalStack {
    SignalStack() : memory(64 << 10) {
        stack_t stack{};
        stack.ss_sp = memory.data();
        stack.ss_size = memory.size();
        sigaltstack(&stack, nullptr);
    }
    ~SignalStack() {
        stack_t stack{};
        stack.ss_flags = SS_DISABLE;
        sigaltstack(&stack, nullptr);
    }
    std::vector<unsigned char> memory;
};

}  // namespace

const Calls kCalls = {
    [](unsigned mask, unsigned long long own, unsigned long long* values) { running->exchange(mask, own, values); },
    [](unsigned own) { return running->barrier(own); },
    [] { running->pause(); },
    [] {
        running->pause();
        return static_cast<unsigned long long>(
            std::chrono::duration_cast<std::chrono::nanoseconds>(std::chrono::steady_clock::now().time_since_epoch())
                .count());
    },
    [](const void* module, const char* name, void* handle, const void* tables) {
        return running->foreign(*static_cast<const PtxModule*>(module), name, handle, tables);
    },
    [](const char* what) { running->fault(kIllegalAddress, what); },
};

void run_block(const Code& code, const BlockLaunch& launch) {
    static thread_local const SignalStack signal_stack;
    Runner runner(code, launch);
    runner.run();
}

void catch_faults() {
    for (const int signal : {SIGSEGV, SIGBUS, SIGILL, SIGFPE}) {
        struct sigaction action{};
        action.sa_sigaction = on_signal;
        action.sa_flags = SA_SIGINFO | SA_ONSTACK;
        sigaction(signal, &action, &before[signal]);
    }
    struct sigaction action{};
    action.sa_handler = on_give_up;
    sigaction(kGiveUpSignal, &action, nullptr);
}

}  // namespace emulator
