#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <pthread.h>
#include <semaphore.h>
#include <spdlog/spdlog.h>
#include <sys/epoll.h>
#include <sys/mman.h>
#include <sys/select.h>
#include <sys/syscall.h>
#include <sys/uio.h>
#include <unistd.h>

#include <ctime>
#include <map>
#include <memory>
#include <string>

#include "exec/contract/hoarder/device.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::test {
namespace {

/// Calls that would block do so until a moment that is long over.
constexpr timespec kLongAgo{1, 0};

/// What the calls are made with.
struct Tools {
    Tools() { sem_init(&semaphore, 0, 0); }
    ~Tools() {
        sem_destroy(&semaphore);
        close(nowhere);
    }
    Tools(const Tools&) = delete;
    Tools& operator=(const Tools&) = delete;

    std::unique_ptr<uint64_t> kept;
    pthread_mutex_t mutex = PTHREAD_MUTEX_INITIALIZER;
    pthread_rwlock_t read_write = PTHREAD_RWLOCK_INITIALIZER;
    pthread_cond_t condition = PTHREAD_COND_INITIALIZER;
    sem_t semaphore;
    const int nowhere = open("/dev/null", O_WRONLY | O_CLOEXEC);
    char byte = 'x';
    iovec piece{&byte, 1};
};

using Call = void (*)(Tools&);
void locked(Tools& tools, int failed) {
    if (failed == 0) pthread_mutex_unlock(&tools.mutex);
}

const std::map<std::string, Call> kCalls = {
    {"new", [](Tools& tools) { tools.kept = std::make_unique<uint64_t>(1); }},
    {"mmap", [](Tools&) { mmap(nullptr, 0, PROT_NONE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0); }},  // of nothing: refused
    {"munmap", [](Tools&) { munmap(nullptr, 0); }},
    {"mutex-lock", [](Tools& tools) { locked(tools, pthread_mutex_lock(&tools.mutex)); }},
    {"mutex-timedlock", [](Tools& tools) { locked(tools, pthread_mutex_timedlock(&tools.mutex, &kLongAgo)); }},
    {"mutex-clocklock",
     [](Tools& tools) { locked(tools, pthread_mutex_clocklock(&tools.mutex, CLOCK_MONOTONIC, &kLongAgo)); }},
    {"read-lock",
     [](Tools& tools) {
         pthread_rwlock_rdlock(&tools.read_write);
         pthread_rwlock_unlock(&tools.read_write);
     }},
    {"write-lock",
     [](Tools& tools) {
         pthread_rwlock_wrlock(&tools.read_write);
         pthread_rwlock_unlock(&tools.read_write);
     }},
    {"cond-timedwait",
     [](Tools& tools) {
         if (pthread_mutex_trylock(&tools.mutex) != 0) return;
         pthread_cond_timedwait(&tools.condition, &tools.mutex, &kLongAgo);
         pthread_mutex_unlock(&tools.mutex);
     }},
    {"cond-clockwait",
     [](Tools& tools) {
         if (pthread_mutex_trylock(&tools.mutex) != 0) return;
         pthread_cond_clockwait(&tools.condition, &tools.mutex, CLOCK_MONOTONIC, &kLongAgo);
         pthread_mutex_unlock(&tools.mutex);
     }},
    {"sem-wait",
     [](Tools& tools) {
         sem_post(&tools.semaphore);
         sem_wait(&tools.semaphore);
     }},
    {"sem-timedwait", [](Tools& tools) { sem_timedwait(&tools.semaphore, &kLongAgo); }},
    {"sem-clockwait", [](Tools& tools) { sem_clockwait(&tools.semaphore, CLOCK_MONOTONIC, &kLongAgo); }},
    {"usleep", [](Tools&) { usleep(1); }},
    {"nanosleep",
     [](Tools&) {
         const timespec moment{0, 1};
         nanosleep(&moment, nullptr);
     }},
    {"clock-nanosleep", [](Tools&) { clock_nanosleep(CLOCK_MONOTONIC, TIMER_ABSTIME, &kLongAgo, nullptr); }},
    {"futex", [](Tools&) { syscall(SYS_futex, nullptr, 0, 0, nullptr, nullptr, 0); }},
    {"poll", [](Tools&) { poll(nullptr, 0, 0); }},
    {"ppoll",
     [](Tools&) {
         const timespec none{};
         ppoll(nullptr, 0, &none, nullptr);
     }},
    {"select",
     [](Tools&) {
         timeval none{};
         select(0, nullptr, nullptr, nullptr, &none);
     }},
    {"epoll-wait",
     [](Tools&) {
         epoll_event event;
         epoll_wait(-1, &event, 1, 0);
     }},
    {"write", [](Tools& tools) { EXPECT_EQ(write(tools.nowhere, &tools.byte, 1), 1); }},
    {"writev", [](Tools& tools) { EXPECT_EQ(writev(tools.nowhere, &tools.piece, 1), 1); }},
    {"pwrite", [](Tools& tools) { EXPECT_EQ(pwrite(tools.nowhere, &tools.byte, 1, 0), 1); }},
    {"pwritev", [](Tools& tools) { EXPECT_EQ(pwritev(tools.nowhere, &tools.piece, 1, 0), 1); }},
    {"log", [](Tools&) { spdlog::warn("a packet"); }},
};

/// A network function that does what none may, on one packet in a thousand, as its option `call` says.
class HoarderHost : public nf::NetworkFunction {
public:
    HoarderHost(const Config& options, const nf::Environment&) {
        options.only({"call"});
        call_ = kCalls.at(options.at("call").text());
        image_.start<Hoarder::Tables>();
    }
    const nf::Image& image() const override { return image_; }
    std::unique_ptr<nf::CpuHalf> make_cpu_half() override { return std::make_unique<Half>(call_); }

private:
    class Half : public nf::CpuHalf {
    public:
        explicit Half(Call call) : call_(call) {}
        void process(std::span<Packet* const> packets, Decision* decisions) override {
            for (size_t i = 0; i < packets.size(); ++i) {
                decisions[i] = {};
                if (++packets_ % 1000 == 0) call_(tools_);
            }
        }

    private:
        const Call call_;
        uint64_t packets_ = 0;
        Tools tools_;
    };
    Call call_;
    nf::Image image_;
};

const nf::Register<Hoarder, HoarderHost> registration{{
    .name = "hoarder",
    .summary = "breaks the contract of the packet path, for a test",
    .outcomes = {{"forward", nf::Disposition::next, "always"}},
    .device_header = "exec/contract/hoarder/device.hpp",
    .device_struct = "millrace::test::Hoarder",
    .has_cpu_half = true,
}};

}  // namespace
}  // namespace millrace::test
