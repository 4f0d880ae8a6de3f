#include "millrace/base/text/yaml_reader.hpp"

#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <filesystem>

#include "millrace/base/files/file.hpp"
#include "millrace/base/text/config.hpp"
#include "support/data.hpp"

namespace millrace {
namespace {

std::string said(const std::string& text) {
    try {
        Config::parse(text, "c.yaml");
    } catch (const ConfigError& e) {
        return e.what();
    }
    return "sound";
}

std::string repeated(const std::string& text, size_t times) {
    std::string all;
    for (size_t i = 0; i < times; ++i) all += text;
    return all;
}

TEST(Yaml, MayHaveBomsLineEndsAliasesAndEveryLanguage) {
    EXPECT_EQ(said("\xef\xbb\xbfversion: 1\n"), "sound");
    EXPECT_EQ(said("version: 1\r\nports: {}\r\n"), "sound");
    EXPECT_EQ(said("name: K\xc3\xb6ln \xe6\x9d\xb1\xe4\xba\xac \xf0\x9f\x8c\x8a\n"), "sound");
    EXPECT_EQ(said("a: &x [1, 2]\nb: *x\nc: *x\n"), "sound");
    EXPECT_EQ(said("---\nversion: 1\n...\n"), "sound");
    EXPECT_EQ(said("a: !!str 1\nb: ! x\n"), "sound");
    EXPECT_EQ(said(repeated("[", 60) + repeated("]", 60)), "sound");
}

/// Holds what is read against the YAML library's own tree, value by value with its place.
void expect_same(const YamlNode& node, const YAML::Node& other) {
    const YAML::Mark mark = other.Mark();
    ASSERT_EQ(node.place.line, mark.line);
    ASSERT_EQ(node.place.column, mark.column);
    ASSERT_EQ(node.kind == YamlNode::Kind::null, other.IsNull());
    ASSERT_EQ(node.kind == YamlNode::Kind::scalar, other.IsScalar());
    ASSERT_EQ(node.kind == YamlNode::Kind::list, other.IsSequence());
    ASSERT_EQ(node.kind == YamlNode::Kind::map, other.IsMap());
    if (other.IsScalar()) {
        ASSERT_EQ(node.scalar, other.Scalar());
    }
    size_t next = 0;
    for (const auto& entry : other) {
        ASSERT_LT(next, node.children.size());
        if (other.IsMap()) expect_same(*node.children[next++], entry.first);
        expect_same(*node.children[next++], other.IsMap() ? entry.second : entry);
    }
    ASSERT_EQ(next, node.children.size());
}
void expect_same(const std::string& text) {
    SCOPED_TRACE(text.substr(0, 200));
    const YAML::Node other = YAML::Load(text);
    const auto node = read_yaml(text, "c.yaml");
    expect_same(*node, other);
    if (!node->place.is_known()) return;  // the library writes an empty text, and not a null
    EXPECT_EQ(written(*node), YAML::Dump(other));
}

TEST(Yaml, IsReadAndWrittenAsByTheLibrary) {
    for (const char* text :
         {"", "# nothing\n", "~", "a", "a:\nb: ~\n", "[]", "{}", "[a, [b, {c: d}], {e: [f, ~, '~', \"g\\n\"]}]",
          "- a\n- - b\n  - c: {d: e, ? [f] : g}\n    h: !!str 1\n-\n- |\n  two\n  lines\n- >-\n  one\n  line\n",
          "a: &x [1, {b: &y z}]\nc: *x\nd: *y\ne: &n ~\nf: *n\n", "&k a: b\n*k : c\n? {d: e}\n: f\n",
          "a: !<tag:yaml.org,2002:int> 7\nb: ! x\nc: !!map {d: e}\ne: !!seq\n  - 1\n", "---\na: 1\n...\n",
          "\"K\xc3\xb6ln\": 'it''s'\n\"a: b\": \"# c\"\n"})
        expect_same(text);
    size_t files = 0;
    for (const char* folder : {"examples", "src/millrace/nf", "tests/cases"})
        for (const auto& entry : std::filesystem::recursive_directory_iterator(test::source_path(folder)))
            if (entry.path().extension() == ".yaml" && ++files > 0) expect_same(read_file(entry.path()));
    EXPECT_GT(files, 30u);
}

TEST(Yaml, MayBeMadeOfPartsOfOthers) {
    const Config given = Config::parse("a: &x [1, 2]\nb: {c: *x}\n", "c.yaml");
    std::optional<Config> made;
    {
        const Config other = Config::parse("\n  d: e\n", "d.yaml");
        made = given.at("b").as({{other.as("f"), given.at("a")}, {other.as("g"), other.at("d")}});
    }
    EXPECT_EQ(made->written(), "f: [1, 2]\ng: e");
    EXPECT_EQ(made->where().line, 2u);
    EXPECT_EQ(made->where().column, 4u);
    EXPECT_EQ(made->at("f").where().line, 1u);
    EXPECT_EQ(made->entries()[1].first.text(), "g");
    EXPECT_EQ(made->entries()[1].first.where().line, 2u);
    EXPECT_EQ(given.at("a").as({{given.as("h"), given.at("a")}, {given.as("i"), given.at("a")}}).written(),
              "h: &1 [1, 2]\ni: *1");
}

TEST(Yaml, IsUtf8WithoutControlCharacters) {
    EXPECT_EQ(said("a: b\nc: x\xff y\n"),
              "c.yaml:2:5: error: the byte 0xff is not UTF-8\n    hint: save the file as UTF-8");
    for (const char* bytes :
         {"\x80", "\xc0\x80", "\xc3", "\xe0\x80\x80", "\xed\xa0\x80", "\xf0\x80\x80\x80", "\xf4\x90\x80\x80", "\xf8"})
        EXPECT_NE(said(bytes).find("c.yaml:1:1: error: the byte"), std::string::npos) << bytes;
    EXPECT_EQ(said(std::string("a: t\0.pcap", 10)),
              "c.yaml:1:5: error: there is a control character here (0x00)\n    hint: take it out");
    EXPECT_NE(said("a: \x1b[31m").find("c.yaml:1:4: error: there is a control character here (0x1b)"),
              std::string::npos);
    EXPECT_NE(said(std::string("\xff\xfe"
                               "a\0:\0",
                               6))
                  .find("c.yaml:1:1: error: this is UTF-16"),
              std::string::npos);
}

TEST(Yaml, IsOneDocument) {
    EXPECT_NE(said("a: 1\n---\nb: 2\n").find("c.yaml:2:1: error: a second YAML document begins here"),
              std::string::npos);
    EXPECT_NE(said("a: 1\n...\n---\n").find("a second YAML document"), std::string::npos);
    EXPECT_NE(said("a: 1\n---\n[").find("c.yaml:"), std::string::npos);
}

TEST(Yaml, IsNeitherTooDeepNorTooLarge) {
    EXPECT_NE(said("x: " + repeated("[", 100'000)).find("error: this is nested more than 64 deep"), std::string::npos);
    EXPECT_NE(said("x: " + repeated("{a: ", 100'000)).find("nested more than 64 deep"), std::string::npos);
    EXPECT_NE(said("x:\n  " + repeated("- ", 10'000)).find("nested more than 64 deep"), std::string::npos);
    std::string stairs;
    for (size_t i = 0; i < 100; ++i) stairs += std::string(i, ' ') + "a:\n";
    EXPECT_NE(said(stairs).find("c.yaml:65:65: error: this is nested more than 64 deep"), std::string::npos)
        << said(stairs);
    EXPECT_NE(said("x:\n" + std::string(kMaxYamlBytes, 'a')).find("c.yaml:2:16777214: error: the file is longer than"),
              std::string::npos);
}

TEST(Yaml, IsRefusedBeforeTheParserHasKeptMuchOfIt) {
    // It keeps what stands in brackets until they are closed.
    const std::string open = said("x:\n  " + repeated("[", 3'000'000));
    EXPECT_TRUE(open.starts_with("c.yaml:2:6")) << open;
    EXPECT_NE(open.find("error: this is nested more than 64 deep"), std::string::npos) << open;
    EXPECT_NE(said("x: " + repeated("{a: [", 1'000'000)).find("nested more than 64 deep"), std::string::npos);
    const std::string list = said("x: [" + repeated("1,", 7'000'000) + "1]");
    EXPECT_TRUE(list.starts_with("c.yaml:1:")) << list;
    EXPECT_NE(list.find("error: there are more than 1000000 values"), std::string::npos) << list;
    // What is told of value by value may have as many signs as there is room for.
    EXPECT_EQ(said("x:\n" + repeated("  - \"[[[[{,,,,\"\n", 30'000)), "sound");
    EXPECT_EQ(said("x: [" + repeated("'[', ", 30'000) + "1]"), "sound");
    EXPECT_EQ(said("x: |\n" + repeated("  [,\n", 30'000)), "sound");
}

TEST(Yaml, CountsWhatAliasesMean) {
    // Nine times nine times nine...: a few lines that would be 10^21 values.
    std::string laughs = "x0: &x0 [1, 1, 1, 1, 1, 1, 1, 1, 1]\n";
    for (int i = 1; i < 20; ++i)
        laughs += "x" + std::to_string(i) + ": &x" + std::to_string(i) + " [" +
                  repeated("*x" + std::to_string(i - 1) + ", ", 9) + "]\n";
    EXPECT_NE(said(laughs).find("error: there are more than 1000000 values up to here"), std::string::npos)
        << said(laughs);
    EXPECT_NE(said("a: &a [lan, *a]\n").find("c.yaml:1:13: error: this alias stands in what it refers to"),
              std::string::npos);
    EXPECT_NE(said("a: *b\n").find("c.yaml:1:4: error: "), std::string::npos);
}

TEST(Yaml, HasNoTagsOfOtherPrograms) {
    EXPECT_NE(said("a: !!python/object/apply:os.system [id]\n")
                  .find("c.yaml:1:4: error: the tag of this value means nothing here"),
              std::string::npos)
        << said("a: !!python/object/apply:os.system [id]\n");
    EXPECT_NE(said("a: !own x\n").find("the tag of this value"), std::string::npos);
}

}  // namespace
}  // namespace millrace
