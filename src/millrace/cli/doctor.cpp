// millrace doctor: checks this machine and suggests fixes.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "millrace/cli/commands.hpp"
#include "millrace/device/open.hpp"
#include "millrace/exec/transfer/transfer_figures.hpp"
#include "millrace/doctor/doctor.hpp"

namespace millrace::cli {
namespace {

using State = doctor::Finding::State;

const char* state_name(State state) {
    switch (state) {
        case State::ok: return "ok";
        case State::missing: return "missing";
        case State::optional: return "optional";
        case State::note: break;
    }
    return "note";
}

/// The mark before a finding, in colour on a terminal.
std::string mark(State state, bool colour) {
    const char* const text = state == State::note ? "-" : state_name(state);
    const char* const begin = state == State::ok ? "\033[32m" : state == State::missing ? "\033[33m" : "";
    const std::string padded = fmt::format("{:<10}", text);
    return colour && *begin != '\0' ? begin + padded + "\033[0m" : padded;
}

std::string findings_text(const std::vector<doctor::Finding>& findings, bool colour) {
    std::string text, group;
    size_t missing = 0, optional = 0;
    for (const doctor::Finding& finding : findings) {
        if (finding.group != group) {
            text += (group.empty() ? "" : "\n") + finding.group + "\n";
            group = finding.group;
        }
        text += fmt::format("  {}{:<24}{}\n", mark(finding.state, colour), finding.name, finding.value);
        missing += finding.state == State::missing;
        optional += finding.state == State::optional;
        const std::string indent(12, ' ');
        if (!finding.cost.empty()) text += indent + "costs:  " + finding.cost + "\n";
        if (!finding.remedy.empty()) text += indent + "remedy: " + finding.remedy + "\n";
    }
    text += missing == 0 ? "\nNothing that Millrace needs is missing"
                         : fmt::format("\n{} of the things that Millrace needs missing", missing);
    if (optional > 0) text += fmt::format("; {} optional, for some uses only: each says for which", optional);
    text += ".\n";
    return text;
}

std::string findings_json(const std::vector<doctor::Finding>& findings) {
    nlohmann::json list = nlohmann::json::array();
    for (const doctor::Finding& finding : findings) {
        nlohmann::json entry = {{"group", finding.group},
                                {"name", finding.name},
                                {"state", state_name(finding.state)},
                                {"value", finding.value}};
        if (!finding.cost.empty()) entry["cost"] = finding.cost;
        if (!finding.remedy.empty()) entry["remedy"] = finding.remedy;
        list.push_back(std::move(entry));
    }
    return list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// By what figures chains on the GPU choose their ways across the bus.
void add_figures(std::vector<doctor::Finding>& findings) {
    const std::string model = device::model_of({"cuda", 0});
    if (model.empty()) return;
    const auto behind = std::find_if(findings.rbegin(), findings.rend(), [](const doctor::Finding& finding) {
                            return finding.group == "gpu";
                        }).base();
    findings.insert(behind, {"gpu", "figures of transfers", State::note, exec::figures_of(model)->source, "", ""});
}

}  // namespace

void add_doctor(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("doctor", "Check this machine and suggest fixes");
    const auto json = std::make_shared<bool>(false);
    command->add_flag("--json", *json, "Print the findings as JSON");
    command->footer("Changes nothing and needs no rights. Exit status: 0, whatever it finds.");
    command->callback([json, &status] {
        std::vector<doctor::Finding> findings = doctor::examine_machine();
        add_figures(findings);
        if (*json) std::cout << findings_json(findings) << "\n";
        else std::cout << findings_text(findings, isatty(STDOUT_FILENO) != 0);
        status = kOk;
    });
}

}  // namespace millrace::cli
