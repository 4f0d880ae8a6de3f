#include "millrace/exec/runtime/thread.hpp"

#include <pthread.h>
#include <rte_lcore.h>
#include <sys/prctl.h>

#include <stdexcept>
#include <string>

namespace millrace::exec {

std::thread start_thread(std::optional<unsigned> core, std::function<void()> body) {
    if (core) {
        cpu_set_t allowed;
        // Asked beforehand: a thread that can't be moved would have begun already.
        if (pthread_getaffinity_np(pthread_self(), sizeof allowed, &allowed) != 0 || *core >= CPU_SETSIZE ||
            !CPU_ISSET(*core, &allowed))
            throw std::runtime_error("a worker can't be put on core " + std::to_string(*core) +
                                     "; is there such a core?");
    }
    return std::thread([core, body = std::move(body)] {
        if (core) {
            cpu_set_t set;
            CPU_ZERO(&set);
            CPU_SET(*core, &set);
            pthread_setaffinity_np(pthread_self(), sizeof set, &set);
        }
        // Sleeps of 50 us would take twice as long.
        prctl(PR_SET_TIMERSLACK, 1000);
        // DPDK's caches are per thread; a thread that it does not know works without them.
        const bool registered = rte_thread_register() == 0;
        body();
        if (registered) rte_thread_unregister();
    });
}

}  // namespace millrace::exec
