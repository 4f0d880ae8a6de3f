// Profiles of transfers: what is written is read again, and nothing else is taken for one.
#include "millrace/exec/transfer/transfer_figures.hpp"

#include <gtest/gtest.h>

#include <cstdlib>
#include <filesystem>
#include <fstream>

#include "millrace/base/text/diagnostic.hpp"
#include "support/test_folder.hpp"

namespace millrace::test {
namespace {

using exec::TransferFigures;

class TransferFiguresFile : public testing::Test {
protected:
    TransferFiguresFile() {
        if (const char* before = std::getenv("XDG_CACHE_HOME")) before_ = before;
        setenv("XDG_CACHE_HOME", folder_.c_str(), 1);
    }
    ~TransferFiguresFile() override {
        if (before_.empty()) unsetenv("XDG_CACHE_HOME");
        else setenv("XDG_CACHE_HOME", before_.c_str(), 1);
    }
    std::string write(const std::string& text, std::string path = {}) const {
        if (path.empty()) path = folder_ + "/profile.json";
        std::filesystem::create_directories(std::filesystem::path(path).parent_path());
        std::ofstream(path) << text;
        return path;
    }
    /// What reading this text as a profile of "a GPU" says.
    std::string complaint(const std::string& text) const {
        try {
            exec::read_figures(write(text), "a GPU");
        } catch (const ConfigError& e) {
            return e.what();
        }
        return {};
    }
    TestFolder files_;
    const std::string folder_ = files_.path();
    std::string before_;
};

TransferFigures some_figures() {
    TransferFigures figures = exec::built_in_figures();
    figures.device = "a GPU";
    figures.gather = {1, 2.5, 3.25};
    figures.packet_ns = 0;
    return figures;
}

std::string replaced(std::string text, const std::string& what, const std::string& by) {
    const size_t at = text.find(what);
    EXPECT_NE(at, std::string::npos) << what;
    return text.replace(at, what.size(), by);
}

TEST_F(TransferFiguresFile, AreReadAsTheyWereWritten) {
    const TransferFigures read = exec::read_figures(write(figures_json(some_figures())), "a GPU");
    EXPECT_EQ(figures_json(read), figures_json(some_figures()));
    EXPECT_EQ(read.gather.item_ns, 2.5);
    EXPECT_EQ(read.source, folder_ + "/profile.json");
}

TEST_F(TransferFiguresFile, AreRefusedWithPlaceAndRemedyWhenTheyAreNoProfileOfTheDevice) {
    const std::string good = figures_json(some_figures());
    const struct {
        std::string text, place, words;
    } kCases[] = {
        {"", "profile.json", ""},
        {"[1, 2]", "profile.json:1:1", "no profile"},
        {"{\"version\": 1", "profile.json:", ""},
        {good.substr(0, good.size() / 2), "profile.json:", ""},
        {replaced(good, "\"version\": 1", "\"version\": 9"), "profile.json:2:13", "version 9"},
        {replaced(good, "a GPU", "another GPU"), "profile.json:3:12", "another GPU"},
        {replaced(good, "2.5", "-2.5"), "profile.json:", "-2.5"},
        {replaced(good, "2.5", "\"much\""), "profile.json:", "much"},
        {replaced(good, "2.5", "1e300"), "profile.json:", "1e300"},
        {replaced(good, "2.5", ".inf"), "profile.json:", ""},
        {replaced(good, "2.5", ".nan"), "profile.json:", ""},
        {replaced(good, "2.5", "[]"), "profile.json:", ""},
        {replaced(good, "item-ns", "item-us"), "profile.json:", "item"},
        {replaced(good, "\"packet-ns\"", "\"packet-us\""), "profile.json:", "packet"},
        {replaced(good, "\"device\"", "\"more\": 1, \"device\""), "profile.json:3:2", "more"},
    };
    for (const auto& one : kCases) {
        const std::string said = complaint(one.text);
        EXPECT_NE(said.find(one.place), std::string::npos) << one.text.substr(0, 60) << "\n" << said;
        EXPECT_NE(said.find(one.words), std::string::npos) << one.text.substr(0, 60) << "\n" << said;
        EXPECT_NE(said.find("millrace profile"), std::string::npos) << said;
    }
}

TEST_F(TransferFiguresFile, AreKeptForEachModelAndElseBuiltIn) {
    EXPECT_EQ(exec::figures_path("NVIDIA H200"), folder_ + "/millrace/bus-nvidia-h200.json");
    EXPECT_EQ(exec::figures_path("../../x"), folder_ + "/millrace/bus-------x.json");
    EXPECT_EQ(figures_json(*exec::figures_of("a GPU")), figures_json(exec::built_in_figures()));
    EXPECT_EQ(exec::figures_of("")->device, exec::built_in_figures().device);
    write(figures_json(some_figures()), exec::figures_path("a GPU"));
    EXPECT_EQ(exec::figures_of("a GPU")->gather.item_ns, 2.5);
    EXPECT_EQ(exec::figures_of("b GPU")->device, exec::built_in_figures().device);
    write("no profile", exec::figures_path("a GPU"));
    EXPECT_EQ(exec::figures_of("a GPU")->device, exec::built_in_figures().device)
        << "what can be made again stops nobody";
}

}  // namespace
}  // namespace millrace::test
