// millrace bench rules: made-up rule sets, and how fast each engine searches them.
#include <fmt/format.h>

#include <chrono>
#include <functional>
#include <iostream>

#include "millrace/base/files/output_file.hpp"
#include "millrace/cli/bench/bench_lookups.hpp"
#include "millrace/cli/commands.hpp"
#include "millrace/cli/process/output_files.hpp"
#include "millrace/cli/text/table.hpp"
#include "millrace/nf/classify/rules/classbench.hpp"
#include "millrace/nf/classify/classifier_builder.hpp"
#include "lab/classify/synthetic.hpp"
#include "millrace/nf/classify/bit_vector/vector_store.hpp"
#include "millrace/packet/lanes.hpp"

namespace millrace::cli {
namespace {

using namespace nf::classify;

constexpr uint64_t kMaxTableBytes = uint64_t{4} << 30;

struct RulesArguments {
    SyntheticSpec spec;
    std::string output, trace;
    bool measure = false;
    LookupArguments lookups;
};

std::string rules_text(const SyntheticSet& set, unsigned fields) {
    std::string text;
    for (size_t i = 0; i < set.rules.size(); ++i) {
        if (fields == 5) {
            text += classbench_text(set.rules[i]) + "\n";
        } else {
            const std::string match = flow_text(set.rules[i]);
            text += match + (match.empty() ? "" : ",") + fmt::format("actions=output:{}\n", 1 + i % 4);
        }
    }
    return text;
}

void write(const std::string& file, const std::string& text) {
    if (file == "-") {
        std::cout << text << std::flush;
        return;
    }
    write_file(file, text);
}

/// One engine over the trace: a row of the table. `build` returns the tables' size and sets what finds a key.
template <class Key>
void measure_engine(Table& table, Engine engine, const std::vector<Key>& keys,
                    const std::function<uint64_t(nf::Image&, std::function<uint32_t(const Key&)>&)>& build) {
    const char* const name = kEngineNames[static_cast<size_t>(engine)];
    nf::Image image;
    std::function<uint32_t(const Key&)> find;
    const auto begin = std::chrono::steady_clock::now();
    try {
        const uint64_t bytes = build(image, find);
        const double milliseconds = std::chrono::duration<double, std::milli>(std::chrono::steady_clock::now() - begin)
                                        .count();
        table.add({name, fmt::format("{:.2f}", measure_lookups(keys, find) / 1e6), fmt::format("{} KiB", bytes >> 10),
                   fmt::format("{:.1f} ms", milliseconds)});
    } catch (const TablesTooLarge& error) {
        table.add({name, "-", error.what(), ""});
    }
}

Table measure_flows(const SyntheticSet& set) {
    Table table({"engine", "million lookups/s", "tables", "time to build"});
    const auto rules = ternary_rules(set);
    std::vector<TernaryKey<9>> keys;
    for (const SyntheticPacket& packet : set.packets) keys.push_back(ternary_key<9>(packet.fields));
    for (const Engine engine : {Engine::linear, Engine::tuple, Engine::bloom, Engine::merged})
        measure_engine<TernaryKey<9>>(table, engine, keys, [&](nf::Image& image, auto& find) {
            SearchBuilder<9> builder(rules, engine, kMaxTableBytes);
            const uint64_t bytes = builder.bytes();
            auto& tables = image.start<Search<9>::Tables>();
            builder.attach(image, tables);
            find = [&tables](const TernaryKey<9>& key) { return Search<9>::find(tables, key, Lanes<1>{}); };
            return bytes;
        });
    return table;
}

Table measure_five_tuples(const SyntheticSet& set) {
    Table table({"engine", "million lookups/s", "tables", "time to build"});
    RuleSet rules;
    load_classbench(rules_text(set, 5), "rules", {}, rules);
    std::vector<HeaderKey> keys;
    for (const auto& [fields, rule] : set.packets) keys.push_back(five_tuple(fields));
    for (const Engine engine : {Engine::linear, Engine::tuple, Engine::bloom, Engine::bit_vectors, Engine::merged})
        measure_engine<HeaderKey>(table, engine, keys, [&](nf::Image& image, auto& find) {
            ClassifierBuilder builder(rules, kMaxTableBytes, engine);
            const uint64_t bytes = builder.bytes();
            auto& tables = image.start<Classifier::Tables>();
            builder.attach(image, tables);
            find = [&tables](const HeaderKey& key) { return Classifier::find(tables, key, Lanes<1>{}); };
            return bytes;
        });
    return table;
}

int bench_rules(const RulesArguments& arguments) {
    note_outputs(
        {{"--output", arguments.output}, {"--trace", arguments.trace}, {"--json", arguments.lookups.json_file}});
    if (!arguments.lookups.figures.empty()) return bench_lookups(arguments.lookups);
    SyntheticSpec spec = arguments.spec;
    if (arguments.measure && spec.packets == 0) spec.packets = 8192;
    if (!arguments.trace.empty() && spec.packets == 0) spec.packets = spec.rules;
    const SyntheticSet set = make_synthetic(spec);
    if (!arguments.output.empty() || !arguments.measure)
        write(arguments.output.empty() ? "-" : arguments.output, rules_text(set, spec.fields));
    if (!arguments.trace.empty()) {
        std::string text;
        for (const SyntheticPacket& packet : set.packets) text += trace_text(packet, spec.fields) + "\n";
        write(arguments.trace, text);
    }
    if (arguments.measure) std::cout << (spec.fields == 5 ? measure_five_tuples(set) : measure_flows(set)).text();
    return kOk;
}

}  // namespace

void add_bench_rules(CLI::App& bench, int& status) {
    CLI::App* command = bench.add_subcommand("rules",
                                             "Make a rule set with given properties, and measure the engines on it");
    const auto arguments = std::make_shared<RulesArguments>();
    SyntheticSpec& spec = arguments->spec;
    command->add_option("-n,--rules", spec.rules, "Rules of the set")->capture_default_str();
    command->add_option("-c,--classes", spec.classes, "Different masks")->capture_default_str();
    command
        ->add_option("--full", spec.full_classes, "Classes that share all rules but one for each other class; 0 is all")
        ->capture_default_str();
    command->add_option("--overlap", spec.overlap, "Classes that a packet of the trace matches")->capture_default_str();
    command->add_option("--fields", spec.fields, "12 (OpenFlow's, as flows) or 5 (IPv4's, as ClassBench writes rules)")
        ->check(CLI::IsMember({5, 12}))
        ->capture_default_str();
    command->add_option("--seed", spec.seed, "The same seed makes the same set")->capture_default_str();
    command->add_option("-o,--output", arguments->output, "File of the rules; '-' or none is standard output")
        ->type_name("FILE");
    command->add_option("--trace", arguments->trace, "Write headers that match the rules to this file, too")
        ->type_name("FILE");
    command
        ->add_option("--packets", spec.packets, "Headers of the trace; 0 is as many as rules, or 8192 with --measure")
        ->capture_default_str();
    command->add_flag("--measure", arguments->measure,
                      "Look the trace up by every engine on one core, and print how fast each is");
    LookupArguments& lookups = arguments->lookups;
    command
        ->add_option("--figures", lookups.figures,
                     "Measure these on a device instead: targets, the figures 5 to 10 of GSwitch's paper, changes")
        ->delimiter(',')
        ->check(CLI::IsMember(std::vector<std::string>(std::begin(kLookupFigures), std::end(kLookupFigures))));
    command->add_option("-d,--device", lookups.device, "The device of --figures")
        ->check(CLI::IsMember({"sim", "cuda"}))
        ->capture_default_str();
    command->add_option("--data", lookups.data, "The folder with classbench/ (MILLRACE_DATA)")
        ->envname("MILLRACE_DATA")
        ->type_name("DIR");
    command->add_option("--for", lookups.seconds, "Seconds for each figure")
        ->check(positive_number())
        ->capture_default_str();
    command->add_option("--headers", lookups.headers, "Headers in memory, the trace over and over")
        ->check(CLI::Range(16, 1 << 26))
        ->capture_default_str();
    command->add_option("--lanes", lookups.lanes, "Lanes of a header; several are tried each")
        ->delimiter(',')
        ->check(CLI::IsMember({1, 2, 4, 8, 32}))
        ->capture_default_str();
    command->add_option("--engines", lookups.engines, "Measure these only")
        ->delimiter(',')
        ->check(CLI::IsMember(std::vector<std::string>(std::begin(kEngineNames), std::end(kEngineNames))));
    command->add_option("--sets", lookups.sets, "Measure sets only that have this in their name")->type_name("TEXT");
    command->add_option("--most-rules", lookups.most_rules, "Leave larger sets out")->capture_default_str();
    command->add_option("--acl", lookups.acl_seconds, "Seconds that rte_acl gets to compile the sets; 0 leaves it out")
        ->capture_default_str();
    command->add_option("--json", lookups.json_file, "Write the figures as JSON")->type_name("FILE");
    command->callback([arguments, &status] {
        try {
            status = bench_rules(*arguments);
        } catch (const std::invalid_argument& mistake) {
            std::cerr << "millrace: " << mistake.what() << "\n";
            status = kBadConfiguration;
        }
    });
}

}  // namespace millrace::cli
