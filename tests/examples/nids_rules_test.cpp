// The rules of the example against the traffic of the example.
#include <gtest/gtest.h>

#include <map>
#include <set>

#include "millrace/io/capture/capture_reader.hpp"
#include "support/data.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

std::vector<Frame> recorded_frames() {
    io::CaptureReader reader(source_path("examples/traffic.pcap"));
    std::vector<Frame> frames;
    for (io::CaptureRecord record; reader.next(record);) frames.emplace_back(record.bytes.begin(), record.bytes.end());
    EXPECT_EQ(reader.error(), "");
    return frames;
}

/// The sid in an explanation such as `sid 9000001 "…"`.
uint32_t sid_of(const std::string& explanation) {
    return explanation.starts_with("sid ") ? static_cast<uint32_t>(std::stoul(explanation.substr(4))) : 0;
}

TEST(ExampleNidsRules, TripOnTheRecordedTrafficUnlessTheyAreMeantToStayQuiet) {
    if (nf::find_type("nids") == nullptr) GTEST_SKIP() << "this build has no network function 'nids'";
    const std::string folder = testing::TempDir();
    nf::Environment environment{
        .node_name = "nids", .chain_name = "chain", .output_folder = folder, .ports = kTestPorts};
    NfRunner runner("nids", Config::parse("{rules: [" + source_path("examples/nids.rules") + "], mode: ips}"),
                    environment);
    for (const Diagnostic& warning : environment.warn.take_warnings()) ADD_FAILURE() << warning.render();

    const NfResult result = runner.run(recorded_frames(), Half{.lanes = 1});
    std::set<uint32_t> tripped;
    for (const Event& event : result.events) tripped.insert(sid_of(runner.nf().explain({event.code, 1})));

    std::set<uint32_t> known;
    for (uint32_t code = 0;; ++code) {
        const uint32_t sid = sid_of(runner.nf().explain({code, 1}));
        if (sid == 0) break;
        known.insert(sid);
        EXPECT_EQ(tripped.contains(sid), sid < 9000900) << runner.nf().explain({code, 1});
    }
    EXPECT_EQ(known.size(), 97u);
}

}  // namespace
}  // namespace millrace::test
