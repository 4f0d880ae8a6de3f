// Captures as ports: `pcap`, `output` and `capture`.
#include <fcntl.h>
#include <rte_cycles.h>
#include <sys/stat.h>
#include <unistd.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <map>
#include <set>
#include <thread>

#include "io/support.hpp"
#include "millrace/io/capture/capture_reader.hpp"
#include "millrace/io/capture/capture_writer.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::io {
namespace {

using test::mistake;
using test::ports;
using test::pump;
using test::TestFolder;

constexpr uint64_t kSecond = 1'000'000'000;

/// A capture of `count` frames of 60, 61, … bytes, one a millisecond.
std::string make_capture(const TestFolder& folder, const std::string& name, int count, uint32_t wire_extra = 0) {
    CaptureWriter writer(folder / name);
    for (int i = 0; i < count; ++i)
        writer.write(kSecond + static_cast<uint64_t>(i) * 1'000'000,
                     std::vector<uint8_t>(60 + static_cast<size_t>(i), static_cast<uint8_t>(i)),
                     wire_extra == 0 ? 0 : 60 + static_cast<uint32_t>(i) + wire_extra);
    return folder / name;
}

/// What came out of the port `in` of the YAML, and its counters.
std::vector<SunkFrame> fetch(const std::string& yaml, PortCounters* counters = nullptr,
                             std::string* trouble = nullptr) {
    const auto made = ports(yaml + "\nout: { sink: { keep: 100000 } }\n");
    pump(*made[0], *made[1]);
    EXPECT_TRUE(made[0]->exhausted());
    EXPECT_EQ(made[0]->pools()[0]->available(), made[0]->pools()[0]->packets());
    if (counters != nullptr) *counters = made[0]->counters();
    if (trouble != nullptr) *trouble = made[0]->trouble();
    return dynamic_cast<SinkPort&>(*made[1]).sample();
}

/// `pcap` and `capture` take the same options, the one beside the file and the other inside.
std::string port(const std::string& kind, const std::string& path, const std::string& options,
                 const std::string& shared = "") {
    if (kind == "pcap") return "in: { pcap: " + path + (options.empty() ? "" : ", ") + options + shared + " }";
    return "in: { capture: { pcap: " + path + (options.empty() ? "" : ", ") + options + " }" + shared + " }";
}

class CaptureKinds : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Kinds, CaptureKinds, testing::Values("pcap", "capture"));

TEST_P(CaptureKinds, DeliverEveryFrameWithItsTimeAndNumberAndLoop) {
    const TestFolder folder;
    const std::string path = make_capture(folder, "a.pcap", 50);
    PortCounters counters;
    const auto frames = fetch(port(GetParam(), path, "loop: 3"), &counters);
    ASSERT_EQ(frames.size(), 150u);
    for (size_t i = 0; i < 150; ++i) {
        EXPECT_EQ(frames[i].number, i + 1);
        EXPECT_EQ(frames[i].timestamp_ns, kSecond + i % 50 * 1'000'000);
        EXPECT_EQ(frames[i].bytes, std::vector<uint8_t>(60 + i % 50, static_cast<uint8_t>(i % 50)));
    }
    EXPECT_EQ(counters.received_packets, 150u);
    EXPECT_TRUE(counters.drops.empty());
}

TEST_P(CaptureKinds, PadCutFramesToTheirLengthOnTheWireIfAsked) {
    const TestFolder folder;
    const std::string path = make_capture(folder, "a.pcapng", 5, 1000);
    PortCounters counters;
    EXPECT_EQ(fetch(port(GetParam(), path, ""), &counters)[0].bytes.size(), 60u);
    EXPECT_EQ(counters.details["snapped"], 5u);
    const auto padded = fetch(port(GetParam(), path, "pad: original"), &counters);
    EXPECT_EQ(counters.details["padded"], 5u);
    ASSERT_EQ(padded.size(), 5u);
    std::vector<uint8_t> wanted(61, 1);
    wanted.resize(1061);
    EXPECT_EQ(padded[1].bytes, wanted);
}

