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
    size_t usual, largest, every_of_1000, every;
};
constexpr Function kFunctions[] = {
    {"firewall", 50, 100'000, 1, 9}, {"nids", 50, 40'000, 8, 40},  {"router", 20, 1'200'000, 1, 39},
    {"ipsec", 16, 10'000, 12, 47},   {"switch", 50, 10'000, 1, 4}, {"balancer", 20, 10'000, 1, 9},
    {"tunnel", 20, 10'000, 14, 35},  {"nat", 20, 10'000, 5, 10},   {"policer", 20, 10'000, 1, 1},
    {"conntrack", 20, 10'000, 1, 1}, {"nat64", 20, 10'000, 5, 10},
};

/// Why golden packets of a function run with no other tables than their own; empty where they do.
std::string why_no_entries(const std::string& nf) {
    if (nf == "mirror" || nf == "crc") return "it has no table that options fill";
    if (nf == "ipfix") return "it tells of every flow that ends: those of others are in the answers, too";
    return "";
}

std::vector<GoldenSize> golden_sizes() {
    std::vector<GoldenSize> all;
    for (const Function& function : kFunctions)
        for (const auto& [size, entries] :
             {std::pair<const char*, size_t>{"0", 0}, {"1", 1}, {"usual", function.usual}, {"1000", 1000}})
            all.push_back({function.nf, size, entries, entries < 1000 ? 1 : function.every_of_1000});
    for (const Function& function : kFunctions)
        all.push_back({function.nf, "largest", function.largest, function.every});
    return all;
}

/// Entries of other tables come behind those that are there.
constexpr const char* kLists[] = {"rules",    "rule",     "routes", "sas",   "policies",
                                  "services", "forwards", "flows",  "inside"};
constexpr const char* kMaps[] = {"next-hops", "tunnels"};

void append(YAML::Node& options, const std::string& key, const YAML::Node& more) {
    YAML::Node list(YAML::NodeType::Sequence);
    for (const YAML::Node& from : {YAML::Clone(options[key]), more}) {
        if (from.IsScalar()) list.push_back(from);
        else
            for (const YAML::Node& one : from) list.push_back(one);
    }
    options[key] = list;
}

/// The tables of made-up entries, as options.
YAML::Node entries_of(const GoldenSize& golden, const SizedTables& tables) {
    YAML::Node options = YAML::Load(tables.nfs)[0][golden.nf];
    // Fragments may be of any tunnel over UDP.
    if (golden.nf == "tunnel")
        for (const auto& tunnel : YAML::Clone(options["tunnels"]))
            if (tunnel.second["kind"].as<std::string>() != "gre")
                options["tunnels"].remove(tunnel.first.as<std::string>());
    // Ports and hops are the chain's.
    if (golden.nf == "router")
        for (const auto& hop : options["next-hops"]) options["next-hops"][hop.first] = YAML::Node(YAML::NodeType::Map);
    if (golden.nf == "switch")
        for (YAML::Node flow : options["flows"]) {
            const auto text = flow.as<std::string>();
            flow = text.substr(0, text.find(",actions=")) + ",actions=drop";
        }
    return options;
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
    const std::string path = source_path("src/millrace/nf/" + golden.nf + "/golden.yaml");
    std::map<uint32_t, nftest::Filled> filled;  // by the options' lines: a function with state is made for each half
    std::set<uint32_t> left;
    nftest::GoldenOptions options;
    options.halves = halves(*type);
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
        for (const char* key : kLists)
            if (entries[key]) append(made, key, entries[key]);
        for (const char* key : kMaps)
            for (const auto& entry : entries[key]) made[key][entry.first] = entry.second;
        for (const char* key : {"sa-slots", "max-flows", "max-buckets"})
            if (entries[key]) made[key] = std::max(entries[key].as<size_t>(), 2 * golden.entries);
        YAML::Emitter text;
        text << made;
        return filled.emplace(line, nftest::Filled{Config::parse(text.c_str(), path), tables.filling}).first->second;
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
