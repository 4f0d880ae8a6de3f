#include "lab/lookup/acl_peer.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <signal.h>
#include <sys/wait.h>
#include <unistd.h>

#include <atomic>
#include <chrono>
#include <nlohmann/json.hpp>
#include <stdexcept>
#include <thread>

#include "lab/clock.hpp"
#include "millrace/base/eal.hpp"
#include "millrace/nf/classify/acl/acl.hpp"

namespace millrace::lab {
namespace {

using nf::classify::Acl;

constexpr unsigned kMemoryMib = 6144;  // address space of each process, for what rte_acl makes
constexpr size_t kChecked = 500;

/// Lookups a second by that many threads, each of which begins elsewhere among the headers.
double rate(const Acl& acl, const std::vector<uint8_t>& prepared, size_t headers, unsigned threads, double seconds) {
    std::atomic<bool> stop{false};
    std::atomic<uint64_t> total{0};
    std::vector<std::thread> pool;
    const auto begin = Clock::now();
    for (unsigned t = 0; t < threads; ++t)
        pool.emplace_back([&, t] {
            uint32_t found[Acl::kMaxKeys];
            uint64_t done = 0;
            const size_t batches = headers / Acl::kMaxKeys;
            for (size_t batch = t * batches / threads; !stop.load(std::memory_order_relaxed);
                 batch = batch + 1 == batches ? 0 : batch + 1) {
                acl.find(prepared, batch * Acl::kMaxKeys, Acl::kMaxKeys, found);
                done += Acl::kMaxKeys;
            }
            total += done;
        });
    std::this_thread::sleep_for(std::chrono::duration<double>(seconds));
    stop = true;
    for (std::thread& thread : pool) thread.join();
    return static_cast<double>(total) / seconds_since(begin);
}

void say(int pipe, const nlohmann::json& what) {
    const std::string line = what.dump() + "\n";
    if (write(pipe, line.data(), line.size()) < 0) _exit(1);
}

/// The child: says when the rules are compiled, waits for its turn, says what it measured.
void measure_in_child(const LookupSet& set, int in, int out, double seconds) {
    try {
        start_eal({.memory_mib = kMemoryMib});
        const auto begin = Clock::now();
        const Acl acl(*set.rule_set(), 0);
        say(out, {{"build-seconds", seconds_since(begin)}, {"method", acl.method()}});
        char turn = 0;
        if (read(in, &turn, 1) != 1) _exit(1);
        // As many headers as the GPU gets different ones of, so that no cache holds them all.
        std::vector<nf::classify::HeaderKey> headers;
        while (headers.size() < 1 << 20) headers.insert(headers.end(), set.headers.begin(), set.headers.end());
        const std::vector<uint8_t> prepared = acl.prepare(headers);
        size_t mistakes = 0;
        for (size_t i = 0; i < kChecked; ++i) {
            const size_t header = i * (set.count() - 1) / (kChecked - 1);
            uint32_t found = 0;
            acl.find(prepared, header, 1, &found);
            mistakes += found != set.reference(header);
        }
        const unsigned cores = std::max(1u, std::thread::hardware_concurrency());
        const double one = rate(acl, prepared, headers.size(), 1, seconds),
                     all = rate(acl, prepared, headers.size(), cores, seconds);
        say(out, {{"one-core", one}, {"all-cores", all}, {"cores", cores}, {"mistakes", mistakes}});
    } catch (const std::exception& error) {
        say(out, {{"refusal", error.what()}});
    }
    _exit(0);
}

}  // namespace

/// One compiling process and the pipes to it.
class AclPeers::Child {
public:
    Child(const LookupSet& set, double seconds) {
        int to[2], from[2];
        if (pipe(to) != 0 || pipe(from) != 0) throw std::runtime_error("no pipe to a process for rte_acl");
        process_ = fork();
        if (process_ < 0) throw std::runtime_error("no process for rte_acl");
        if (process_ == 0) {
            close(to[1]);
            close(from[0]);
            measure_in_child(set, to[0], from[1], seconds);
        }
        close(to[0]);
        close(from[1]);
        to_ = to[1];
        from_ = from[0];
    }
    ~Child() {
        kill(process_, SIGKILL);
        waitpid(process_, nullptr, 0);
        close(to_);
        close(from_);
    }
    Child(const Child&) = delete;
    Child& operator=(const Child&) = delete;

    /// What it says next; null when it has said nothing until then, or has died.
    nlohmann::json hear(double limit_seconds) {
        const auto begin = Clock::now();
        for (;;) {
            if (const size_t end = heard_.find('\n'); end != std::string::npos) {
                const auto said = nlohmann::json::parse(heard_.substr(0, end));
                heard_.erase(0, end + 1);
                return said;
            }
            const double left = std::max(0.0, limit_seconds - seconds_since(begin));
            pollfd waiting{from_, POLLIN, 0};
            char bytes[512];
            if (poll(&waiting, 1, static_cast<int>(left * 1e3)) <= 0) return {};
            const ssize_t got = read(from_, bytes, sizeof bytes);
            if (got <= 0) return {};
            heard_.append(bytes, static_cast<size_t>(got));
        }
    }
    void let_go() {
        if (write(to_, "x", 1) != 1) return;  // it has died: nothing will be heard
    }

private:
    pid_t process_ = -1;
    int to_ = -1, from_ = -1;
    std::string heard_;
};

AclPeers::AclPeers(const std::vector<std::shared_ptr<LookupSet>>& sets, double seconds)
    : seconds_(seconds), begin_(Clock::now()) {
    if (eal_running()) throw std::logic_error("processes for rte_acl have to be made before DPDK starts");
    for (const auto& set : sets) children_.push_back(std::make_unique<Child>(*set, seconds));
}
AclPeers::~AclPeers() = default;

std::vector<AclRate> AclPeers::measure(double limit_seconds) {
    std::vector<AclRate> rates(children_.size());
    for (size_t i = 0; i < rates.size(); ++i) {
        const nlohmann::json built = children_[i]->hear(limit_seconds - seconds_since(begin_));
        if (built.contains("method")) {
            rates[i].build_seconds = built["build-seconds"];
            rates[i].method = built["method"];
        } else {
            rates[i].refusal = built.contains("refusal") ? built["refusal"].get<std::string>()
                                                         : fmt::format("not compiled after {:.0f} s", limit_seconds);
            children_[i].reset();
        }
    }
    for (size_t i = 0; i < rates.size(); ++i) {
        if (!children_[i]) continue;
        children_[i]->let_go();
        const nlohmann::json measured = children_[i]->hear(30 + 4 * seconds_);
        if (measured.contains("all-cores")) {
            rates[i].one_core = measured["one-core"];
            rates[i].all_cores = measured["all-cores"];
            rates[i].cores = measured["cores"];
            rates[i].checked = kChecked;
            rates[i].mistakes = measured["mistakes"];
        } else {
            rates[i].refusal = "it died while it was measured";
        }
        children_[i].reset();
    }
    return rates;
}

}  // namespace millrace::lab
