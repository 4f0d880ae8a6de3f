// The NF as a whole: golden packets, and all engines against each other.
#include <gtest/gtest.h>

#include "support/golden.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

TEST(Nids, DoesWhatItsGoldenPacketsSay) { run_golden("nids"); }

}  // namespace
}  // namespace millrace::test
