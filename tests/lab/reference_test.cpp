// What left a benchmark is held against what the cpu makes of it.
#include "lab/reference.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <fstream>
#include <nlohmann/json.hpp>

#include "lab/sessions.hpp"
#include "millrace/io/capture/capture_writer.hpp"
#include "support/packet_builder.hpp"

namespace millrace::lab {
namespace {

/// Frames through the whole chain, as they left.
class References : public Sessions {
protected:
    References() {
        const Workload workload = make_workload(options().workload);
        chain::LoadOptions load;
        load.output_folder = scratch_;
        const std::string text = chain_yaml(workload, {.kinds = {"firewall", "nids", "router", "ipsec"}},
                                            "  in: {source: {}}\n  out: {sink: {}}\n");
        const auto configuration = chain::parse_configuration(text, "test.yaml", load);
        Traffic traffic;
        traffic.size = "150";
        RunOptions run;
        run.buffers = 512;
        std::string sources = source_options(workload, traffic);
        sources.insert(1, "count: 400, ");
        lab::Run own(configuration, bench_ports(configuration, sources, "{keep: 400, sample: true}", run), run);
        own.start();
        wait_for(own, [](const Counts& now) { return now.sent_packets + now.dropped + now.punted >= 400; });
        samples_ = own.finish().samples;
        reference_ = std::make_unique<Reference>(chain::parse_configuration(text, "test.yaml", load), false);
    }
    std::vector<Sample> samples_;
    std::unique_ptr<Reference> reference_;
};

TEST_F(References, KnowEveryPacketInAnyOrder) {
    ASSERT_GT(samples_.size(), 100u);
    std::reverse(samples_.begin(), samples_.end());
    const Check right = check(*reference_, samples_);
    EXPECT_EQ(right.equal, samples_.size()) << right.first_difference;
}

TEST_F(References, NoticeEveryByteThatIsWrong) {
    ASSERT_GT(samples_.size(), 100u);
    for (size_t i = 0; i < samples_[50].after.size(); ++i) {
        Sample sample = samples_[50];
        sample.after[i] ^= 0x10;
        EXPECT_TRUE(reference_->differs(sample)) << "byte " << i;
    }
    Sample shorter = samples_[50], longer = samples_[50];
    shorter.after.pop_back();
    longer.after.push_back(0);
    EXPECT_TRUE(reference_->differs(shorter));
    EXPECT_TRUE(reference_->differs(longer));
    Sample other = samples_[50];
    other.before = samples_[51].before;
    EXPECT_TRUE(reference_->differs(other));
    other.before.assign(10, 0);
    EXPECT_NE(reference_->differs(other).value_or("").find("the cpu drops it"), std::string::npos);
}

/// A packet of a bucket passes as it would alone, and the answer of a connection whose beginning a sample lacks is no
/// mistake.
TEST_F(Sessions, CallNoPacketWrongThatStateDecidesOn) {
    {
        io::CaptureWriter writer(scratch_ + "/opened.pcap");
        for (const char* const frame :
             {"{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, tcp: {src: 5, dst: 6, flags: S}}",
              "{ipv4: {src: 10.0.0.2, dst: 10.0.0.1}, tcp: {src: 6, dst: 5, ack: 1, flags: SA}}"})
            writer.write(1, test::build_packet(frame));
    }
    for (const std::string nf : {"policer: {rate: 10Mpps, burst: 500, per: all}", "conntrack"}) {
        std::ofstream(scratch_ + "/own.yaml") << "version: 1\nports: {a: {null: {}}, b: {null: {}}}\nchains:\n  first: "
                                                 "{input: a, nfs: [" +
                                                     nf + "], output: b}\n";
        SessionOptions own = options();
        own.config = scratch_ + "/own.yaml";
        Point replayed = point("own.yaml", "cpu");
        replayed.traffic.replay = scratch_ + "/opened.pcap";
        const Result result = Session(own).measure(replayed);
        EXPECT_EQ(result.mistake(), "") << nf;
        EXPECT_GT(result.check.equal, 30u) << nf;
        EXPECT_EQ(result.check.undecided > 0, nf.starts_with("conntrack")) << nf;
        EXPECT_EQ(result.json()["check"]["undecided"], result.check.undecided);
    }
}

/// What a function without state drops before any with state is a mistake all the same.
TEST_F(Sessions, CallPacketsWrongThatNoStateDecidesOn) {
    Sample sample;
    sample.before = sample.after = test::build_packet("{ipv4: {src: 10.0.0.1, dst: 10.0.0.2}, udp: {src: 5, dst: 6}}");
    for (const auto& [nfs, undecided] : {std::pair("firewall: {default: deny}, conntrack", 0u),
                                         std::pair("conntrack, firewall: {default: deny}", 1u)}) {
        Reference reference(
            chain::parse_configuration("version: 1\nports: {in: {source: {}}, out: {sink: {}}}\nchains: "
                                       "{c: {input: in, output: out, nfs: [" +
                                           std::string(nfs) + "]}}\n",
                                       "test.yaml"),
            true);
        const Check found = check(reference, {sample});
        EXPECT_EQ(found.undecided, undecided) << nfs;
        EXPECT_EQ(found.different, 1 - undecided) << nfs;
    }
}

}  // namespace
}  // namespace millrace::lab
