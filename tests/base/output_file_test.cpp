#include "millrace/base/files/output_file.hpp"

#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstdlib>
#include <filesystem>
#include <functional>

#include "millrace/base/files/file.hpp"
#include "support/test_folder.hpp"

namespace millrace {
namespace {
namespace fs = std::filesystem;

class OutputFiles : public testing::Test {
protected:
    OutputFiles() { umask(022); }

    std::string at(const std::string& name) const { return files_.path(name); }
    struct stat status(const std::string& name) const {
        struct stat status{};
        EXPECT_EQ(lstat(at(name).c_str(), &status), 0) << name;
        return status;
    }
    unsigned mode(const std::string& name) const { return status(name).st_mode & 07777; }
    size_t files() const {
        return static_cast<size_t>(std::distance(fs::directory_iterator(folder_), fs::directory_iterator()));
    }

    static std::string message(const std::function<void()>& f) {
        try {
            f();
        } catch (const std::exception& e) {
            return e.what();
        }
        return "no error";
    }
    static void write_whole(const std::string& path, const std::string& text, Readers readers = Readers::group) {
        WholeFile file(path, readers);
        file.stream() << text;
        file.finish();
    }
    static void write_pieces(const std::string& path, const std::string& text,
                             OutputFile::Begin begin = OutputFile::Begin::empty) {
        OutputFile file(path, begin);
        EXPECT_EQ(write_bytes(file.descriptor(), text), text.size());
        EXPECT_TRUE(file.close());
    }

