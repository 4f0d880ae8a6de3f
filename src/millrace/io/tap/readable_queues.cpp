#include "millrace/io/tap/readable_queues.hpp"

#include <pthread.h>
#include <sys/epoll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <array>
#include <cerrno>
#include <cstring>
#include <exception>
#include <stdexcept>
#include <string>

namespace millrace::io {
namespace {

constexpr uint64_t kStop = UINT64_MAX;

epoll_event once(uint64_t queue) { return {.events = EPOLLIN | EPOLLONESHOT, .data = {.u64 = queue}}; }

}  // namespace

ReadableQueues::ReadableQueues(const std::vector<int>& descriptors)
    : descriptors_(descriptors), noted_(std::make_unique<std::atomic<bool>[]>(descriptors.size())),
      all_(epoll_create1(EPOLL_CLOEXEC)), stop_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)) {
    bool is_good = all_.get() >= 0 && stop_.get() >= 0;
    epoll_event event{.events = EPOLLIN, .data = {.u64 = kStop}};
    is_good = is_good && epoll_ctl(all_.get(), EPOLL_CTL_ADD, stop_.get(), &event) == 0;
    for (size_t i = 0; is_good && i < descriptors_.size(); ++i) {
        event = once(i);
        is_good = epoll_ctl(all_.get(), EPOLL_CTL_ADD, descriptors_[i], &event) == 0;
    }
    if (!is_good) throw std::runtime_error(std::string("no event descriptor: ") + std::strerror(errno));
    thread_ = std::thread([this] { run(); });
    pthread_setname_np(thread_.native_handle(), "readable");
}

ReadableQueues::~ReadableQueues() {
    const uint64_t one = 1;
    if (write(stop_.get(), &one, sizeof one) != sizeof one)
        std::terminate();  // an event descriptor takes 2^64 - 2 of them
    thread_.join();
}

void ReadableQueues::is_empty(size_t queue) {
    epoll_event event = once(queue);
    // What came in between is told at once.
    epoll_ctl(all_.get(), EPOLL_CTL_MOD, descriptors_[queue], &event);
}

void ReadableQueues::run() {
    std::array<epoll_event, 64> events;
    while (true) {
        const int n = epoll_wait(all_.get(), events.data(), static_cast<int>(events.size()), -1);
        if (n < 0 && errno != EINTR) return;
        for (int i = 0; i < n; ++i) {
            const uint64_t queue = events[static_cast<size_t>(i)].data.u64;
            if (queue == kStop) return;
            noted_[queue].store(true);
        }
    }
}

}  // namespace millrace::io
