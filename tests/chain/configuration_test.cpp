// Broken configurations: where each mistake is said to be, and in which words.
#include "millrace/chain/configuration.hpp"

#include <gtest/gtest.h>

#include <unistd.h>

#include <algorithm>
#include <filesystem>
#include <fstream>

namespace millrace::chain {
namespace {

/// A mistake in a text. Its place is marked in the text by the sign § before it; several stand in order of the marks.
struct Mistake {
    std::string message, hint;
};
struct Broken {
    std::string name, text;
    std::vector<Mistake> mistakes;
};

const std::string kHead = "version: 1\nports: {in: {null: {}}, out: {null: {}}}\n";
const std::string kMark = "§";

/// The table's `chains:` with one chain from in to out and these NFs.
std::string nfs(const std::string& list) {
    return kHead + "chains:\n  c:\n    input: in\n    output: out\n    nfs:\n" + list;
}

const std::vector<Broken> kBroken = {
    // --- the file as a whole ---
    {"not YAML", "version: 1\nports: {in: {null: {}}\n§chains:\n", {{"not YAML", "indentation"}}},
    {"a tab", "version: 1\n§\tports: {}\n", {{"not YAML", ""}}},
    {"an empty file",
     "§",
     {{"'version' is missing", "add a line 'version"}, {"'ports' is missing", "receive"}, {"no chain", "chains:"}}},
    {"a list in place of a map", "§- version: 1\n", {{"a configuration is a map", "version: 1"}}},
    {"no version", "§ports: {in: {null: {}}}\nchains: {c: {input: in}}\n", {{"'version' is missing", "version: …"}}},
    {"a version of the future",
     "version: §2\nports: {in: {null: {}}}\nchains: {c: {input: in}}\n",
     {{"version", "version: 1"}}},
    {"an unknown field", kHead + "§devise: cpu\nchains: {c: {input: in}}\n", {{"unknown field 'devise'", "'device'"}}},
    {"an unknown field that is like none",
     kHead + "§zzzz: 1\nchains: {c: {input: in}}\n",
     {{"unknown field 'zzzz'", "known here: version, device"}}},
    {"a key twice",
     kHead + "device: cpu\n§device: sim\nchains: {c: {input: in}}\n",
     {{"'device' is given twice", "keep one"}}},
    {"an unknown device",
     kHead + "device: §gpu\nchains: {c: {input: in}}\n",
     {{"'gpu' is no device: cpu, sim", "device: cuda"}}},
    {"an unknown way to wait for packets", kHead + "idle: §doze\nchains: {c: {input: in}}\n", {{"'doze'", ""}}},
    {"a device without its number",
     kHead + "device: §'cuda:'\nchains: {c: {input: in}}\n",
     {{"'cuda:' is no device: behind the colon", ""}}},
    {"a number of the cpu",
     kHead + "device: §cpu:1\nchains: {c: {input: in}}\n",
     {{"all cores are the one device", ""}}},
    {"a device twice",
     kHead + "device: §[cuda, cuda:0]\nchains: {c: {input: in}}\n",
     {{"'cuda:0' is named twice", "[cuda:0, cuda:1]"}}},
    {"devices of two kinds",
     kHead + "device: §[cuda:0, cpu, sim]\nchains: {c: {input: in}}\n",
     {{"'sim' is of another", "[cuda:0, cuda:1]"}}},
    {"the cpu twice",
     kHead + "device: §[cpu, cuda, cpu]\nchains: {c: {input: in}}\n",
     {{"'cpu' is named twice", "[cuda, cpu]"}}},
    {"no devices", kHead + "device: §[]\nchains: {c: {input: in}}\n", {{"'' is no device", ""}}},
    {"state that several devices can't share",
     "device: [sim:0, sim:1]\n" + nfs("      - §switch: {flows: [\"actions=output:out\"]}\n"),
     {{"'switch' keeps state that packets change in no order", "one device"}}},
    {"a plugin that is not there",
     kHead + "plugins: [§none.so]\nchains: {c: {input: in}}\n",
     {{"plugin can't be loaded", ""}}},
    // --- ports ---
    {"no ports", "§version: 1\nchains: {c: {nfs: [mirror]}}\n", {{"'ports' is missing", "a port"}}},
    {"an empty list of ports", "version: 1\n§ports:\nchains: {c: {nfs: [mirror]}}\n", {{"no port here", ""}}},
    {"an unknown input", kHead + "chains: {c: {input: §inn}}\n", {{"no port 'inn'", "'in'"}}},
    {"an unknown output", kHead + "chains: {c: {input: in, output: §wan}}\n", {{"no port 'wan'", "in, out"}}},
    {"an unknown punt port", kHead + "chains: {c: {input: in, punt: §ot}}\n", {{"no port 'ot'", "'out'"}}},
    {"a port that is the input of two chains",
     kHead + "chains:\n  a: {input: in}\n  b: {input: §in}\n",
     {{"'in' is used twice", "classify:"}}},
    {"a port that is an input twice", kHead + "chains:\n  a: {input: [in, §in]}\n", {{"'in' is used twice", ""}}},
    {"a map as input", kHead + "chains: {c: {input: §{port: in}}}\n", {{"single value", ""}}},
    // --- chains ---
    {"no chains", "§version: 1\nports: {in: {null: {}}}\n", {{"no chain here", "chains:"}}},
    {"empty chains", kHead + "§chains:\n", {{"no chain here", "below 'chains:'"}}},
    {"a chain that is a text", kHead + "chains: {c: §mirror}\n", {{"a map", ""}}},
    {"an unknown field of a chain",
     kHead + "chains: {c: {input: in, §outptu: out}}\n",
     {{"unknown field 'outptu'", "'output'"}}},
    {"a duration without its unit",
     kHead + "chains: {c: {input: in, max-delay: §100}}\n",
     {{"'100' is not a duration", "100us"}}},
    {"a duration in minutes",
     kHead + "chains: {c: {input: in, max-delay: §1min}}\n",
     {{"'1min' is not a duration", "100us"}}},
    {"a negative duration", kHead + "chains: {c: {input: in, max-delay: §-1ms}}\n", {{"'-1ms' is not a duration", ""}}},
    {"a batch of no packets",
     kHead + "chains: {c: {input: in, max-batch: §0}}\n",
     {{"0 is out of range", "from 1 to 65536"}}},
    {"a batch that is no number",
     kHead + "chains: {c: {input: in, max-batch: §many}}\n",
     {{"'many' is not a whole number", ""}}},
    {"a wrong word for malformed",
     kHead + "chains: {c: {input: in, malformed: §dorp}}\n",
     {{"'dorp' is not one of drop, pass", "'drop'"}}},
    {"two chains of one name", kHead + "chains:\n  a: {input: in}\n  §a: {}\n", {{"'a' is given twice", ""}}},
    {"a chain that nobody reaches",
     kHead + "chains:\n  a: {input: in}\n  §b: {nfs: [mirror]}\n",
     {{"no packet can reach the chain 'b'", "chain b"}}},
    {"a circle of two chains",
     kHead + "chains:\n  a: {input: in, nfs: [{mirror: , on: {forward: chain b}}]}\n  b: {nfs: [{mirror: , on: "
             "{forward: §chain a}}]}\n",
     {{"chain 'b' leads back to chain 'a'", "lead one of them"}}},
    {"a chain that leads to itself",
     kHead + "chains:\n  a: {input: in, nfs: [{mirror: , on: {forward: §chain a}}]}\n",
     {{"chain 'a' leads back to chain 'a'", ""}}},
    // --- network functions ---
    {"a wrong name of an NF", nfs("      - §fire-wall: {}\n"), {{"no network function 'fire-wall'", "'firewall'"}}},
    {"an unknown NF", nfs("      - §teleport\n"), {{"no network function 'teleport'", "nf list"}}},
    {"an entry without an NF",
     nfs("      - §name: x\n        lanes: 8\n"),
     {{"names no network function", "- firewall"}}},
    {"two NFs in one entry",
     nfs("      - mirror:\n        §firewall: {}\n"),
     {{"'mirror' and 'firewall' in one entry", "'- '"}}},
    {"two NFs of one name", nfs("      - mirror\n      - §mirror\n"), {{"named 'mirror'", "name:"}}},
    {"an NF that is named as a target", nfs("      - mirror:\n        name: §drop\n"), {{"'drop' can't be", "'on:'"}}},
    {"two NFs that are given one name",
     nfs("      - mirror\n      - firewall: {default: permit}\n        name: §mirror\n"),
     {{"named 'mirror'", ""}}},
    {"a number of lanes that does not exist",
     nfs("      - mirror:\n        lanes: §3\n"),
     {{"lanes must be 1, 8 or 32", ""}}},
    {"an unknown option of an NF",
     nfs("      - firewall:\n          §defautl: permit\n"),
     {{"unknown field 'defautl'", "'default'"}}},
    {"options for an NF that has none", nfs("      - mirror: {§speed: 1}\n"), {{"unknown field 'speed'", ""}}},
    {"an NF that nobody reaches",
     nfs("      - mirror:\n        on: {forward: last}\n      - §firewall: {default: permit}\n"
         "      - mirror:\n        name: last\n"),
     {{"no packet can reach 'firewall'", "'on:'"}}},
    {"states of connections that nothing tracks",
     nfs("      - §firewall: {rules: [permit ip state new]}\n      - conntrack: {}\n"),
     {{"'firewall' asks for the state of connections, and nothing before it in chain 'c' tracks them",
       "'- conntrack:'"}}},
    // --- on: ---
    {"an unknown outcome",
     nfs("      - firewall: {default: permit}\n        on: {§permti: drop}\n"),
     {{"no outcome 'permti'", "'permit'"}}},
    {"an outcome that is another NF's",
     nfs("      - firewall: {default: permit}\n        on: {§no-route: drop}\n"),
     {{"no outcome 'no-route'", "permit, deny"}}},
    {"a target that is nothing",
     nfs("      - mirror:\n        on: {forward: §nowhere}\n"),
     {{"'nowhere' leads nowhere", "port NAME"}}},
    {"a target that comes before",
     nfs("      - mirror\n      - firewall: {default: permit}\n        on: {deny: §mirror}\n"),
     {{"'mirror' comes before 'firewall'", "later"}}},
    {"a target that is the NF itself",
     nfs("      - mirror:\n        on: {forward: §mirror}\n"),
     {{"'mirror'", "later"}}},
    {"a target port that is not there",
     nfs("      - mirror:\n        on: {forward: §port outt}\n"),
     {{"no port 'outt'", "'out'"}}},
    {"a target chain that is not there",
     nfs("      - mirror:\n        on: {forward: §chain d}\n"),
     {{"no chain 'd'", ""}}},
    {"an outcome twice",
     nfs("      - mirror:\n        on: {forward: drop, §forward: next}\n"),
     {{"'forward' is given twice", ""}}},
    {"an outcome that leads to a list",
     nfs("      - mirror:\n        on: {forward: §[drop, next]}\n"),
     {{"single value", ""}}},
    {"an on: that is a word", nfs("      - mirror:\n        on: §drop\n"), {{"a map", ""}}},
    // --- classification ---
    {"a class of a chain that is not there",
     kHead + "classify: [{chain: §d}]\nchains: {c: {input: in}}\n",
     {{"no chain 'd'", ""}}},
    {"a class without a chain",
     kHead + "classify:\n  - §match: {vlan: 1}\nchains: {c: {input: in}}\n",
     {{"'chain' is missing", "chain: …"}}},
    {"a VLAN that cannot be",
     kHead + "classify: [{match: {vlan: §4095}, chain: c}]\nchains: {c: {input: in}}\n",
     {{"4095 is out of range", "4094"}}},
    {"a prefix with bits behind its length",
     kHead + "classify: [{match: {src: §10.0.0.1/8}, chain: c}]\nchains: {c: {}}\n",
     {{"bits set behind", "10.0.0.0/8"}}},
    {"prefixes of two IP versions",
     kHead + "classify: [{match: §{src: 10.0.0.0/8, dst: '2001:db8::/32'}, chain: c}]\nchains: {c: {}}\n",
     {{"different IP versions", ""}}},
    {"an unknown protocol",
     kHead + "classify: [{match: {protocol: §tpc}, chain: c}]\nchains: {c: {}}\n",
     {{"unknown protocol 'tpc'", "tcp"}}},
    {"a range of ports that runs backwards",
     kHead + "classify: [{match: {dst-port: §90-80}, chain: c}]\nchains: {c: {}}\n",
     {{"runs backwards", ""}}},
    {"a class that cannot be told",
     kHead + "classify: [{match: {§color: red}, chain: c}]\nchains: {c: {}}\n",
     {{"unknown field 'color'", "known here"}}},
    // --- several ---
    {"six mistakes at once",
     "version: 1\n§prots: 1\nports: {in: {null: {}}}\nchains:\n  a:\n    input: §inn\n    output: §outt\n    "
     "max-delay: §soon\n    nfs:\n      - §mirorr\n"
     "      - firewall: {§defualt: deny}\n",
     {{"'prots'", "'ports'"},
      {"'inn'", ""},
      {"'outt'", ""},
      {"'soon'", ""},
      {"'mirorr'", "'mirror'"},
      {"'defualt'", ""}}},
    {"mistakes in two chains",
     kHead + "chains:\n  a: {input: in, max-batch: §-1}\n  b: {max-batch: §x}\n",
     {{"-1", ""}, {"'x'", ""}}},
};

struct Place {
    uint32_t line, column;
};

/// Takes the marks out of a text and says where they were; columns count bytes.
std::vector<Place> take_marks(std::string& text) {
    std::vector<Place> places;
    for (size_t at = text.find(kMark); at != std::string::npos; at = text.find(kMark)) {
        text.erase(at, kMark.size());
        const size_t line_start = at == 0 ? 0 : text.rfind('\n', at - 1) + 1;
        places.push_back(
            {static_cast<uint32_t>(std::count(text.begin(), text.begin() + static_cast<ptrdiff_t>(at), '\n') + 1),
             static_cast<uint32_t>(at - line_start + 1)});
    }
    return places;
}

std::vector<Diagnostic> mistakes_of(const std::string& text, const std::string& file = "broken.yaml") {
    LoadOptions options;
    options.output_folder = testing::TempDir();
    try {
        parse_configuration(text, file, options);
        return {};
    } catch (const ConfigError& e) {
        return e.diagnostics();
    }
}

std::string show(const std::vector<Diagnostic>& diagnostics) {
    std::string text;
    for (const Diagnostic& d : diagnostics) text += "\n  " + d.render();
    return text;
}

class BrokenConfiguration : public testing::TestWithParam<Broken> {};

TEST_P(BrokenConfiguration, IsRefusedWithPlaceMessageAndHint) {
    std::string text = GetParam().text;
    const std::vector<Place> places = take_marks(text);
    const std::vector<Diagnostic> found = mistakes_of(text);
    const std::vector<Mistake>& expected = GetParam().mistakes;
    ASSERT_EQ(expected.size(), found.size()) << text << show(found);
    for (size_t i = 0; i < expected.size(); ++i) {
        SCOPED_TRACE(text + show(found));
        // An empty file has one place for all of its mistakes.
        const Place place = places[std::min(i, places.size() - 1)];
        EXPECT_EQ(found[i].where.file, "broken.yaml");
        EXPECT_EQ(found[i].where.line, place.line);
        EXPECT_EQ(found[i].where.column, place.column);
        EXPECT_NE(found[i].message.find(expected[i].message), std::string::npos) << expected[i].message;
        EXPECT_NE(found[i].hint.find(expected[i].hint), std::string::npos) << expected[i].hint;
    }
}

INSTANTIATE_TEST_SUITE_P(Table, BrokenConfiguration, testing::ValuesIn(kBroken), [](const auto& info) {
    std::string name = info.param.name;
    for (char& c : name)
        if (!std::isalnum(static_cast<unsigned char>(c))) c = '_';
    return name;
});

class ConfigurationFiles : public testing::Test {
protected:
    ConfigurationFiles() { std::filesystem::create_directories(folder_); }
    ~ConfigurationFiles() override { std::filesystem::remove_all(folder_); }
    void write(const std::string& name, const std::string& text) { std::ofstream(folder_ + name) << text; }
    std::vector<Diagnostic> mistakes(const std::string& list) { return mistakes_of(nfs(list), folder_ + "chain.yaml"); }
    const std::string folder_ = testing::TempDir() + "millrace-configuration-" + std::to_string(getpid()) + "/";
};

TEST_F(ConfigurationFiles, AreSaidToBeMissingWhereTheyAreNamed) {
    const auto found = mistakes("      - firewall: {file: none.rules, default: permit}\n");
    ASSERT_EQ(found.size(), 1u) << show(found);
    EXPECT_EQ(found[0].where.file, folder_ + "chain.yaml");
    EXPECT_EQ(found[0].where.line, 8u);
    EXPECT_EQ(found[0].where.column, 26u);
    EXPECT_NE(found[0].message.find("none.rules"), std::string::npos);
}

TEST_F(ConfigurationFiles, ThatAreBrokenAreNamedWithTheirOwnLines) {
    write("edge.rules", "permit tcp from any\n\ndeny tcp form any\npermit udp from 10.0.0.1/8\n");
    const auto found = mistakes("      - firewall: {file: edge.rules, default: permit}\n");
    ASSERT_EQ(found.size(), 2u) << show(found);
    EXPECT_EQ(found[0].where.file, folder_ + "edge.rules");
    EXPECT_EQ(found[0].where.line, 3u);
    EXPECT_EQ(found[0].where.column, 10u);
    EXPECT_EQ(found[1].where.line, 4u);
}

TEST_F(ConfigurationFiles, OfTwoFunctionsAreBothChecked) {
    write("edge.rules", "deny tcp form any\n");
    write("table.txt", "10.0.0.0/8\n10.0.0.0/33\n");
    const auto found = mistakes(
        "      - firewall: {file: edge.rules, default: permit}\n"
        "      - router: {routes: [{file: table.txt, via: a}], next-hops: {a: {mac: '02:00:00:00:00:01'}}}\n");
    ASSERT_EQ(found.size(), 2u) << show(found);
    EXPECT_EQ(found[0].where.file, folder_ + "edge.rules");
    EXPECT_EQ(found[1].where.file, folder_ + "table.txt");
    EXPECT_EQ(found[1].where.line, 2u);
}

TEST_F(ConfigurationFiles, AreLoadedFromTheFolderOfTheConfiguration) {
    write("edge.rules", "permit tcp from any\n");
    write("chain.yaml", nfs("      - firewall: {file: edge.rules, default: permit}\n"));
    const Configuration configuration = load_configuration(folder_ + "chain.yaml");
    EXPECT_EQ(configuration.chains.size(), 1u);
    EXPECT_EQ(configuration.file, folder_ + "chain.yaml");
    EXPECT_THROW(load_configuration(folder_ + "none.yaml"), ConfigError);
}

}  // namespace
}  // namespace millrace::chain
