// Chains behind a classification, run by the program's own parts: what each of them has sent and counted.
#pragma once

#include <gtest/gtest.h>

#include <string>
#include <vector>

#include "millrace/exec/report/report.hpp"
#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/io/capture/capture_writer.hpp"
#include "millrace/io/sink_port.hpp"
#include "support/test_chain.hpp"
#include "support/test_folder.hpp"
#include "support/end_of_run.hpp"

namespace millrace::test {

/// A chain of a configuration, and the lines that lead to it.
struct TestChain {
    std::string nfs;                 ///< as a flow sequence, or lines of a block
    std::vector<std::string> lines;  ///< maps below `match:`
    std::string more;                ///< other options
};

/// So many chains of one function each, by destination port.
inline std::vector<TestChain> many_chains(size_t count) {
    std::vector<TestChain> chains;
    for (size_t i = 0; i < count; ++i) {
        const size_t width = 65536 / count;
        chains.push_back({"[firewall: {default: permit, rules: [deny tcp from any port " + std::to_string(i * 100) +
                              "-" + std::to_string(i * 1000 % 45000 + 20000) + "]}]",
                          {"{dst-port: " + std::to_string(i * width) + "-" + std::to_string((i + 1) * width - 1) + "}"},
                          ""});
    }
    return chains;
}

class Classified : public testing::Test {
protected:
    std::string write_frames(const std::vector<Frame>& frames) const {
        const std::string file = folder_ + "/in.pcap";
        io::CaptureWriter writer(file);
        for (size_t i = 0; i < frames.size(); ++i)
            writer.write(1'700'000'000'000'000'000 + i, frames[i], static_cast<uint32_t>(frames[i].size()));
        return file;
    }

    /// `input` stands below `in:`.
    chain::Configuration configuration(const std::vector<TestChain>& chains, const std::string& input,
                                       const std::string& device,
                                       const chain::Configuration* previous = nullptr) const {
        std::string ports = "  in: " + input + "\n  out: {sink: {}}\n  third: {sink: {}}\n", text = "chains:\n",
                    lines = "classify:\n";
        for (size_t i = 0; i < chains.size(); ++i) {
            const std::string name = "c" + std::to_string(i);
            ports += "  " + name + ": {sink: {keep: 1048576}}\n";
            text += "  " + name + ":\n    output: " + name + "\n";
            if (!chains[i].more.empty()) text += "    " + chains[i].more + "\n";
            text += "    nfs: " + chains[i].nfs + "\n";
            for (const std::string& line : chains[i].lines) lines += "  - {match: " + line + ", chain: " + name + "}\n";
        }
        chain::LoadOptions options;
        options.device = device;
        options.output_folder = folder_;
        options.previous = previous;
        return chain::parse_configuration("version: 1\nports:\n" + ports + text + lines, "(classified)", options);
    }

    static constexpr size_t kOtherPorts = 3;  // before those of the chains
    struct Run {
        exec::Report report;
        std::vector<std::vector<std::vector<uint8_t>>> sent;  ///< by chain
    };
    Run run(chain::Configuration configuration, size_t chains, exec::RuntimeOptions options = {}) const {
        exec::Runtime runtime(std::move(configuration), std::move(options));
        runtime.start();
        Run run{end_of_run(runtime), {}};
        for (size_t i = 0; i < chains; ++i) {
            auto& frames = run.sent.emplace_back();
            const auto& port = dynamic_cast<const io::SinkPort&>(*runtime.ports()[kOtherPorts + i]);
            for (io::SunkFrame& frame : port.sample()) frames.push_back(std::move(frame.bytes));
        }
        return run;
    }

    static const exec::ChainReport* find(const exec::Report& report, const std::string& name) {
        for (const exec::ChainReport& chain : report.chains)
            if (chain.name == name) return &chain;
        return nullptr;
    }

    static void expect_same(const Run& expected, const Run& actual, const std::string& what) {
        EXPECT_EQ(expected.report.unclassified_packets, actual.report.unclassified_packets) << what;
        for (size_t i = 0; i < expected.sent.size(); ++i) {
            const std::string name = "c" + std::to_string(i), where = what + ", " + name;
            const exec::ChainReport &a = *find(expected.report, name), &b = *find(actual.report, name);
            EXPECT_EQ(a.received_packets, b.received_packets) << where;
            EXPECT_EQ(a.received_bytes, b.received_bytes) << where;
            EXPECT_EQ(a.sent_packets, b.sent_packets) << where;
            EXPECT_EQ(a.sent_bytes, b.sent_bytes) << where;
            EXPECT_EQ(a.drops, b.drops) << where;
            EXPECT_EQ(a.punts, b.punts) << where;
            EXPECT_EQ(a.events, b.events) << where;
            for (size_t k = 0; k < a.nodes.size(); ++k) EXPECT_EQ(a.nodes[k].packets, b.nodes[k].packets) << where;
            ASSERT_EQ(expected.sent[i].size(), actual.sent[i].size()) << where;
            for (size_t k = 0; k < expected.sent[i].size(); ++k)
                ASSERT_TRUE(expected.sent[i][k] == actual.sent[i][k]) << where << ", packet " << k;
        }
    }
    TestFolder files_;
    const std::string folder_ = files_.path();
};

/// Of a capture, `count` frames.
inline std::string source(const std::string& file, size_t count) {
    return "{source: {replay: " + file + ", count: " + std::to_string(count) + "}}";
}

inline exec::RuntimeOptions with(bool contiguous) {
    exec::RuntimeOptions options;
    options.sources.contiguous = contiguous;
    return options;
}

}  // namespace millrace::test