TEST_P(CaptureKinds, CountWhatDoesNotFitOrHasNoEthernetForm) {
    const TestFolder folder;
    const std::string path = make_capture(folder, "a.pcap", 50);
    PortCounters counters;
    EXPECT_EQ(fetch(port(GetParam(), path, "", ", max-frame: 79"), &counters).size(), 20u);
    EXPECT_EQ(counters.drops["too-long"], 30u);
    EXPECT_EQ(counters.receive_drops(), 30u);
    {
        CaptureWriter writer(folder / "huge.pcap");
        writer.write(1, std::vector<uint8_t>(65407));
        writer.write(1, std::vector<uint8_t>(65408));
        writer.write(1, std::vector<uint8_t>(100000));
    }
    EXPECT_EQ(fetch(port(GetParam(), folder / "huge.pcap", ""), &counters).size(), 1u);
    EXPECT_EQ(counters.drops["too-long"], 2u);

    std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(20);
    file.put(105);  // 802.11
    file.close();
    EXPECT_TRUE(fetch(port(GetParam(), path, ""), &counters).empty());
    EXPECT_EQ(counters.drops["unsupported-link"], 50u);
    file.open(path, std::ios::in | std::ios::out | std::ios::binary);
    file.seekp(20);
    file.put(101);  // raw IP: the bytes 0x40… and 0x60… count as IP
    file.close();
    EXPECT_TRUE(fetch(port(GetParam(), path, "ethernet: only"), &counters).empty());
}

TEST_P(CaptureKinds, WarnWithoutBeingOpenedOfACaptureThatGivesNoPacket) {
    const TestFolder folder;
    const std::string path = make_capture(folder, "a.pcap", 1);
    std::vector<std::string> warnings;
    PortEnvironment environment;
    environment.warn = [&](const Diagnostic& warning) {
        EXPECT_EQ(warning.severity, Diagnostic::Severity::warning);
        warnings.push_back(warning.render());
    };
    const auto check = [&](uint8_t link_type, const std::string& options) {
        std::fstream file(path, std::ios::in | std::ios::out | std::ios::binary);
        file.seekp(20);
        file.put(static_cast<char>(link_type));
        file.close();
        warnings.clear();
        check_ports(Config::parse(port(GetParam(), path, options) + "\n", "ports.yaml"), environment);
        return warnings;
    };
    EXPECT_TRUE(check(1, "").empty());
    EXPECT_TRUE(check(101, "").empty()) << "raw IP gets an Ethernet header";
    ASSERT_EQ(check(101, "ethernet: only").size(), 1u);
    EXPECT_NE(warnings[0].find("'ethernet: synthesise'"), std::string::npos);
    ASSERT_EQ(check(105, "").size(), 1u);
    EXPECT_NE(warnings[0].find("ports.yaml:1:"), std::string::npos) << warnings[0];
    EXPECT_NE(warnings[0].find("IEEE802_11"), std::string::npos);
    EXPECT_NE(warnings[0].find("'unsupported-link'"), std::string::npos);
}

TEST(PcapPort, TakesPacketsWhileTheFileTakesNothing) {
    const TestFolder folder;
    const std::string path = folder / "pipe.pcap";
    ASSERT_EQ(mkfifo(path.c_str(), 0600), 0);
    const int reader = open(path.c_str(), O_RDONLY | O_NONBLOCK | O_CLOEXEC);
    const auto made = ports("in: { source: { count: 3000, size: 1000 } }\nout: { output: " + path + " }\n");
    // Three megabytes, of which the pipe holds 64 KiB: whoever sends would wait for ever now if he wrote himself.
    EXPECT_EQ(pump(*made[0], *made[1]), 3000u);
    EXPECT_LT(made[1]->counters().sent_packets, 3000u);
    std::atomic<bool> closed{false};
    std::string content;
    std::thread other([&] {
        std::vector<char> bytes(1 << 16);
        for (ssize_t n = 1; n != 0 || !closed;) {
            n = read(reader, bytes.data(), bytes.size());
            if (n > 0) content.append(bytes.data(), static_cast<size_t>(n));
            else std::this_thread::yield();
        }
    });
    made[1]->close();
    closed = true;
    other.join();
    close(reader);
    EXPECT_EQ(made[1]->counters().sent_packets, 3000u);
    EXPECT_EQ(made[0]->pools()[0]->available(), made[0]->pools()[0]->packets());
    CaptureReader written({reinterpret_cast<const uint8_t*>(content.data()), content.size()}, "pipe");
    CaptureRecord record;
    while (written.next(record)) EXPECT_EQ(record.bytes.size(), 1000u);
    EXPECT_EQ(written.records(), 3000u);
}