    test::TestFolder files_;
    const std::string folder_ = files_.path();
};

TEST_F(OutputFiles, AppearWholeOrNotAtAllAndLeaveNothingElse) {
    write_file(at("a"), "before");
    {
        WholeFile file(at("a"));
        file.stream() << std::string(200'000, 'x');
        EXPECT_EQ(read_file(at("a")), "before");
    }
    EXPECT_EQ(read_file(at("a")), "before");
    write_whole(at("a"), std::string(200'000, 'y'));
    EXPECT_EQ(read_file(at("a")), std::string(200'000, 'y'));
    write_file(at("made/on/the/way"), "b");
    EXPECT_EQ(read_file(at("made/on/the/way")), "b");
    EXPECT_EQ(files(), 2u);
}

TEST_F(OutputFiles, AreReadByTheirOwnersGroupAtMostAndSecretsByTheOwner) {
    write_whole(at("whole"), "x");
    write_whole(at("secret"), "x", Readers::owner);
    write_pieces(at("pieces"), "x");
    EXPECT_EQ(mode("whole"), 0640u);
    EXPECT_EQ(mode("secret"), 0600u);
    EXPECT_EQ(mode("pieces"), 0640u);
    // Who could read the file before still can; a secret is taken from them.
    fs::permissions(at("whole"), fs::perms(0664));
    fs::permissions(at("secret"), fs::perms(0664));
    write_whole(at("whole"), "y");
    write_whole(at("secret"), "y", Readers::owner);
    EXPECT_EQ(mode("whole"), 0664u);
    EXPECT_EQ(mode("secret"), 0600u);
    umask(077);
    write_whole(at("masked"), "x");
    umask(022);
    EXPECT_EQ(mode("masked"), 0600u);
}

TEST_F(OutputFiles, DoNotReplaceAPipe) {
    ASSERT_EQ(mkfifo(at("pipe").c_str(), 0600), 0);
    // Nobody reads: told at once, not waited for.
    EXPECT_NE(message([&] { WholeFile(at("pipe")); }).find("is a pipe or socket that nobody reads"), std::string::npos);
    EXPECT_NE(message([&] { OutputFile(at("pipe"), OutputFile::Begin::empty); }).find("nobody reads"),
              std::string::npos);
    const int reader = open(at("pipe").c_str(), O_RDONLY | O_NONBLOCK);
    write_whole(at("pipe"), "one ");
    write_pieces(at("pipe"), "two");
    char text[16] = {};
    EXPECT_EQ(read(reader, text, sizeof text), 7);
    EXPECT_STREQ(text, "one two");
    close(reader);
    EXPECT_TRUE(S_ISFIFO(status("pipe").st_mode));
    EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFiles, DoNotReplaceADevice) {
    if (mknod(at("null").c_str(), S_IFCHR | 0666, 1 << 8 | 3) != 0) GTEST_SKIP() << "this user may make no device";
    write_whole(at("null"), "x");
    write_file(at("null"), "x");
    write_pieces(at("null"), "x");
    EXPECT_TRUE(S_ISCHR(status("null").st_mode));
    EXPECT_EQ(mode("null") & 0444u, 0444u);
    EXPECT_EQ(files(), 1u);
}

TEST_F(OutputFiles, FollowLinksOfTheirUserOnly) {
    write_file(at("target"), "before");
    fs::create_symlink("target", at("own"));
    write_whole(at("own"), "whole");
    EXPECT_EQ(read_file(at("target")), "whole");
    write_pieces(at("own"), " and more", OutputFile::Begin::at_end);
    EXPECT_EQ(read_file(at("target")), "whole and more");
    EXPECT_TRUE(S_ISLNK(status("own").st_mode));
    fs::create_symlink("not-there-yet", at("ahead"));
    write_whole(at("ahead"), "x");
    EXPECT_EQ(read_file(at("not-there-yet")), "x");
    fs::create_symlink("round", at("round"));
    EXPECT_NE(message([&] { WholeFile(at("round")); }).find("Too many levels of symbolic links"), std::string::npos);

    if (geteuid() != 0) GTEST_SKIP() << "the rest needs root, who can give a link away";
    fs::create_symlink("target", at("foreign"));
    ASSERT_EQ(lchown(at("foreign").c_str(), 65534, 65534), 0);
    fs::create_symlink("foreign", at("by-way"));
    for (const char* name : {"foreign", "by-way"}) {
        EXPECT_NE(message([&] { WholeFile(at(name)); }).find("/foreign is a link of another user"), std::string::npos)
            << name;
        EXPECT_NE(message([&] { OutputFile(at(name), OutputFile::Begin::empty); }).find("is a link of another user"),
                  std::string::npos)
            << name;
        EXPECT_NE(message([&] { check_output(at(name)); }).find("is a link of another user"), std::string::npos)
            << name;
        EXPECT_NE(message([&] { write_file(at(name), "x"); }).find("is a link of another user"), std::string::npos)
            << name;
    }
    EXPECT_EQ(read_file(at("target")), "whole and more");
}

TEST_F(OutputFiles, GoToTheTerminalOrPipeThatProcNames) {
    int ends[2];
    ASSERT_EQ(pipe(ends), 0);
    const std::string path = "/proc/self/fd/" + std::to_string(ends[1]);
    check_output(path);
    write_whole(path, "one ");
    write_pieces(path, "two");
    char text[16] = {};
    EXPECT_EQ(read(ends[0], text, sizeof text), 7);
    EXPECT_STREQ(text, "one two");
    close(ends[0]);
    close(ends[1]);
}

TEST_F(OutputFiles, TellWhyTheyCannotBeWritten) {
    const std::string missing = at("no/such/file");
    EXPECT_EQ(message([&] { WholeFile{missing}; }), missing + ": cannot be written: there is no folder " +
                                                        at("no/such") + " (make that folder, or name another file)");
    EXPECT_EQ(message([&] { WholeFile{folder_}; }), folder_ + ": is a folder, not a file (name a file in it)");
    EXPECT_NE(
        message([&] { write_file("/dev/full", "x"); }).find("/dev/full: cannot be written: No space left on device"),
        std::string::npos);
    const Location place{"chain.yaml", 3, 7};
    EXPECT_NE(message([&] { WholeFile(missing, Readers::group, place); }).find("chain.yaml:3:7: error: " + missing),
              std::string::npos);
    EXPECT_NE(
        message([&] { OutputFile(folder_, OutputFile::Begin::empty, Readers::group, place); }).find("chain.yaml:3:7"),
        std::string::npos);
}

TEST_F(OutputFiles, AreCheckedWithoutAChange) {
    write_file(at("there"), "kept");
    check_output(at("there"));
    check_output(at("fresh"));
    check_output("/dev/null");
    EXPECT_EQ(read_file(at("there")), "kept");
    EXPECT_EQ(files(), 1u);
    for (const std::string& path : {at("no/such/file"), folder_, at("there/below"), at(std::string(300, 'n'))})
        EXPECT_EQ(message([&] { check_output(path); }), message([&] { OutputFile(path, OutputFile::Begin::empty); }))
            << path;
}

TEST_F(OutputFiles, HaveOneProcessThatWritesThem) {
    auto first = std::make_unique<OutputFile>(at("log"), OutputFile::Begin::at_end);
    OutputFile next(at("log"), OutputFile::Begin::at_end);  // the next generation of the same process
    first.reset();
    const auto in_another_process = [&] {
        return std::system(("flock --nonblock --exclusive '" + at("log") + "' true").c_str()) == 0;
    };
    EXPECT_FALSE(in_another_process());
    next.close();
    EXPECT_TRUE(in_another_process());

    // And the other way round: what another one writes is left alone.
    write_file(at("other"), "theirs");
    const int theirs = open(at("other").c_str(), O_WRONLY);
    ASSERT_EQ(std::system(("flock --nonblock --exclusive " + std::to_string(theirs)).c_str()), 0);
    EXPECT_NE(
        message([&] { OutputFile(at("other"), OutputFile::Begin::empty); }).find("is being written by another process"),
        std::string::npos);
    EXPECT_EQ(read_file(at("other")), "theirs");
    close(theirs);
    write_pieces(at("other"), "ours");
    EXPECT_EQ(read_file(at("other")), "ours");
}

}  // namespace
}  // namespace millrace
