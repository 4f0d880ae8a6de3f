#include "tenancy/support.hpp"

#include <gtest/gtest.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <chrono>
#include <filesystem>
#include <thread>

#include "millrace/tenancy/member/function_host.hpp"

namespace millrace::tenancy::test {

using Clock = Attachment::Clock;

Process::Process(const std::function<int()>& work) : number_(fork()) {
    if (number_ != 0) return;
    int status = 99;
    try {
        status = work();
    } catch (...) {
        // The status tells.
    }
    _exit(status);
}

Process::~Process() {
    if (number_ <= 0) return;
    signal(SIGKILL);
    end();
}

void Process::signal(int number) const { kill(number_, number); }

int Process::end() {
    int status = 0;
    waitpid(number_, &status, 0);
    number_ = -1;
    return WIFEXITED(status) ? WEXITSTATUS(status) : 128 + WTERMSIG(status);
}

Doorway::Doorway(std::map<std::string, Expected> expected)
    : door_(std::make_unique<Door>(path(), std::move(expected), 0666)) {}

Attachment* Doorway::wait_for(const std::string& name) {
    for (const auto end = Clock::now() + std::chrono::seconds(5); Clock::now() < end;) {
        for (auto& one : door_->let_in(Clock::now(), [&](const std::string& other) {
                 const auto there = in_.find(other);
                 return there != in_.end() && there->second->attached();
             }))
            in_[one->name()] = std::move(one);
        if (const auto there = in_.find(name); there != in_.end()) return there->second.get();
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return nullptr;
}

Outcome exchange_batches(Attachment& attachment, uint64_t count, uint32_t packets) {
    const Shape shape = attachment.memory().shape();
    Lane& lane = attachment.lane(0);
    Outcome seen;
    std::vector<std::vector<uint8_t>> bytes(packets);
    std::vector<Shown> views;
    const auto byte_of = [](uint64_t id, size_t packet, size_t at) { return uint8_t(id * 7 + packet * 3 + at); };
    Exchange::Taken taken;
    uint64_t next = 1, told = 1;
    // A process that has no core now is not late: batches are given up by the attachment's own patience alone.
    while (told <= count) {
        while (next <= count) {
            views.clear();
            for (size_t i = 0; i < packets; ++i) {
                bytes[i].resize(shape.in_bytes);
                for (size_t at = 0; at < bytes[i].size(); ++at) bytes[i][at] = byte_of(next, i, at);
                views.push_back(Doorway::shown(bytes[i]));
            }
            if (!lane.ask(views, next, Clock::now())) break;
            ++next;
            ++seen.asked;
        }
        attachment.listen();
        const auto reply = lane.next(taken, Clock::now());
        if (reply == Lane::Reply::waits) {
            if (!attachment.attached()) break;
            std::this_thread::yield();
            continue;
        }
        if (taken.id != told++) seen.bad += 1000;  // each once, in order
        if (reply != Lane::Reply::good) {
            ++seen.absent;
            continue;
        }
        ++seen.good;
        bool same = taken.count == packets;
        for (size_t i = 0; same && i < packets; ++i) {
            same = taken.outcomes[i] == byte_of(taken.id, i, 0) % shape.outcomes;
            for (size_t at = 0; same && at < shape.back_bytes; ++at)
                same = taken.back[i * shape.back_bytes + at] == uint8_t(byte_of(taken.id, i, at) + 1);
        }
        seen.bad += !same;
    }
    return seen;
}

int be_honest(const std::string& manager, const std::string& name, const std::function<void(uint64_t)>& at_each) {
    Member member(manager, name);
    for (uint64_t answered = 0; member.attached();) {
        const auto batch = member.next(std::chrono::milliseconds(100));
        if (!batch) continue;
        if (at_each) at_each(++answered);
        for (uint32_t i = 0; i < batch->count; ++i) {
            const auto in = batch->in(i);
            const auto back = batch->back(i);
            for (size_t at = 0; at < back.size() && at < in.size(); ++at) back[at] = uint8_t(in[at] + 1);
            batch->outcome(i) = in.empty() ? 0 : in[0] % member.shape().outcomes;
        }
        member.answer(*batch);
    }
    return 0;
}

bool wait_until(const std::function<bool()>& what, std::chrono::seconds most) {
    for (const auto end = Clock::now() + most; Clock::now() < end;) {
        if (what()) return true;
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
    }
    return false;
}

int serve(const std::string& manager, const std::string& name, const std::string& kind, const std::string& options,
          std::chrono::seconds life) {
    FunctionHost host(*nf::find_type(kind), Config::parse(options), name, testing::TempDir());
    for (const auto end = Clock::now() + life; Clock::now() < end;) {
        try {
            Member member(manager, name);
            host.agree(member.terms());
            while (member.attached())
                if (const auto batch = member.next(std::chrono::milliseconds(100))) {
                    host.answer(*batch);
                    member.answer(*batch);
                }
        } catch (const std::runtime_error& e) {
            if (!std::filesystem::exists(manager)) return 0;
            std::this_thread::sleep_for(std::chrono::milliseconds(10));
        }
    }
    return 0;
}

}  // namespace millrace::tenancy::test