TEST(PcapPort, WritesWhatSeveralSendAtOnceEachInOrder) {
    const TestFolder folder;
    const std::string path = folder / "a.pcap";
    constexpr uint32_t kQueues = 4, kEach = 5000;
    const auto made = ports("in: { source: { count: 20000, size: 64 }, queues: 4 }\nout: { output: " + path +
                            ", queues: 4 }\n");
    std::vector<std::thread> threads;
    for (uint16_t queue = 0; queue < kQueues; ++queue)
        threads.emplace_back([&, queue] {
            rte_mbuf* mbufs[32];
            for (uint32_t sent = 0; sent < kEach;) {
                const uint16_t n = made[0]->receive(queue, mbufs, 32);
                for (uint16_t i = 0; i < n; ++i) {
                    auto* const data = rte_pktmbuf_mtod(mbufs[i], uint8_t*);
                    data[50] = static_cast<uint8_t>(queue);
                    store_be32(data + 51, sent + i);
                }
                // A file that is slower takes some of them.
                for (uint16_t taken = 0; taken < n;) {
                    taken = static_cast<uint16_t>(
                        taken + made[1]->send(queue, mbufs + taken, static_cast<uint16_t>(n - taken)));
                    if (taken < n) std::this_thread::yield();
                }
                sent += n;
            }
        });
    for (std::thread& thread : threads) thread.join();
    made[1]->flush();
    EXPECT_EQ(made[1]->counters().sent_packets, kQueues * kEach) << "what was flushed is with the kernel";
    made[1]->close();
    CaptureReader reader(path);
    CaptureRecord record;
    uint32_t next[kQueues] = {};
    while (reader.next(record)) {
        ASSERT_LT(record.bytes[50], kQueues);
        EXPECT_EQ(load_be32(&record.bytes[51]), next[record.bytes[50]]++);
    }
    for (const uint32_t count : next) EXPECT_EQ(count, kEach);
}

TEST(PcapPort, WritesTheTimesThatPacketsHaveSoThatTwoRunsAreEqual) {
    const TestFolder folder;
    {
        CaptureWriter writer(folder / "a.pcapng");
        writer.write(0, std::vector<uint8_t>(60));
        writer.write(5, std::vector<uint8_t>(61));
    }
    for (const char* out : {"1.pcap", "2.pcap"}) {
        const auto made = ports("in: { pcap: " + (folder / "a.pcapng") + " }\nout: { output: " + (folder / out) +
                                " }\n");
        pump(*made[0], *made[1]);
    }
    CaptureReader reader(folder / "1.pcap");
    CaptureRecord record;
    for (const uint64_t time : {0, 5}) {
        ASSERT_TRUE(reader.next(record));
        EXPECT_EQ(record.timestamp_ns, time);
    }
    const auto bytes = [&](const char* name) {
        std::ifstream in(folder / name, std::ios::binary);
        return std::string(std::istreambuf_iterator<char>(in), {});
    };
    EXPECT_EQ(bytes("1.pcap"), bytes("2.pcap"));
}

TEST_P(CaptureKinds, DeliverWhatComesBeforeTheDamageAndSayWhereItIs) {
    const TestFolder folder;
    const std::string path = make_capture(folder, "a.pcap", 50);
    std::filesystem::resize_file(path, std::filesystem::file_size(path) - 200);
    PortCounters counters;
    std::string trouble;
    EXPECT_EQ(fetch(port(GetParam(), path, ""), &counters, &trouble).size(), 48u);
    EXPECT_EQ(counters.drops["read-error"], 1u);
    EXPECT_NE(trouble.find("behind record 48"), std::string::npos) << trouble;
}

TEST_P(CaptureKinds, KeepToTheTimesOfTheCapture) {
    const TestFolder folder;
    const std::string path = make_capture(folder, "a.pcap", 30);
    const uint64_t begin = rte_rdtsc();
    EXPECT_EQ(fetch(port(GetParam(), path, "rate: original")).size(), 30u);
    EXPECT_GE(static_cast<double>(rte_rdtsc() - begin) / static_cast<double>(rte_get_tsc_hz()), 0.029);
}

