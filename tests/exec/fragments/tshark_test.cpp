// Recorded fragments of all kinds: what Wireshark puts together of a capture, byte by byte, or a named reason why not.
#include <gtest/gtest.h>

#include <array>
#include <cstdio>
#include <map>
#include <optional>
#include <set>
#include <sstream>

#include "exec/fragments/fragment_maker.hpp"
#include "millrace/io/capture/capture_reader.hpp"
#include "support/captures.hpp"
#include "support/data.hpp"
#include "support/test_folder.hpp"

namespace millrace::test {
namespace {

std::string output_of(const std::string& command) {
    std::string text;
    FILE* const pipe = popen(command.c_str(), "r");
    std::array<char, 65536> some;
    for (size_t n; (n = fread(some.data(), 1, some.size(), pipe)) > 0;) text.append(some.data(), n);
    return pclose(pipe) == 0 ? text : std::string();
}

std::string hex(const Frame& frame, size_t from) {
    std::string text;
    char two[3];
    for (size_t i = from; i < frame.size(); ++i)
        text.append(two, static_cast<size_t>(std::snprintf(two, sizeof two, "%02x", frame[i])));
    return text;
}

/// By the number of the frame that completes it: what the fragments of each packet hold, as hex. Of tunnels the outer
/// packet's only.
std::map<uint64_t, std::string> tshark_reassembles(const std::string& capture) {
    std::map<uint64_t, std::string> found;
    const bool packed = capture.ends_with(".xz");  // which tshark does not read
    std::istringstream lines(
        output_of((packed ? "xz -dc '" + capture + "' | tshark -r -" : "tshark -r '" + capture + "'") +
                  " -Y 'ip.reassembled.length or ipv6.reassembled.length' -T fields -E occurrence=f -e frame.number -e "
                  "ip.reassembled.data -e ipv6.reassembled.data -e frame.protocols 2>/dev/null"));
    for (std::string line; std::getline(lines, line);) {
        std::istringstream fields(line);
        std::string number, ipv4, ipv6, protocols;
        std::getline(fields, number, '\t');
        std::getline(fields, ipv4, '\t');
        std::getline(fields, ipv6, '\t');
        std::getline(fields, protocols, '\t');
        const size_t four = protocols.find(":ip:"), six = protocols.find(":ipv6:");
        found[std::stoull(number)] = six < four ? ipv6 : ipv4;
    }
    return found;
}

struct Ours {
    std::map<uint64_t, std::string> whole;
    std::set<uint64_t> dropped;
    size_t fragments = 0, tunnelled = 0;
};

Ours put_together(const std::string& capture) {
    Ours ours;
    std::optional<ReassemblyRun> runs;  // takes memory for many packets, and most captures have no fragment
    io::CaptureReader reader(capture);
    io::CaptureRecord record;
    while (reader.next(record)) {
        if (!reader.to_ethernet(record)) continue;
        Frame frame(record.head.begin(), record.head.end());
        frame.insert(frame.end(), record.bytes.begin(), record.bytes.end());
        const auto fragment = exec::read_fragment(frame, 0);
        if (!fragment || frame.size() > nftest::kMaxFrameBytes) continue;
        ++ours.fragments;
        if (!runs)
            runs.emplace(
                chain::Reassembly{.max_packets = 1024, .max_per_source = 1024, .timeout = std::chrono::minutes(5)});
        ReassemblyRun& run = *runs;
        const uint64_t duplicates = run.dropped(exec::FragmentDrop::duplicate), drops = run.dropped();
        const Frame whole = run.add(frame, record.timestamp_ns);
        if (!whole.empty()) ours.whole[record.number] = hex(whole, fragment->head_bytes);
        else if (run.dropped() - drops > run.dropped(exec::FragmentDrop::duplicate) - duplicates)
            ours.dropped.insert(record.number);
    }
    return ours;
}

TEST(Tshark, PutsTogetherWhatWeDo) {
    MILLRACE_NEEDS_DATA("pcap/corpus");
    if (output_of("tshark -v 2>/dev/null").empty()) GTEST_SKIP() << "needs tshark";
    const TestFolder folder;
    size_t captures = 0, packets = 0, refused = 0;
    for (const std::string& capture : all_captures(folder.path())) {
        SCOPED_TRACE(capture);
        Ours ours;
        try {
            ours = put_together(capture);
        } catch (const ConfigError&) {
            continue;
        }
        if (ours.fragments < 2) continue;
        ++captures;
        const auto theirs = tshark_reassembles(capture);
        for (const auto& [number, payload] : ours.whole) {
            const auto same = theirs.find(number);
            if (same == theirs.end()) ADD_FAILURE() << "tshark has no packet at frame " << number;
            else EXPECT_EQ(payload, same->second) << "frame " << number;
            ++packets;
        }
        for (const auto& [number, payload] : theirs) {
            if (ours.whole.contains(number) || payload.empty()) continue;
            if (ours.dropped.contains(number)) ++refused;
            else ADD_FAILURE() << "tshark has a packet at frame " << number;
        }
    }
    std::cout << captures << " captures with fragments: " << packets << " packets equal, " << refused
              << " refused by name\n";
    EXPECT_GE(captures, 15u);
    EXPECT_GE(packets, 30u);
}

}  // namespace
}  // namespace millrace::test
