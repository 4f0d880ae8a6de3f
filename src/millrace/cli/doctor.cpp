// millrace doctor: what this machine offers for packet processing, and what it lacks.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <iostream>
#include <nlohmann/json.hpp>

#include "millrace/cli/commands.hpp"
#include "millrace/device/open.hpp"
#include "millrace/exec/transfer_figures.hpp"
#include "millrace/io/doctor.hpp"

namespace millrace::cli {
namespace {

using State = io::Finding::State;

const char* state_name(State state) { return state == State::ok ? "ok" : state == State::missing ? "missing" : "note"; }

/// The mark before a finding, in colour on a terminal.
std::string mark(State state, bool colour) {
    const char* const text = state == State::ok ? "ok" : state == State::missing ? "missing" : "-";
    const char* const begin = state == State::ok ? "\033[32m" : state == State::missing ? "\033[33m" : "";
    const std::string padded = fmt::format("{:<8}", text);
    return colour && *begin != '\0' ? begin + padded + "\033[0m" : padded;
}

std::string findings_text(const std::vector<io::Finding>& findings, bool colour) {
    std::string text, group;
    size_t missing = 0;
    for (const io::Finding& finding : findings) {
        if (finding.group != group) {
            text += (group.empty() ? "" : "\n") + finding.group + "\n";
            group = finding.group;
        }
        text += fmt::format("  {}{:<24}{}\n", mark(finding.state, colour), finding.name, finding.value);
        if (finding.state != State::missing) continue;
        ++missing;
        const std::string indent(10, ' ');
        if (!finding.cost.empty()) text += indent + "costs:  " + finding.cost + "\n";
        if (!finding.remedy.empty()) text += indent + "remedy: " + finding.remedy + "\n";
    }
    text += missing == 0 ? "\nNothing is missing.\n"
                         : fmt::format("\n{} missing; captures, traffic sources and the cpu and sim devices work without.\n", missing);
    return text;
}

std::string findings_json(const std::vector<io::Finding>& findings) {
    nlohmann::json list = nlohmann::json::array();
    for (const io::Finding& finding : findings) {
        nlohmann::json entry = {{"group", finding.group}, {"name", finding.name}, {"state", state_name(finding.state)}, {"value", finding.value}};
        if (!finding.cost.empty()) entry["cost"] = finding.cost;
        if (!finding.remedy.empty()) entry["remedy"] = finding.remedy;
        list.push_back(std::move(entry));
    }
    return list.dump(2, ' ', false, nlohmann::json::error_handler_t::replace);
}

/// By what figures chains on the GPU choose their ways across the bus.
void add_figures(std::vector<io::Finding>& findings) {
    const std::string model = device::model_of({"cuda", 0});
    if (model.empty()) return;
    const auto behind = std::find_if(findings.rbegin(), findings.rend(), [](const io::Finding& finding) { return finding.group == "gpu"; }).base();
    findings.insert(behind, {"gpu", "figures of transfers", State::note, exec::figures_of(model)->source, "", ""});
}

}  // namespace

void add_doctor(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("doctor", "Look at this machine: what it offers, what it lacks, what that costs and what mends it");
    const auto json = std::make_shared<bool>(false);
    command->add_flag("--json", *json, "Print the findings as JSON");
    command->footer("Changes nothing and needs no rights. Exit status: 0, whatever it finds.");
    command->callback([json, &status] {
        std::vector<io::Finding> findings = io::examine_machine();
        add_figures(findings);
        if (*json) std::cout << findings_json(findings) << "\n";
        else std::cout << findings_text(findings, isatty(STDOUT_FILENO) != 0);
        status = kOk;
    });
}

}  // namespace millrace::cli
