// Golden packets of every network function that is shipped, with tables of every size, on every device: a case has the
// entries of its own options, and behind them as many others, which its packets have nothing to do with.
#include <gtest/gtest.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <map>
#include <set>

#include "millrace/nf/nf.hpp"
#include "millrace/nftest/golden.hpp"
#include "support/data.hpp"
#include "support/device_work.hpp"
#include "support/devices.hpp"
#include "support/nf_runner.hpp"
#include "support/sizes.hpp"
#include "support/test_folder.hpp"

namespace millrace::test {
namespace {

/// How many entries are put into the tables of a function's cases.
struct GoldenSize {
    std::string nf, size;
    size_t entries;
    size_t every;  ///< case of the table: of the largest, a few
    friend std::ostream& operator<<(std::ostream& out, const GoldenSize& golden) {
        return out << golden.nf << ", " << golden.size;
    }
};

/// Functions with as many entries as usual, and as many as the largest input that is published (sizes.cpp) has.
struct Function {
    const char* nf;
    size_t usual, largest, every_of_few, every_of_1000, every;  ///< with no others all cases are a test of the
                                                                ///< function's
};
constexpr Function kFunctions[] = {
    {"firewall", 50, 100'000, 1, 1, 17}, {"nids", 50, 40'000, 3, 8, 40},  {"router", 20, 1'200'000, 1, 1, 39},
    {"ipsec", 16, 10'000, 2, 12, 94},    {"switch", 50, 10'000, 1, 1, 4}, {"balancer", 20, 10'000, 1, 1, 9},
    {"tunnel", 20, 10'000, 2, 14, 35},   {"nat", 20, 10'000, 1, 5, 10},   {"policer", 20, 10'000, 1, 1, 1},
    {"conntrack", 20, 10'000, 1, 1, 1},  {"nat64", 20, 10'000, 1, 5, 10},
};

/// Why golden packets of a function run with no other tables than their own; empty where they do.
std::string why_no_entries(const std::string& nf) {
    if (nf == "mirror" || nf == "crc" || nf == "reject") return "it has no table that options fill";
    if (nf == "ipfix") return "it tells of every flow that ends: those of others are in the answers, too";
    return "";
}

std::vector<GoldenSize> golden_sizes() {
    std::vector<GoldenSize> all;
    for (const Function& function : kFunctions)
        for (const auto& [size, entries] :
             {std::pair<const char*, size_t>{"0", 0}, {"1", 1}, {"usual", function.usual}, {"1000", 1000}})
            all.push_back(
                {function.nf, size, entries, entries < 1000 ? function.every_of_few : function.every_of_1000});
    for (const Function& function : kFunctions)
        all.push_back({function.nf, "largest", function.largest, function.every});
    return all;
}

/// Options with entries: others come behind those that are there.
constexpr std::string_view kTables[] = {"rules",    "rule",  "routes", "sas",       "policies", "services",
                                        "forwards", "flows", "inside", "next-hops", "tunnels"};
constexpr std::string_view kMaps[] = {"next-hops", "tunnels"};

/// A map of those entries for which `value` gives something. Nothing is looked up in it: there may be 30,000.
template <class Value>
YAML::Node map_of(const YAML::Node& entries, Value&& value) {
    YAML::Node map(YAML::NodeType::Map);
    for (const auto& entry : entries)
        if (const YAML::Node made = value(entry.second); !made.IsNull()) map.force_insert(entry.first, made);
    return map;
}

/// The tables of made-up entries, as options.
YAML::Node entries_of(const GoldenSize& golden, const SizedTables& tables) {
    YAML::Node options = YAML::Load(tables.nfs)[0][golden.nf];
    // Fragments may be of any tunnel over UDP.
    if (golden.nf == "tunnel")
        options["tunnels"] = map_of(options["tunnels"], [](const YAML::Node& tunnel) {
            return tunnel["kind"].as<std::string>() == "gre" ? tunnel : YAML::Node();
        });
    // Ports and hops are the chain's.
    if (golden.nf == "router")
        options["next-hops"] = map_of(options["next-hops"],
                                      [](const YAML::Node&) { return YAML::Node(YAML::NodeType::Map); });
    if (golden.nf == "switch")
        for (YAML::Node flow : options["flows"]) {
            const auto text = flow.as<std::string>();
            flow = text.substr(0, text.find(",actions=")) + ",actions=drop";
        }
    return options;
}

/// The entries of a list or a map, or a scalar, as they stand between the brackets of either.
std::string written(const YAML::Node& entries) {
    YAML::Emitter out;
    out.SetMapFormat(YAML::Flow);
    out.SetSeqFormat(YAML::Flow);
    out << entries;
    const std::string text = out.c_str();
    return entries.IsScalar() ? text : text.substr(1, text.size() - 2);
}

/// What stands for the entries of a table until all else is written: cases are many, and their tables long.
std::string place_of(const std::string& table) { return "entries-of-" + table; }

/// Puts a place for more entries behind those of a table.
void append_place(YAML::Node& options, const std::string& table, bool map) {
    if (map) {
        options[table][place_of(table)] = YAML::Node();
        return;
    }
    YAML::Node list(YAML::NodeType::Sequence);
    if (const YAML::Node own = YAML::Clone(options[table]); own.IsScalar()) list.push_back(own);
    else
        for (const YAML::Node& one : own) list.push_back(one);
    list.push_back(place_of(table));
    options[table] = list;
}

/// So many routes, in a file: options have no room for them.
YAML::Node routes_of(const TestFolder& folder, size_t entries) {
    std::string prefixes;
    for (size_t i = 0; i < entries; ++i)
        prefixes += std::to_string(100 + (i >> 16)) + "." + std::to_string(i >> 8 & 255) + "." +
                    std::to_string(i & 255) + ".0/24\n";
    return YAML::Load("{next-hops: {others: {}}, routes: [{file: \"" + folder.write("prefixes.txt", prefixes) +
                      "\", via: others}]}");
}

class GoldenSizes : public testing::TestWithParam<GoldenSize> {};

TEST_P(GoldenSizes, GiveTheSameAnswers) {
    const GoldenSize& golden = GetParam();
    const nf::Type* type = nf::find_type(golden.nf);
    ASSERT_NE(type, nullptr);
    // Of three tunnels one is not over UDP.
    const bool in_file = golden.nf == "router" && golden.entries > 10'000;
    const SizedTables tables = in_file ? SizedTables{}
                                       : made_up(golden.nf, golden.entries * (golden.nf == "tunnel" ? 3 : 1));
    const TestFolder folder;
    const YAML::Node entries = golden.entries == 0 ? YAML::Node()
                               : in_file           ? routes_of(folder, golden.entries)
                                                   : entries_of(golden, tables);
    std::map<std::string, std::string> texts;  // of the tables' entries
    for (const std::string_view name : kTables)
        if (const std::string table(name); entries[table] && (entries[table].IsScalar() || entries[table].size() > 0))
            texts[table] = written(entries[table]);
    const std::string path = source_path("src/millrace/nf/" + golden.nf + "/golden.yaml");
    std::map<uint32_t, nftest::Filled> filled;  // by the options' lines: a function with state is made for each half
    std::set<uint32_t> left;
    nftest::GoldenOptions options;
    options.halves = halves(*type);
    // Each half loads all of a large table: with the lanes that the function likes, and by its CPU half.
    if (golden.entries >= 1000)
        std::erase_if(options.halves, [&](const Half& half) { return half.lanes != 0 && half.lanes != type->lanes; });
    // rte_acl has no room for so many rules, and the firewall then has no CPU half.
    if (golden.nf == "firewall" && golden.size == "largest")
        std::erase_if(options.halves, [](const Half& half) { return half.lanes == 0; });
    options.open = [](const std::string& name) { return open_device(name); };
    options.output_folder = testing::TempDir();
    options.every = golden.every;
    options.fill = [&](const Config& given) {
        const uint32_t line = given.where().line;
        if (const auto made = filled.find(line); made != filled.end()) return made->second;
        YAML::Node made = YAML::Load(given.written());
        // What fills a small table is about that size, and what has one key for all packets has one entry.
        const bool keyed = golden.nf != "policer" || (made["per"] && made["per"].as<std::string>() != "destination");
        // Events of a stream itself have the number behind the last rule's.
        const bool streams = golden.nf == "nids" && made["flows"];
        if (golden.entries == 0 || made["when-full"] || !keyed || streams) {
            left.insert(line);
            return nftest::Filled{given};
        }
        for (const auto& [table, text] : texts) append_place(made, table, std::ranges::count(kMaps, table) > 0);
        for (const char* key : {"sa-slots", "max-flows", "max-buckets"})
            if (entries[key]) made[key] = std::max(entries[key].as<size_t>(), 2 * golden.entries);
        std::string text = "{" + written(made) + "}";
        for (const auto& [table, more] : texts) {
            const std::string place = place_of(table) + (std::ranges::count(kMaps, table) > 0 ? ": ~" : "");
            const size_t at = text.find(place);
            EXPECT_NE(at, std::string::npos) << text;
            text.replace(at, place.size(), more);
        }
        return filled.emplace(line, nftest::Filled{Config::parse(text, path), tables.filling}).first->second;
    };
    if (std::ranges::any_of(options.halves, [](const Half& half) { return !half.device.empty(); })) claim_device_work();
    for (const Diagnostic& failure : nftest::run_golden(*type, path, options).failures)
        ADD_FAILURE() << failure.render();
    if (golden.entries == 0) return;
    EXPECT_GE(2 * filled.size(), left.size()) << "few cases have more entries than their own";
}

INSTANTIATE_TEST_SUITE_P(Filled, GoldenSizes, testing::ValuesIn(golden_sizes()),
                         [](const auto& info) { return info.param.nf + "_" + info.param.size; });

TEST(GoldenSizesTable, HasEveryShippedNetworkFunction) {
    std::set<std::string> there;
    for (const Function& function : kFunctions) there.insert(function.nf);
    for (const nf::Type* type : nf::all_types()) {
        if (!type->device_header.starts_with("millrace/nf/")) continue;
        EXPECT_NE(there.contains(type->name), !why_no_entries(type->name).empty()) << type->name;
    }
}

}  // namespace
}  // namespace millrace::test
