// Every capture of the data folder, through the reader and through a port, against the folder's index
// (made by another program).
#include <algorithm>
#include <map>
#include <sstream>

#include "io/support.hpp"
#include "millrace/base/files/file.hpp"
#include "millrace/io/capture/capture_reader.hpp"
#include "support/data.hpp"

namespace millrace::io {
namespace {

using millrace::test::data_path;
using test::TestFolder;

struct Indexed {
    std::string file;  // as the index names it
    uint64_t packets, bytes, longest;
    std::string link_types, features;
};

std::vector<Indexed> read_index() {
    std::vector<Indexed> entries;
    for_each_line(read_file(data_path("pcap/INDEX.tsv")), [&](std::string_view line, uint32_t number) {
        std::vector<std::string> columns;
        std::istringstream in{std::string(line)};
        for (std::string column; std::getline(in, column, '\t');) columns.push_back(column);
        columns.resize(7);
        if (number > 1)
            entries.push_back({columns[0], std::stoull(columns[2]), std::stoull(columns[3]), std::stoull(columns[4]),
                               columns[5], columns[6]});
    });
    return entries;
}

/// The captures of the index as files: members of archives are unpacked below a folder.
class Corpus {
public:
    Corpus() {
        for (const auto& entry : std::filesystem::directory_iterator(data_path("pcap/corpus"))) {
            const std::string name = entry.path().filename();
            std::filesystem::create_directories(folder_ / name);
            EXPECT_EQ(test::run("tar -C " + (folder_ / name) + " -xJf " + entry.path().string()), "");
        }
    }
    std::string path(const std::string& indexed) const {
        const std::string mark = ".tar.xz:";
        const size_t colon = indexed.find(mark);
        if (colon == std::string::npos) return data_path(indexed);
        const size_t slash = indexed.rfind('/', colon);
        return folder_ /
               (indexed.substr(slash + 1, colon + mark.size() - slash - 2) + "/" + indexed.substr(colon + mark.size()));
    }

private:
    TestFolder folder_;
};

class CorpusTest : public testing::Test {
protected:
    static void SetUpTestSuite() {
        if (std::filesystem::exists(data_path("pcap/INDEX.tsv"))) corpus = std::make_unique<Corpus>();
    }
    static void TearDownTestSuite() { corpus.reset(); }
    static inline std::unique_ptr<Corpus> corpus;
};

TEST_F(CorpusTest, EveryCaptureIsReadToItsEndOrToItsDamage) {
    MILLRACE_NEEDS_DATA("pcap/INDEX.tsv");
    size_t captures = 0, equal = 0;
    for (const Indexed& expected : read_index()) {
        ++captures;
        SCOPED_TRACE(expected.file);
        CaptureReader reader(corpus->path(expected.file));
        CaptureRecord record;
        uint64_t packets = 0, bytes = 0, longest = 0;
        while (reader.next(record)) {
            ++packets;
            bytes += record.bytes.size();
            longest = std::max<uint64_t>(longest, record.bytes.size());
        }
        if (packets == expected.packets && bytes == expected.bytes && longest == expected.longest &&
            reader.error().empty()) {
            ++equal;
            continue;
        }
        // Two files break off inside a record. Of one, the index's maker read no record where libpcap and Wireshark
        // read one.
        EXPECT_NE(expected.features.find("FILE-TRUNCATED"), std::string::npos);
        EXPECT_NE(reader.error().find("damaged behind record " + std::to_string(packets)), std::string::npos)
            << reader.error();
        EXPECT_LE(packets, expected.packets + 1);
    }
    EXPECT_EQ(captures, 1881u);
    EXPECT_EQ(equal, 1879u);
}

TEST_F(CorpusTest, EveryCaptureComesThroughAPortAndIsAccountedFor) {
    MILLRACE_NEEDS_DATA("pcap/INDEX.tsv");
    uint64_t received = 0, dropped = 0;
    for (const Indexed& expected : read_index()) {
        // The large ones take their time and show nothing new.
        if (expected.packets > 2000) continue;
        SCOPED_TRACE(expected.file);
        const auto made = test::ports("in: { pcap: '" + corpus->path(expected.file) +
                                      "', buffers: 64 }\nout: { sink: {} }\n");
        const uint64_t moved = test::pump(*made[0], *made[1]);
        const PortCounters in = made[0]->counters(), out = made[1]->counters();
        const uint64_t damage = in.drops.contains("read-error") ? 1 : 0;
        EXPECT_EQ(moved, in.received_packets);
        if (damage == 0) {
            EXPECT_EQ(in.received_packets + in.receive_drops(), expected.packets);
        }
        EXPECT_EQ(out.sent_packets, in.received_packets);
        EXPECT_EQ(out.sent_bytes, in.received_bytes);
        EXPECT_EQ(made[0]->trouble().empty(), damage == 0);
        if (expected.link_types == "1" && damage == 0 && expected.longest < 65000) {
            EXPECT_EQ(in.received_bytes, expected.bytes);
        }
        received += in.received_packets;
        dropped += in.receive_drops();
    }
    EXPECT_GT(received, 60000u);
    EXPECT_GT(dropped, 1000u) << "there are 802.11 captures among them";
}

}  // namespace
}  // namespace millrace::io
