// Writing, reading back, and files that are broken or odd.
#include <sys/resource.h>

#include <csignal>
#include <cstring>

#include "io/support.hpp"
#include "millrace/io/capture/capture_reader.hpp"
#include "millrace/io/capture/capture_writer.hpp"
#include "millrace/packet/bytes.hpp"

namespace millrace::io {
namespace {

using test::mistake;
using test::ports;
using test::pump;
using test::TestFolder;

std::vector<uint8_t> frame_of(size_t length, uint8_t first = 1) {
    std::vector<uint8_t> bytes(length);
    for (size_t i = 0; i < length; ++i) bytes[i] = static_cast<uint8_t>(first + i * 7);
    return bytes;
}

std::string slurp(const std::string& path) {
    std::ifstream in(path, std::ios::binary);
    return {std::istreambuf_iterator<char>(in), {}};
}

template <class... Numbers>
std::string little(Numbers... numbers) {
    std::string bytes;
    (bytes.append(reinterpret_cast<const char*>(&numbers), sizeof numbers), ...);
    return bytes;
}

/// A pcap file with microseconds: header and records of (captured, wire) lengths.
std::string pcap_bytes(uint32_t link_type, const std::vector<std::string>& records, uint32_t snap_length = 65535) {
    std::string file = little(0xa1b2c3d4u, uint16_t{2}, uint16_t{4}, 0u, 0u, snap_length, link_type);
    for (const std::string& record : records)
        file += little(1000u, 7u, static_cast<uint32_t>(record.size()), static_cast<uint32_t>(record.size())) + record;
    return file;
}

std::string block(uint32_t type, std::string body) {
    body.resize((body.size() + 3) / 4 * 4);
    const auto length = static_cast<uint32_t>(body.size() + 12);
    return little(type, length) + body + little(length);
}

const std::string kSection = block(0x0a0d0d0a, little(0x1a2b3c4du, uint16_t{1}, uint16_t{0}, ~uint64_t{0}));

std::string interface(uint16_t link_type, uint32_t snap_length, const std::string& options = {}) {
    return block(1, little(link_type, uint16_t{0}, snap_length) + options);
}

std::string packet(uint32_t number, uint64_t ticks, const std::string& bytes) {
    const auto size = static_cast<uint32_t>(bytes.size());
    return block(6,
                 little(number, static_cast<uint32_t>(ticks >> 32), static_cast<uint32_t>(ticks), size, size) + bytes);
}

struct Read {
    std::vector<std::vector<uint8_t>> frames;
    std::vector<uint64_t> times;
    std::vector<int> links;
    std::string error;
};

Read read_all(const std::string& content) {
    CaptureReader reader({reinterpret_cast<const uint8_t*>(content.data()), content.size()}, "memory");
    Read result;
    for (CaptureRecord record; reader.next(record);) {
        result.frames.emplace_back(record.bytes.begin(), record.bytes.end());
        result.times.push_back(record.timestamp_ns);
        result.links.push_back(record.link_type);
    }
    result.error = reader.error();
    return result;
}

class FormatTest : public testing::TestWithParam<const char*> {};
INSTANTIATE_TEST_SUITE_P(Formats, FormatTest, testing::Values("out.pcap", "out.pcapng"));

TEST_P(FormatTest, WhatIsWrittenIsReadBackByUsAndByWireshark) {
    const TestFolder folder;
    const std::string path = folder / GetParam();
    constexpr uint64_t kTime = 1'700'000'000'123'456'789;
    const std::vector<size_t> lengths = {1, 14, 60, 61, 62, 63, 64, 1514, 9014, 65535};
    {
        CaptureWriter writer(path);
        for (size_t i = 0; i < lengths.size(); ++i) writer.write(kTime + i, frame_of(lengths[i]), i == 2 ? 100 : 0);
        EXPECT_TRUE(writer.close());
        EXPECT_EQ(writer.written_records(), lengths.size());
        EXPECT_EQ(writer.lost_records(), 0u);
    }
    CaptureReader reader(path);
    EXPECT_TRUE(reader.is_ethernet());
    CaptureRecord record;
    for (size_t i = 0; i < lengths.size(); ++i) {
        ASSERT_TRUE(reader.next(record)) << reader.error();
        EXPECT_EQ(std::vector<uint8_t>(record.bytes.begin(), record.bytes.end()), frame_of(lengths[i]));
        EXPECT_EQ(record.timestamp_ns, kTime + i);
        EXPECT_EQ(record.number, i + 1);
        EXPECT_EQ(record.wire_bytes, i == 2 ? 100u : lengths[i]);
    }
    EXPECT_FALSE(reader.next(record));
    EXPECT_EQ(reader.error(), "");
    EXPECT_DOUBLE_EQ(reader.progress(), 1);

    if (!test::have("tshark")) GTEST_SKIP() << "no tshark for the second opinion";
    const std::string told = test::run("tshark -r " + path +
                                       " -T fields -e frame.time_epoch -e frame.cap_len -e frame.len 2>/dev/null");
    std::string wanted;
    for (size_t i = 0; i < lengths.size(); ++i)
        wanted += "1700000000.12345" + std::to_string(6789 + i) + "\t" + std::to_string(lengths[i]) + "\t" +
                  std::to_string(i == 2 ? 100 : lengths[i]) + "\n";
    EXPECT_EQ(told, wanted);
}

TEST_P(FormatTest, AFullDiskIsCountedRecordByRecordAndTheFileStaysWhole) {
    const TestFolder folder;
    const std::string path = folder / GetParam();
    // A file size limit of the process fails like a full disk does.
    const auto old_handler = signal(SIGXFSZ, SIG_IGN);
    rlimit old{}, limit{};
    getrlimit(RLIMIT_FSIZE, &old);
    limit = {3 << 20, old.rlim_max};
    setrlimit(RLIMIT_FSIZE, &limit);
    CaptureWriter writer(path);
    for (int i = 0; i < 10000; ++i) writer.write(1, frame_of(1000));
    EXPECT_FALSE(writer.close());
    setrlimit(RLIMIT_FSIZE, &old);
    signal(SIGXFSZ, old_handler);
    EXPECT_NE(writer.error().find("File too large"), std::string::npos);
    EXPECT_GT(writer.written_records(), 1000u);
    EXPECT_GT(writer.lost_records(), 1000u);
    EXPECT_EQ(writer.written_records() + writer.lost_records(), 10000u);
    const Read read = read_all(slurp(path));
    EXPECT_EQ(read.error, "");
    EXPECT_EQ(read.frames.size(), writer.written_records());
}

TEST(CaptureWriter, SaysWhenTheFileCannotBeMade) {
    EXPECT_THROW(CaptureWriter("/no/such/folder/x.pcap"), std::runtime_error);
    EXPECT_NE(mistake("out: { output: /no/such/folder/x.pcap }").find("ports.yaml:1:16"), std::string::npos);
}

TEST(CaptureReader, ReadsPackedFilesAndKnowsACutOne) {
    if (!test::have("xz") || !test::have("gzip")) GTEST_SKIP() << "needs xz and gzip";
    const TestFolder folder;
    {
        CaptureWriter writer(folder / "a.pcap");
        for (int i = 0; i < 3000; ++i) writer.write(1, frame_of(500, static_cast<uint8_t>(i)));
    }
    for (const std::string packer : {"xz", "gzip"}) {
        const std::string packed = folder / ("a.pcap." + std::string(packer == "xz" ? "xz" : "gz"));
        test::run(packer + " -k -f " + (folder / "a.pcap"));
        CaptureReader whole(packed);
        CaptureRecord record;
        uint64_t n = 0;
        while (whole.next(record)) ++n;
        EXPECT_EQ(n, 3000u) << whole.error();
        EXPECT_EQ(whole.error(), "");
        std::filesystem::resize_file(packed, std::filesystem::file_size(packed) / 2);
        CaptureReader cut(packed);
        n = 0;
        while (cut.next(record)) ++n;
        EXPECT_LT(n, 3000u);
        EXPECT_NE(cut.error().find("cut off"), std::string::npos) << cut.error();
    }
}

TEST(CaptureReader, NamesThePlaceWhereAFileBreaksOff) {
    const std::string whole = pcap_bytes(1, {std::string(60, 'a'), std::string(60, 'b'), std::string(60, 'c')});
    const Read cut = read_all(whole.substr(0, whole.size() - 10));
    EXPECT_EQ(cut.frames.size(), 2u);
    EXPECT_NE(cut.error.find("behind record 2"), std::string::npos) << cut.error;
    EXPECT_NE(cut.error.find("truncated"), std::string::npos) << cut.error;

    const std::string blocks = kSection + interface(1, 0) + packet(0, 1, std::string(60, 'a')) +
                               packet(0, 2, std::string(60, 'b'));
    const Read cut_blocks = read_all(blocks.substr(0, blocks.size() - 5));
    EXPECT_EQ(cut_blocks.frames.size(), 1u);
    EXPECT_NE(cut_blocks.error.find("ends inside a block"), std::string::npos) << cut_blocks.error;
}

TEST(CaptureReader, GivesRecordsLongerThanTheHeadersSnapLengthWhole) {
    const Read read = read_all(pcap_bytes(1, {std::string(90, 'a')}, 64));
    ASSERT_EQ(read.frames.size(), 1u);
    EXPECT_EQ(read.frames[0].size(), 90u);
}

TEST(CaptureReader, ReadsPcapngWithInterfacesThatDiffer) {
    const std::string nanoseconds = little(uint16_t{9}, uint16_t{1}, uint32_t{9}, uint32_t{0});
    const std::string binary = little(uint16_t{9}, uint16_t{1}, uint32_t{0x80 | 10}, uint16_t{14}, uint16_t{8},
                                      int64_t{100}, uint32_t{0});
    const std::string file = kSection + interface(1, 65535) + interface(113, 0, nanoseconds) +
                             interface(101, 100, binary) + block(0x12345678, "not known") +
                             packet(0, 1'500'000, std::string(60, 'a')) + packet(1, 1'500'000, std::string(50, 'b')) +
                             packet(2, 2048 + 512, std::string(40, 'c')) + block(3, little(uint32_t{3}) + "xyz");
    const Read read = read_all(file);
    EXPECT_EQ(read.error, "");
    EXPECT_EQ(read.links, (std::vector<int>{1, 113, 101, 1}));
    EXPECT_EQ(read.times, (std::vector<uint64_t>{1'500'000'000, 1'500'000, 102'500'000'000, 102'500'000'000}));
    EXPECT_EQ(read.frames[3].size(), 3u);
}

TEST(CaptureReader, GivesAPacketWithoutATimeThatOfTheOneBefore) {
    const std::string simple = block(3, little(uint32_t{60}) + std::string(60, 's'));
    EXPECT_EQ(read_all(kSection + interface(1, 0) + simple + simple).times, (std::vector<uint64_t>{0, 0}));
    EXPECT_EQ(read_all(kSection + interface(1, 0) + simple + packet(0, 7, "abcd") + simple + simple +
                       packet(0, 5, "abcd") + simple)
                  .times,
              (std::vector<uint64_t>{0, 7000, 7000, 7000, 5000, 5000}));
}

TEST(CaptureReader, ReadsSectionsOfTheOtherByteOrder) {
    const auto swapped = [](std::string text) {  // of 32-bit words
        for (size_t i = 0; i + 3 < text.size(); i += 4)
            std::swap(text[i], text[i + 3]), std::swap(text[i + 1], text[i + 2]);
        return text;
    };
    const std::string big = swapped(little(0x0a0d0d0au, 28u, 0x1a2b3c4du)) + std::string("\0\1\0\0", 4) +
                            std::string(8, '\xff') + swapped(little(28u)) + swapped(little(1u, 20u)) +
                            std::string("\0\1\0\0", 4) + swapped(little(0u, 20u)) +
                            swapped(little(6u, 36u, 0u, 0u, 5u, 4u, 4u)) + "wxyz" + swapped(little(36u));
    const Read read = read_all(big + kSection + interface(1, 0) + packet(0, 6, "abcd"));
    EXPECT_EQ(read.error, "");
    ASSERT_EQ(read.frames.size(), 2u);
    EXPECT_EQ(read.frames[0], (std::vector<uint8_t>{'w', 'x', 'y', 'z'}));
    EXPECT_EQ(read.times, (std::vector<uint64_t>{5000, 6000}));
}

TEST(CaptureReader, RefusesDamagedBlocksByName) {
    const auto error = [](const std::string& blocks) {
        return read_all(kSection + interface(1, 0) + packet(0, 1, "good") + blocks).error;
    };
    EXPECT_NE(error(packet(7, 1, "x")).find("interface 7"), std::string::npos);
    EXPECT_NE(error(little(6u, 0xfffffff0u, 0u)).find("claims"), std::string::npos);
    EXPECT_NE(error(little(6u, 13u, 0u)).find("claims"), std::string::npos);
    EXPECT_NE(error(block(6, little(0u, 0u, 1u, 500u, 500u) + "short")).find("more than its block"), std::string::npos);
    EXPECT_NE(error(little(5u, 16u, 1u, 20u)).find("two lengths"), std::string::npos);
    EXPECT_NE(error(block(1, "abc")).find("too short"), std::string::npos);
    EXPECT_NE(error(block(0x0a0d0d0a, little(0u, 0u, 0u, 0u))).find("byte-order"), std::string::npos);
}

TEST(CaptureReader, RefusesWhatIsNoCapture) {
    EXPECT_THROW(read_all(""), ConfigError);
    EXPECT_THROW(read_all("hello, this is no capture at all"), ConfigError);
    EXPECT_THROW(read_all(std::string("\xd4\xc3\xb2\xa1\x02", 5)), ConfigError);
    EXPECT_THROW(CaptureReader("/no/such/file.pcap.xz"), ConfigError);
    const TestFolder folder;
    test::write_text(folder / "bad.pcap.xz", "not xz");
    test::write_text(folder / "bad.pcap.gz", "\x1f\x8b broken");
    EXPECT_THROW(CaptureReader(folder / "bad.pcap.xz"), ConfigError);
    EXPECT_THROW(CaptureReader(folder / "bad.pcap.gz"), ConfigError);
}

TEST(LinkType, GivesOtherLinkTypesAnEthernetHeader) {
    const std::string ipv4 = "\x45" + std::string(19, 'p'), ipv6 = "\x60" + std::string(39, 'p');
    const auto head = [](int link, const std::string& record) -> std::string {
        EthernetHead made;
        if (!to_ethernet_head(link, {reinterpret_cast<const uint8_t*>(record.data()), record.size()}, made))
            return "none";
        char text[32];
        snprintf(text, sizeof text, "%04x %u %02x", load_be16(made.bytes.data() + 12), made.skip, made.bytes[6]);
        return text;
    };
    for (const int raw : {12, 14, 101, 228, 229}) {
        EXPECT_EQ(head(raw, ipv4), "0800 0 02");
        EXPECT_EQ(head(raw, ipv6), "86dd 0 02");
        EXPECT_EQ(head(raw, "\x10"), "none");
        EXPECT_EQ(head(raw, ""), "none");
    }
    EXPECT_EQ(head(0, little(2u) + ipv4), "0800 4 02");
    EXPECT_EQ(head(0, std::string("\0\0\0\x1e", 4) + ipv6), "86dd 4 02");
    EXPECT_EQ(head(108, std::string("\0\0\0\x18", 4) + ipv6), "86dd 4 02");
    EXPECT_EQ(head(0, little(77u) + ipv4), "none");
    EXPECT_EQ(head(0, "\x02"), "none");
    const std::string cooked("\0\0\0\1\0\6\xaa\1\2\3\4\5\0\0\x08\0", 16);
    EXPECT_EQ(head(113, cooked + ipv4), "0800 16 aa");
    EXPECT_EQ(head(113, cooked.substr(0, 15)), "none");
    const std::string llc("\0\0\0\1\0\6\xaa\1\2\3\4\5\0\0\0\4", 16);
    EXPECT_EQ(head(113, llc + std::string(40, 'x')), "0028 16 aa");
    const std::string netlink("\0\4\x03\x38\0\0\0\0\0\0\0\0\0\0\x08\0", 16);
    EXPECT_EQ(head(113, netlink + ipv4), "none");
    const std::string cooked2("\x86\xdd\0\0\0\0\0\2\0\1\4\6\xbb\1\2\3\4\5\0\0", 20);
    EXPECT_EQ(head(276, cooked2 + ipv6), "86dd 20 bb");
    EXPECT_EQ(head(276, cooked2.substr(0, 19)), "none");
    EXPECT_EQ(head(127, ipv4), "none");
}

}  // namespace
}  // namespace millrace::io
