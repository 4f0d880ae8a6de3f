#include "support/golden.hpp"

#include <gtest/gtest.h>

#include <memory>

#include "support/data.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

uint16_t port_number(const Config& name, const std::vector<std::string>& ports) {
    return static_cast<uint16_t>(name.choice(ports));
}

uint32_t outcome_number(const Config& name, const nf::Type& type) {
    if (name.text() == "refused") return kRefused;
    std::vector<std::string> names;
    for (const nf::Outcome& outcome : type.outcomes) names.push_back(outcome.name);
    return static_cast<uint32_t>(name.choice(names));
}

std::string outcome_name(uint32_t outcome, const nf::Type& type) {
    if (outcome == kRefused) return "refused";
    return outcome < type.outcomes.size() ? type.outcomes[outcome].name : "undeclared " + std::to_string(outcome);
}

void run_step(const Config& step, const std::vector<std::string>& ports, NfRunner& runner, Engine engine) {
    const Frame input = build_packet(step.at("packet"));
    const auto in_port = step.find("in-port");
    const NfResult result = runner.run({input}, engine, in_port ? port_number(*in_port, ports) : uint16_t{0});
    const Config expect = step.at("expect");
    expect.only({"outcome", "packet", "unchanged", "detail", "explain", "out-port", "events"});

    EXPECT_EQ(outcome_name(result.decisions[0].outcome, runner.type()),
              outcome_name(outcome_number(expect.at("outcome"), runner.type()), runner.type()));
    if (const auto packet = expect.find("packet"))
        EXPECT_EQ(hex_dump(result.frames[0]), hex_dump(build_packet(*packet)));
    if (expect.boolean_or("unchanged", false)) EXPECT_EQ(hex_dump(result.frames[0]), hex_dump(input));
    if (const auto detail = expect.find("detail"))
        EXPECT_EQ(result.decisions[0].detail, static_cast<uint32_t>(detail->integer(0, 0xffffffff)));
    if (const auto explain = expect.find("explain"))
        EXPECT_EQ(runner.nf().explain(result.decisions[0]), explain->text());
    if (const auto port = expect.find("out-port"))
        EXPECT_EQ(result.out_ports[0], port->text() == "none" ? kNoPort : port_number(*port, ports));
    if (const auto events = expect.find("events")) {
        std::vector<uint32_t> want, got;
        for (const Config& code : events->items()) want.push_back(static_cast<uint32_t>(code.integer(0, 0xffffffff)));
        for (const Event& event : result.events) got.push_back(event.code);
        EXPECT_EQ(got, want);
    }
}

Config options_of(const Config& entry, const std::string& path) {
    const auto options = entry.find("options");
    if (!options) return Config::parse("{}", path);
    return options->is_scalar() ? Config::parse(options->text(), path) : *options;
}

/// The NF of the entry before, kept for the next one: big tables take long to make.
struct Instance {
    std::unique_ptr<NfRunner> runner;
    Location options;
    std::vector<std::string> ports;
};

/// A new NF for this entry, or the one at hand when it has no state and the same options (an alias).
NfRunner& instance_for(const Config& entry, const std::string& path, const std::string& type,
                       const std::vector<std::string>& ports, Instance& last) {
    const Config options = options_of(entry, path);
    const Location where = entry.has("options") ? options.where() : Location{};
    const bool same = last.runner != nullptr && !last.runner->stateful() && last.ports == ports &&
                      last.options.line == where.line && last.options.column == where.column;
    if (!same) {
        last.runner = std::make_unique<NfRunner>(
            type, options,
            nf::Environment{
                .node_name = "golden", .chain_name = "golden", .output_folder = testing::TempDir(), .ports = ports});
        last.options = where;
        last.ports = ports;
    }
    return *last.runner;
}

void run_entry(const Config& entry, const std::string& path, const std::string& type_name, Instance& instance) {
    entry.only({"name", "options", "ports", "packet", "in-port", "expect", "steps"});
    std::vector<std::string> ports = kTestPorts;
    if (const auto names = entry.find("ports")) {
        ports.clear();
        for (const Config& name : names->items()) ports.push_back(name.text());
    }
    const nf::Type* type = nf::find_type(type_name);
    ASSERT_NE(type, nullptr) << "there is no network function '" << type_name << "'";
    for (const Engine& engine : engines(*type)) {
        SCOPED_TRACE(engine.text());
        NfRunner& runner = instance_for(entry, path, type_name, ports, instance);
        if (const auto steps = entry.find("steps")) {
            size_t number = 0;
            for (const Config& step : steps->items()) {
                SCOPED_TRACE("step " + std::to_string(++number));
                step.only({"packet", "in-port", "expect"});
                run_step(step, ports, runner, engine);
            }
        } else {
            run_step(entry, ports, runner, engine);
        }
    }
}

}  // namespace

void run_golden(const std::string& type, const std::string& folder) {
    run_golden_file(type, source_path("src/millrace/nf/" + (folder.empty() ? type : folder) + "/golden.yaml"));
}

void run_golden_file(const std::string& type, const std::string& path) {
    const Config table = Config::load(path);
    const std::vector<Config> entries = table.items();
    EXPECT_FALSE(entries.empty()) << path << " holds no packets";
    Instance instance;
    for (const Config& entry : entries) {
        SCOPED_TRACE(path + ": " + entry.at("name").text());
        try {
            run_entry(entry, path, type, instance);
        } catch (const std::exception& e) {
            ADD_FAILURE() << e.what();
        }
    }
}

}  // namespace millrace::test
