#include "millrace/isolation/report.hpp"

#include <nlohmann/json.hpp>

namespace millrace::isolation {

const char* name_of(Isolation isolation) {
    switch (isolation) {
        case Isolation::none: return "none";
        case Isolation::checked: return "checked";
        case Isolation::fenced: return "fenced";
    }
    return "";
}

std::optional<Isolation> isolation_named(const std::string& name) {
    for (const Isolation isolation : {Isolation::none, Isolation::checked, Isolation::fenced})
        if (name == name_of(isolation)) return isolation;
    return std::nullopt;
}

nlohmann::json refusals_json(const Verdict& verdict) {
    nlohmann::json list = nlohmann::json::array();
    for (const Diagnostic& refusal : verdict.refusals)
        list.push_back({{"file", refusal.where.file},
                        {"line", refusal.where.line},
                        {"column", refusal.where.column},
                        {"message", refusal.message},
                        {"hint", refusal.hint}});
    return {{"sound", verdict.sound()}, {"refusals", list}};
}

nlohmann::json functions_json(const std::vector<FunctionReport>& functions) {
    nlohmann::json list = nlohmann::json::array();
    for (const FunctionReport& f : functions)
        list.push_back(
            {{"name", f.name},
             {"instructions", f.instructions},
             {"loops", f.loops},
             {"accesses",
              {{"window", f.window_accesses}, {"variables", f.object_accesses}, {"proven", f.proven_accesses}}},
             {"added",
              {{"window", f.for_window},
               {"variables", f.for_objects},
               {"budget", f.for_budget},
               {"clearing", f.for_clearing},
               {"all", f.added()}}}});
    return list;
}

}  // namespace millrace::isolation
