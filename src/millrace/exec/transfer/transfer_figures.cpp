#include "millrace/exec/transfer/transfer_figures.hpp"

#include <spdlog/spdlog.h>

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "millrace/base/text/shown_line.hpp"
#include "millrace/base/text/config.hpp"
#include "millrace/base/files/kept_file.hpp"

namespace millrace::exec {
namespace {

constexpr int kVersion = 1;
constexpr const char* kAgain = "measure anew: millrace profile";

struct NamedPace {
    const char* name;
    Pace TransferFigures::* pace;
};
constexpr NamedPace kPaces[] = {{"copy-in", &TransferFigures::copy_in},
                                {"copy-out", &TransferFigures::copy_out},
                                {"rows", &TransferFigures::rows},
                                {"gather", &TransferFigures::gather},
                                {"zero-copy", &TransferFigures::zero_copy},
                                {"heads-out", &TransferFigures::heads_out},
                                {"pack", &TransferFigures::pack}};
struct NamedNumber {
    const char* name;
    double TransferFigures::* number;
};
constexpr NamedNumber kNumbers[] = {{"copy-both", &TransferFigures::copy_both},
                                    {"gather-both", &TransferFigures::gather_both},
                                    {"call-ns", &TransferFigures::call_ns},
                                    {"launch-ns", &TransferFigures::launch_ns},
                                    {"packet-ns", &TransferFigures::packet_ns}};

/// No machine takes longer than a second for any of it.
double figure(const Config& value) {
    constexpr double kMax = 1e9;
    const double number = value.number();
    if (!std::isfinite(number) || number < 0 || number > kMax)
        value.fail("'" + value.text() + "' is no time in ns or ratio between 0 and 10^9", kAgain);
    return number;
}

Pace pace(const Config& value) {
    value.only({"start-ns", "item-ns", "byte-ns"});
    return {figure(value.at("start-ns")), figure(value.at("item-ns")), figure(value.at("byte-ns"))};
}

TransferFigures parse(const std::string& path, const std::string& model) {
    show_lines_of(path);  // the program has written it
    const Config file = Config::load(path);
    if (!file.is_map()) file.fail("this is no profile of transfers", kAgain);
    if (const int64_t version = file.at("version").integer(); version != kVersion)
        file.at("version").fail("version " + std::to_string(version) + " of profiles is not known here; this is " +
                                    std::to_string(kVersion),
                                kAgain);
    if (const std::string device = file.at("device").text(); device != model)
        file.at("device").fail("this is a profile of '" + device + "', and the device is '" + model + "'", kAgain);
    std::vector<std::string> known = {"version", "device"};
    TransferFigures figures;
    for (const NamedPace& one : kPaces) {
        known.push_back(one.name);
        figures.*one.pace = pace(file.at(one.name));
    }
    for (const NamedNumber& one : kNumbers) {
        known.push_back(one.name);
        figures.*one.number = figure(file.at(one.name));
    }
    file.only(known);
    figures.device = model;
    figures.source = path;
    return figures;
}

}  // namespace

std::string figures_json(const TransferFigures& figures) {
    nlohmann::ordered_json json = {{"version", kVersion}, {"device", figures.device}};
    for (const NamedPace& one : kPaces) {
        const Pace& pace = figures.*one.pace;
        json[one.name] = {{"start-ns", pace.start_ns}, {"item-ns", pace.item_ns}, {"byte-ns", pace.byte_ns}};
    }
    for (const NamedNumber& one : kNumbers) json[one.name] = figures.*one.number;
    return json.dump(1) + "\n";
}

TransferFigures read_figures(const std::string& path, const std::string& model) {
    try {
        return parse(path, model);
    } catch (const ConfigError& e) {
        // Whatever is wrong with it, it can be made again.
        std::vector<Diagnostic> diagnostics = e.diagnostics();
        for (Diagnostic& one : diagnostics) one.hint = kAgain;
        throw ConfigError(diagnostics);
    }
}

std::string figures_path(const std::string& model) { return kept_file("bus", model); }

std::shared_ptr<const TransferFigures> figures_of(const std::string& model) {
    const std::string path = model.empty() ? "" : figures_path(model);
    std::error_code error;
    if (!path.empty() && std::filesystem::exists(path, error)) {
        try {
            return std::make_shared<TransferFigures>(read_figures(path, model));
        } catch (const ConfigError& e) {
            spdlog::warn("{}\nthe ways across the bus are chosen by built-in figures", e.what());
        }
    }
    return {std::shared_ptr<void>(), &built_in_figures()};
}

}  // namespace millrace::exec
