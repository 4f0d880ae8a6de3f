#include "millrace/base/text/shown_line.hpp"

#include <gtest/gtest.h>
#include <sys/stat.h>
#include <unistd.h>

#include "support/test_folder.hpp"

namespace millrace {
namespace {

TEST(ShownLines, AreOfFilesThatEverybodyMayReadOrOnesOwn) {
    const auto may = [](mode_t mode, uid_t owner, uid_t user) {
        struct stat status{};
        status.st_mode = S_IFREG | mode;
        status.st_uid = owner;
        return may_show_lines(status, user);
    };
    EXPECT_TRUE(may(0644, 0, 0));
    EXPECT_TRUE(may(0644, 0, 1000));
    EXPECT_TRUE(may(0600, 1000, 1000));
    EXPECT_FALSE(may(0640, 0, 1000)) << "by a group's right";
    EXPECT_FALSE(may(0600, 1000, 0)) << "root can read all, and others hear what it says";
    EXPECT_FALSE(may(0600, 0, 0)) << "/etc/shadow";
}

/// A file that is hidden from whoever runs the test.
class HiddenFile : public testing::Test {
protected:
    void SetUp() override {
        path_ = folder_.write("secrets", "root:$6$saltsalt$hash of root\nalice:$6$another:1\n3\n4\n5\n");
        ASSERT_EQ(chmod(path_.c_str(), 0600), 0);
        if (geteuid() != 0) GTEST_SKIP() << "an ordinary user owns what it can make, and may see it";
    }
    Diagnostic wrong(uint32_t line, const std::string& message, const std::string& hint = {}) const {
        return {{path_, line, 1}, message, hint};
    }

    test::TestFolder folder_;
    std::string path_;
};

TEST_F(HiddenFile, HasNoLineShownAndFewCharactersQuoted) {
    EXPECT_EQ(shown_line({path_, 1, 1}), "");
    EXPECT_EQ(wrong(1, "'root:$6$saltsalt$hash' is no action", "did you mean 'deny'?").render(),
              path_ +
                  ":1:1: error: 'root…' is no action\n"
                  "    (the line is not shown: not everybody may read this file)\n"
                  "    hint: did you mean 'deny'?");
    // What looks like a key is no better known by its first digits.
    EXPECT_EQ(wrong(1, "'5ec2e75ec2e75ec2e75ec2e75ec2e7aa' is no prefix").render().find("5ec2"), std::string::npos);
    chmod(path_.c_str(), 0644);
    EXPECT_EQ(wrong(2, "'alice:$6$another:1' is no action").render(),
              path_ + ":2:1: error: 'alice:$6$another:1' is no action\n    alice:$6$another:1\n    ^");
}

TEST_F(HiddenFile, IsToldOfThreeTimesAtMost) {
    std::vector<Diagnostic> mistakes;
    for (uint32_t line = 1; line <= 5; ++line) mistakes.push_back(wrong(line, "wrong"));
    const std::string said = render(mistakes);
    EXPECT_NE(said.find(":3:1: error"), std::string::npos) << said;
    EXPECT_EQ(said.find(":4:1: error"), std::string::npos) << said;
    EXPECT_NE(said.find(path_ + ": 2 more mistakes that are not shown"), std::string::npos) << said;
}

TEST_F(HiddenFile, IsShownToWhoNamedIt) {
    EXPECT_EQ(shown_line({path_, 3, 1}), "");
    show_lines_of(path_);
    EXPECT_EQ(shown_line({path_, 3, 1}), "3");
    EXPECT_EQ(wrong(3, "a-word-that-is-longer-than-others").render(),
              path_ + ":3:1: error: a-word-that-is-longer-than-others\n    3\n    ^");
}

TEST(ShortWords, AreAFewCharactersOfWhatIsQuoted) {
    const std::pair<const char*, const char*> cases[] = {
        {"", ""},
        {"plain words stay", "plain words stay"},
        {"it isn't quoted", "it isn't quoted"},
        {"'kye' is not known", "'kye' is not known"},
        {"'1234' stays", "'1234' stays"},
        {"'12345' does not", "'1234…' does not"},
        {"'a b c d e f g' and '987654321'", "'a b …' and '9876…'"},
        {"'it's mine, all of it'", "'it's…'"},
        {"'never closed", "'neve…'"},
        {"a_word_of_more_than_20_letters", "a_word_of_more_than_…"},
        {"'K\xc3\xb6ln K\xc3\xb6ln K\xc3\xb6ln'", "'K\xc3\xb6ln…'"},
    };
    for (const auto& [text, want] : cases) EXPECT_EQ(with_short_words(text), want);
}

TEST(Mistakes, AreToldUpToAsManyAsPeopleRead) {
    const std::vector<Diagnostic> few(kMaxTold, Diagnostic{{}, "wrong", ""});
    EXPECT_EQ(render(few).find("more"), std::string::npos);
    std::vector<Diagnostic> many(100'000, Diagnostic{{}, "wrong", ""});
    const std::string said = ConfigError(many).what();
    EXPECT_TRUE(said.ends_with("\n99950 more that are not shown")) << said;
    EXPECT_LT(said.size(), 2000u);
}

}  // namespace
}  // namespace millrace
