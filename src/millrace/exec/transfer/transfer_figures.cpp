#include "millrace/exec/transfer/transfer_figures.hpp"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <nlohmann/json.hpp>

#include "millrace/base/text/config.hpp"
#include "millrace/base/files/kept_file.hpp"

namespace millrace::exec {
namespace {

constexpr KeptKind kKind = {"bus", "profile of transfers", 1, "measure anew: millrace profile"};

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

Pace pace(const Config& value) {
    value.only({"start-ns", "item-ns", "byte-ns"});
    return {kept_figure(value.at("start-ns")), kept_figure(value.at("item-ns")), kept_figure(value.at("byte-ns"))};
}

TransferFigures parse(const Config& file) {
    std::vector<std::string> known = {"version", "device"};
    TransferFigures figures;
    for (const NamedPace& one : kPaces) {
        known.push_back(one.name);
        figures.*one.pace = pace(file.at(one.name));
    }
    for (const NamedNumber& one : kNumbers) {
        known.push_back(one.name);
        figures.*one.number = kept_figure(file.at(one.name));
    }
    file.only(known);
    return figures;
}

}  // namespace

std::string figures_json(const TransferFigures& figures) {
    nlohmann::ordered_json json = {{"version", kKind.version}, {"device", figures.device}};
    for (const NamedPace& one : kPaces) {
        const Pace& pace = figures.*one.pace;
        json[one.name] = {{"start-ns", pace.start_ns}, {"item-ns", pace.item_ns}, {"byte-ns", pace.byte_ns}};
    }
    for (const NamedNumber& one : kNumbers) json[one.name] = figures.*one.number;
    return json.dump(1) + "\n";
}

TransferFigures read_figures(const std::string& path, const std::string& model) {
    TransferFigures figures;
    read_kept_file(kKind, path, model, [&](const Config& file) { figures = parse(file); });
    figures.device = model;
    figures.source = path;
    return figures;
}

std::string figures_path(const std::string& model) { return kept_file(kKind, model); }

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
