// What a sink keeps and tells of the packets that it swallows.
#include <rte_cycles.h>

#include "io/support.hpp"
#include "millrace/io/source/source_port.hpp"

namespace millrace::io {
namespace {

using test::ports;
using test::pump;

TEST(SinkPort, KeepsASampleOfAllThatPasses) {
    const auto made = ports("in: { source: { count: 2000000 } }\nout: { sink: { keep: 1000, sample: true } }\n",
                            SourceDelivery{Restore::nothing});
    pump(*made[0], *made[1], 256);
    const auto frames = dynamic_cast<SinkPort&>(*made[1]).sample();
    EXPECT_GE(frames.size(), 256u + 15);
    EXPECT_LE(frames.size(), 256u + 60);
    uint64_t last = 0;
    for (const SunkFrame& frame : frames) {
        EXPECT_GT(frame.number, last);
        EXPECT_EQ(frame.bytes, dynamic_cast<SourcePort&>(*made[0]).frame_of(frame.number));
        last = frame.number;
    }
    EXPECT_GT(last, 1'000'000u);
}

TEST(SinkPort, TellsHowLongPacketsWereOnTheirWay) {
    const auto made = ports("in: { source: { count: 1000 } }\nout: { sink: { latency: true } }\n");
    rte_mbuf* mbufs[1000];
    ASSERT_EQ(made[0]->receive(0, mbufs, 1000), 1000);
    const uint64_t begin = rte_rdtsc();
    while (rte_rdtsc() - begin < rte_get_tsc_hz() / 200) {
    }
    ASSERT_EQ(made[1]->send(0, mbufs, 1000), 1000);
    std::array<uint64_t, Histogram::kBuckets> sums{};
    dynamic_cast<SinkPort&>(*made[1]).add_latency_to(sums);
    EXPECT_GE(Histogram::percentile(sums, 1), 5'000'000u);
    EXPECT_LE(Histogram::percentile(sums, 99), 2'000'000'000u);
    uint64_t count = 0;
    for (const uint64_t n : sums) count += n;
    EXPECT_EQ(count, 1000u);
}

}  // namespace
}  // namespace millrace::io
