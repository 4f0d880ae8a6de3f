// Every capture of the data folder, through the reader and through a port, against the folder's index
// (made by another program).
#include <algorithm>
#include <map>
#include <sstream>

#include "io/support.hpp"
#include "millrace/base/file.hpp"
#include "millrace/io/capture_reader.hpp"
#include "support/data.hpp"

namespace millrace::io {
namespace {

using millrace::test::data_path;
using test::TemporaryFolder;

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
        if (number > 1) entries.push_back({columns[0], std::stoull(columns[2]), std::stoull(columns[3]), std::stoull(columns[4]), columns[5], columns[6]});
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
        return folder_ / (indexed.substr(slash + 1, colon + mark.size() - slash - 2) + "/" + indexed.substr(colon + mark.size()));
    }

private:
    TemporaryFolder folder_;
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
    size_t captures = 0, equal = 0, refused = 0, damaged = 0;
    std::map<std::string, int> reasons;
    for (const Indexed& expected : read_index()) {
        ++captures;
        try {
            CaptureReader reader(corpus->path(expected.file));
            CaptureRecord record;
            uint64_t packets = 0, bytes = 0, longest = 0;
            while (reader.next(record)) {
                ++packets;
                bytes += record.bytes.size();
                longest = std::max<uint64_t>(longest, record.bytes.size());
            }
            if (!reader.error().empty()) {
                ++damaged;
                EXPECT_LE(packets, expected.packets) << expected.file;
                if (false) std::cout << "damaged: " << reader.error() << "  index: " << expected.packets << " read: " << packets << " " << expected.features << "\n";
            } else if (packets == expected.packets && bytes == expected.bytes && longest == expected.longest) {
                ++equal;
            } else {
                ADD_FAILURE() << expected.file << ": " << packets << " packets, " << bytes << " bytes; the index has " << expected.packets
                              << " and " << expected.bytes;
            }
        } catch (const ConfigError& e) {
            ++refused;
            if (false) std::cout << "refused: " << expected.packets << " " << e.what() << "\n";
        }
    }
    std::cout << captures << " captures: " << equal << " equal, " << damaged << " damaged, " << refused << " refused\n";
}

}  // namespace
}  // namespace millrace::io
