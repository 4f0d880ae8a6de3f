#include "millrace/base/files/file.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>
#include <zlib.h>

#include <cstdlib>
#include <filesystem>
#include <vector>

#include "millrace/base/files/file_ledger.hpp"
#include "millrace/base/files/output_file.hpp"
#include "support/test_folder.hpp"

namespace millrace {
namespace {
namespace fs = std::filesystem;

class Files : public testing::Test {
protected:
    std::string at(const std::string& name) const { return files_.path(name); }

    template <class F>
    static std::string message(F&& f) {
        try {
            f();
        } catch (const std::exception& e) {
            return e.what();
        }
        return "no error";
    }

    test::TestFolder files_;
    const std::string folder_ = files_.path();
};

TEST_F(Files, AreReadAndNothingElseIs) {
    write_file(at("text"), "hello");
    EXPECT_EQ(read_file(at("text")), "hello");
    EXPECT_FALSE(read_file("/proc/self/status").empty());  // tells no size
    ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
    const Location place{"chain.yaml", 3, 7};
    for (const auto& [path, why] :
         {std::pair(at("pipe"), "is a pipe, not a file"), std::pair(folder_, "is a folder, not a file"),
          std::pair(std::string("/dev/zero"), "is a device, not a file"),
          std::pair(at("no"), "No such file or directory")}) {
        const std::string said = message([&, &path = path] { read_file(path, place); });
        EXPECT_TRUE(said.starts_with("chain.yaml:3:7: error: " + path + ": " + why)) << said;
    }
}

TEST_F(Files, AreNotReadBeyondTheirLimit) {
    write_file(at("text"), std::string(1000, 'x'));
    EXPECT_EQ(read_file(at("text"), {}, 1000).size(), 1000u);
    EXPECT_NE(message([&] { read_file(at("text"), {}, 999); }).find("is longer than 999 bytes"), std::string::npos);
    EXPECT_EQ(read_beginning(at("text"), 7), "xxxxxxx");
    EXPECT_EQ(read_beginning(at("text"), 2000).size(), 1000u);
    // A hole takes no room on the disk, and would take a terabyte of memory.
    fs::resize_file(at("text"), uint64_t{1} << 40);
    EXPECT_NE(message([&] { read_file(at("text")); }).find("is longer than 268435456 bytes"), std::string::npos);
    gzFile packed = gzopen(at("bomb.gz").c_str(), "wb");
    const std::string zeros(1 << 20, '\0');
    for (int i = 0; i < 8; ++i) gzwrite(packed, zeros.data(), 1 << 20);
    gzclose(packed);
    EXPECT_EQ(read_file(at("bomb.gz")).size(), size_t{8} << 20);
    EXPECT_EQ(read_beginning(at("bomb.gz"), 1 << 20).size(), size_t{1} << 20);
    EXPECT_NE(message([&] { read_file(at("bomb.gz"), {}, 1 << 20); }).find("is longer than 1048576 bytes unpacked"),
              std::string::npos);
}

TEST_F(Files, AreLookedAtWhenTheyAreOpenNotBefore) {
    write_file(at("text"), "hello");
    const auto refuse = [](const struct stat& status) {
        return std::pair<std::string, std::string>(status.st_size == 5 ? "has five bytes" : "", "write six");
    };
    const std::string said = message([&] { read_file(at("text"), {"chain.yaml", 1, 2}, kMaxFileBytes, refuse); });
    EXPECT_EQ(said, "chain.yaml:1:2: error: " + at("text") + ": has five bytes\n    hint: write six");
}

TEST_F(Files, AreNotWrittenByWhoReadsThem) {
    write_file(at("rules"), "x");
    fs::create_symlink("rules", at("link"));
    fs::create_hard_link(at("rules"), at("hard"));
    using Use = FileLedger::Use;
    const auto place = [](uint32_t line) { return Location{"chain.yaml", line, 5}; };
    FileLedger ledger;
    ledger.note(Use::read, at("rules"), place(1));
    ledger.note(Use::read, at("rules"), place(2));
    for (const char* name : {"rules", "link", "hard", "../", "no/../rules"}) {
        const std::string path = name == std::string("../")
                                     ? folder_ + "/../" + fs::path(folder_).filename().string() + "/rules"
                                     : at(name);
        for (const Use use : {Use::write, Use::append})
            EXPECT_NE(message([&] {
                          ledger.note(use, path, place(3));
                      }).find("chain.yaml:3:5: error: " + path + ": is what chain.yaml:1:5 reads"),
                      std::string::npos)
                << path;
    }
    // What is not there yet has one name, too.
    ledger.note(Use::write, at("out.pcap"), place(4));
    ledger.note(Use::write, at("out.pcap"), place(4));
    EXPECT_NE(
        message([&] { ledger.note(Use::write, at("x/../out.pcap"), place(5)); }).find("is what chain.yaml:4:5 writes"),
        std::string::npos);
    EXPECT_NE(message([&] { ledger.note(Use::read, at("out.pcap"), place(6)); }).find("is what chain.yaml:4:5 writes"),
              std::string::npos);
    // Alerts of several functions go into one file; that is no capture's.
    ledger.note(Use::append, at("eve.json"), place(7));
    ledger.note(Use::append, at("eve.json"), place(8));
    EXPECT_NE(message([&] { ledger.note(Use::write, at("eve.json"), place(9)); }).find("chain.yaml:7:5 writes"),
              std::string::npos);
    EXPECT_NE(message([&] { ledger.note(Use::write, at("eve.json"), {}); }).find("chain.yaml:7:5 writes"),
              std::string::npos);
    // /dev/null takes everything from everybody.
    for (uint32_t line = 10; line < 1010; ++line) ledger.note(Use::write, "/dev/null", place(line));
}

TEST_F(Files, AreToldOfWithoutTheKeysInThem) {
    const std::string digits = "5ec2e75ec2e75ec2e75ec2e75ec2e7aa";
    const auto shown = [&](const std::string& line, const std::string& said = "wrong") {
        write_file(at("c.yaml"), line + "\n");
        chmod(at("c.yaml").c_str(), 0644);
        return Diagnostic{{at("c.yaml"), 1, 1}, said, "not " + digits}.render();
    };
    const std::vector<std::string> secret = {"kye: \"" + digits + "\"",
                                             "psk: " + digits,
                                             "0x" + digits,
                                             "key: short",
                                             "auth-key: \"" + digits + "\", more: 1",
                                             digits.substr(0, 15) + "z" + digits.substr(15)};
    for (const std::string& line : secret) {
        const std::string said = shown(line, "'" + digits + "' is no prefix");
        EXPECT_EQ(said.find("5ec2e7"), std::string::npos) << said;
        EXPECT_EQ(said.find("short"), std::string::npos) << said;
    }
    const std::vector<std::string> open = {"src: 2001:db8:0000:0000:0000:0000:0000:0001",
                                           "priority 99999999999999999999", "classification-of-all-packets-that-came"};
    for (const std::string& line : open) EXPECT_NE(shown(line).find(line), std::string::npos) << shown(line);
}

}  // namespace
}  // namespace millrace