TEST_P(CaptureKinds, EndAtOnceWhenTheCaptureIsEmptyEvenInALoop) {
    const TestFolder folder;
    EXPECT_TRUE(fetch(port(GetParam(), make_capture(folder, "empty.pcap", 0), "loop: forever")).empty());
}

TEST_P(CaptureKinds, WaitForBuffersAndLoseNothing) {
    const TestFolder folder;
    const std::string path = make_capture(folder, "a.pcap", 500);
    const auto made = ports(port(GetParam(), path, "", ", buffers: 64") + "\nout: { sink: {} }\n");
    std::vector<rte_mbuf*> held(500);
    uint16_t got = 0;
    while (const uint16_t n = made[0]->receive(0, &held[got], 32)) got = static_cast<uint16_t>(got + n);
    EXPECT_EQ(got, 64);
    rte_pktmbuf_free_bulk(held.data(), got);
    EXPECT_EQ(pump(*made[0], *made[1]), 436u);
    EXPECT_EQ(made[0]->counters().received_packets, 500u);
    EXPECT_DOUBLE_EQ(made[0]->progress(), 1);
}

TEST(PcapPort, WritesRelativeNamesIntoTheOutputFolderWhichItMakes) {
    const TestFolder folder;
    PortEnvironment environment;
    environment.output_folder = folder / "out/run";
    const std::string yaml = "a: { output: a.pcap }\nb: { output: sub/b.pcapng }\nc: { output: " + (folder / "c.pcap") +
                             " }\n";
    check_ports(Config::parse(yaml, "elsewhere/ports.yaml"), environment);
    EXPECT_FALSE(std::filesystem::exists(folder / "out")) << "checking makes nothing";
    const auto made = make_ports(Config::parse(yaml, "elsewhere/ports.yaml"), environment);
    for (const auto& one : made) one->close();
    EXPECT_TRUE(std::filesystem::exists(folder / "out/run/a.pcap"));
    EXPECT_TRUE(std::filesystem::exists(folder / "out/run/sub/b.pcapng"));
    EXPECT_TRUE(std::filesystem::exists(folder / "c.pcap"));
    EXPECT_EQ(made[0]->info().detail, "to " + (folder / "out/run/a.pcap"));
}

TEST(PcapPort, KnowsThatItWouldWriteTheCaptureThatItReadsInTheOutputFolder) {
    const TestFolder folder;
    make_capture(folder, "a.pcap", 1);
    PortEnvironment environment;
    environment.output_folder = folder.path();
    const Config yaml = Config::parse("a: { pcap: " + (folder / "a.pcap") + ", output: a.pcap }\n");
    EXPECT_THROW(check_ports(yaml, environment), ConfigError);
}

TEST(CapturePort, KeepsAFlowOnOneQueue) {
    const TestFolder folder;
    const auto traffic = ports("in: { source: { count: 2000, flows: 50 } }\nout: { output: " + (folder / "t.pcap") +
                               " }\n");
    pump(*traffic[0], *traffic[1]);
    traffic[1]->close();
    const auto made = ports("in: { capture: " + (folder / "t.pcap") + ", queues: 4 }\n");
    std::map<uint32_t, uint16_t> queue_of;
    uint64_t total = 0;
    for (uint16_t queue = 0; queue < 4; ++queue) {
        rte_mbuf* mbuf = nullptr;
        for (; made[0]->receive(queue, &mbuf, 1) == 1; ++total, rte_pktmbuf_free(mbuf)) {
            const auto [known, fresh] = queue_of.emplace(load_be32(rte_pktmbuf_mtod_offset(mbuf, uint8_t*, 26)), queue);
            EXPECT_EQ(known->second, queue);
        }
    }
    EXPECT_EQ(total, 2000u);
    EXPECT_EQ(queue_of.size(), 50u);
    EXPECT_TRUE(made[0]->exhausted());
}

