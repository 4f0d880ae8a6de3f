// Who did the work. The CPU takes over from a device that fails and gives the same answer, so a comparison means
// nothing unless the device is known to have done its part.
#pragma once

#include <memory>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/exec/offload/offload_engine.hpp"
#include "millrace/exec/report/report.hpp"

namespace millrace::test {

enum class Work {
    device_alone,      ///< decides every packet
    but_long_headers,  ///< sees every packet, and leaves those to the CPU whose headers lie behind the head: a few
    shared_with_cpu,   ///< the device does not fail; the test knows which packets the CPU decides
    fault,             ///< the device may fail: that is the point
};

/// Expects that a run of `packets` was the work of these engines' devices. Where kernels are to fail (run_all_tests), a
/// test that has noticed ends here, by an exception.
void expect_work(Work work, const std::vector<const exec::OffloadEngine*>& engines, const exec::ChainCounters& counters,
                 uint64_t packets);
/// The same for a whole program: no device of it failed, and the CPU decided only what `work` lets it. Nothing is asked
/// of a run on the cpu.
void expect_work(Work work, const exec::Report& report);

/// The packets that kernels of simulated devices have begun with; expects as many as were given to them.
class PacketsSeen {
public:
    explicit PacketsSeen(const std::vector<std::shared_ptr<device::Device>>& devices);
    /// `packets` since it was made, unless a device is not simulated.
    void expect(Work work, uint64_t packets) const;

private:
    uint64_t count() const;
    std::vector<std::shared_ptr<device::Device>> devices_;
    bool simulated_ = true;
    uint64_t before_ = 0;
};

/// Says that the test at work fails when its device does: expect_work() and everything that calls it say so by
/// themselves.
void claim_device_work();
/// Whether this is the proof that tests notice when their devices fail.
bool kernels_are_to_fail();

/// Runs all tests. With MILLRACE_PROVE_DEVICES set, it then runs those that used simulated devices once more, with
/// kernels that fail: each must fail, too, and nobody may claim work that there was none of.
int run_all_tests(int argc, char** argv);

}  // namespace millrace::test
