#include "concurrent.hpp"

#include <atomic>
#include <chrono>
#include <thread>

#include "bare_loop.hpp"
#include "millrace/base/eal.hpp"

namespace millrace::lab {
namespace {

constexpr double kWarmUp = 0.5;

struct alignas(64) Progress {
    std::atomic<uint64_t> packets{0};
};

void sleep_for(double seconds) { std::this_thread::sleep_for(std::chrono::duration<double>(seconds)); }

}  // namespace

Concurrent measure_concurrent(const Workload& workload, const Traffic& traffic, unsigned threads, unsigned first_core,
                              double seconds) {
    static std::shared_ptr<const BareTables> tables;
    if (tables == nullptr) tables = std::make_shared<const BareTables>(workload);
    std::vector<std::unique_ptr<BareLoop>> loops;
    for (unsigned i = 0; i < threads; ++i)
        loops.push_back(std::make_unique<BareLoop>(workload, tables, traffic, 0, i, threads));
    std::vector<Progress> progress(threads);
    std::atomic<bool> stop{false};
    std::vector<std::unique_ptr<WorkerThread>> running;
    for (unsigned i = 0; i < threads; ++i)
        running.push_back(
            std::make_unique<WorkerThread>("bare" + std::to_string(i), static_cast<int>(first_core + i), [&, i] {
                while (!stop.load(std::memory_order_relaxed)) {
                    loops[i]->iterate();
                    progress[i].packets.store(loops[i]->received(), std::memory_order_relaxed);
                }
            }));
    const auto total = [&] {
        uint64_t packets = 0;
        for (const Progress& own : progress) packets += own.packets.load(std::memory_order_relaxed);
        return packets;
    };
    sleep_for(kWarmUp);
    const auto begin = std::chrono::steady_clock::now();
    const uint64_t before = total();
    sleep_for(seconds);
    const double took = std::chrono::duration<double>(std::chrono::steady_clock::now() - begin).count();
    const uint64_t after = total();
    stop = true;
    for (const auto& thread : running) thread->join();
    const io::TrafficFrames frames = frames_of(workload, traffic);
    double bytes = 0;
    for (const io::FrameTemplate& frame : frames.templates) bytes += frame.length;
    return {static_cast<double>(after - before) / took, bytes / static_cast<double>(frames.templates.size())};
}

}  // namespace millrace::lab