TEST(CapturePort, KeepsBothDirectionsOfAConnectionOnOneQueueAsASourceThatReplaysDoes) {
    const TestFolder folder;
    const auto traffic = ports("in: { source: { count: 1000, flows: 500 } }\nout: { sink: { keep: 1000 } }\n");
    pump(*traffic[0], *traffic[1]);
    {
        CaptureWriter writer(folder / "t.pcap");
        for (SunkFrame frame : dynamic_cast<SinkPort&>(*traffic[1]).sample()) {
            writer.write(1, frame.bytes);
            std::swap_ranges(&frame.bytes[26], &frame.bytes[30], &frame.bytes[30]);  // addresses
            std::swap_ranges(&frame.bytes[34], &frame.bytes[36], &frame.bytes[36]);  // ports
            writer.write(1, frame.bytes);
        }
    }
    const std::string capture = "{ capture: " + (folder / "t.pcap");
    const std::string replay = "{ source: { replay: " + (folder / "t.pcap") + ", count: 2000 }";
    for (const std::string& kind : {capture, replay}) {
        const auto made = ports("in: " + kind + ", queues: 4 }\n");
        std::map<uint64_t, std::set<uint16_t>> queues_of;
        std::map<uint16_t, int> packets_of;
        for (uint16_t queue = 0; queue < 4; ++queue) {
            rte_mbuf* mbuf = nullptr;
            for (; made[0]->receive(queue, &mbuf, 1) == 1; rte_pktmbuf_free(mbuf), ++packets_of[queue]) {
                const auto word = [&](uint16_t at) { return load_be32(rte_pktmbuf_mtod_offset(mbuf, uint8_t*, at)); };
                const auto ends = std::minmax({word(26), word(30)});
                queues_of[uint64_t{ends.first} << 32 | ends.second].insert(queue);
            }
        }
        EXPECT_EQ(queues_of.size(), 500u) << kind;
        for (const auto& [connection, queues] : queues_of) EXPECT_EQ(queues.size(), 1u) << kind;
        for (uint16_t queue = 0; queue < 4; ++queue) EXPECT_GT(packets_of[queue], 300) << kind;
    }
}

TEST(PcapPort, WritesWhatItReadsSoThatBothFilesAreEqual) {
    const TestFolder folder;
    const std::string path = make_capture(folder, "a.pcap", 200);
    for (const std::string name : {"b.pcap", "b.pcapng"}) {
        const auto made = ports("io: { pcap: " + path + ", output: " + (folder / name) + " }\n");
        EXPECT_EQ(pump(*made[0], *made[0]), 200u);
        made[0]->close();
        EXPECT_EQ(made[0]->counters().sent_packets, 200u);
        EXPECT_EQ(made[0]->counters().sent_bytes, made[0]->counters().received_bytes);
        EXPECT_EQ(made[0]->trouble(), "");
    }
    EXPECT_EQ(test::run("cmp " + path + " " + (folder / "b.pcap")), "");
    if (!test::have("capinfos")) GTEST_SKIP() << "no capinfos for the second opinion";
    EXPECT_NE(test::run("capinfos -c -d -M -T -r " + (folder / "b.pcapng")).find("\t200\t"), std::string::npos);
}

TEST(PcapPort, CountsWhatAFullDiskSwallows) {
    if (!std::filesystem::exists("/dev/full")) GTEST_SKIP() << "needs /dev/full";
    const auto made = ports("in: { source: { count: 5000, size: 1000 } }\nout: { output: /dev/full }\n");
    pump(*made[0], *made[1]);
    made[1]->close();
    const PortCounters counters = made[1]->counters();
    EXPECT_EQ(counters.sent_packets, 0u);
    EXPECT_EQ(counters.drops.at("write-error"), 5000u);
    EXPECT_NE(made[1]->trouble().find("No space left"), std::string::npos);
}

TEST(PcapPort, RefusesOptionsThatMakeNoSense) {
    const TestFolder folder;
    const std::string path = make_capture(folder, "a.pcap", 1);
    EXPECT_NE(mistake("a: { pcap: " + path + ", output: " + path + " }").find("is what"), std::string::npos);
    EXPECT_NE(mistake("a: { pcap: " + path + ", queues: 2 }").find("one queue"), std::string::npos);
    EXPECT_NE(mistake("a: { pcap: " + path + ", loop: 0 }").find("out of range"), std::string::npos);
    EXPECT_NE(mistake("a: { pcap: " + path + ", rate: 0 }").find("packets a second"), std::string::npos);
    EXPECT_NE(mistake("a: { pcap: " + path + ", pad: yes }").find("is not one of"), std::string::npos);
    test::write_text(folder / "text.pcap", "this is only some text that nobody captured");
    EXPECT_NE(mistake("a: { pcap: " + (folder / "text.pcap") + " }").find("no capture"), std::string::npos);
}

}  // namespace
}  // namespace millrace::io
