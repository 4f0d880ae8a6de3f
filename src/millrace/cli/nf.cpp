// millrace nf: the network functions that this program knows.
#include <fmt/format.h>

#include <iostream>

#include "millrace/chain/field_plan.hpp"
#include "millrace/cli/commands.hpp"
#include "millrace/cli/table.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::cli {
namespace {

const char* disposition_text(nf::Disposition disposition) {
    return disposition == nf::Disposition::next ? "next" : disposition == nf::Disposition::drop ? "drop" : "punt";
}

int list() {
    Table table({"nf", "cpu", "sim", "lanes", "ordered", "alerts", "what it does"});
    for (const nf::Type* type : nf::all_types())
        table.add({type->name, type->has_cpu_half ? "library" : "device half", "device half",
                   std::to_string(type->lanes), type->ordered() ? "yes" : "-", type->emits_events ? "yes" : "-",
                   type->summary});
    std::cout << table.text();
    return kOk;
}

int show(const std::string& name) {
    const nf::Type* type = nf::find_type(name);
    if (type == nullptr)
        throw std::runtime_error("there is no network function '" + name + "'; 'millrace nf list' shows them");
    std::cout << type->name << ": " << type->summary << "\n\nreads   " << chain::field_names(type->reads)
              << "\nwrites  " << chain::field_names(type->writes) << "\ngrows   " << type->head_growth
              << " B at the head, " << type->tail_growth << " B at the tail\nlanes   " << type->lanes << "\n\n";
    Table table({"outcome", "leads to", "when"});
    for (const nf::Outcome& outcome : type->outcomes)
        table.add({outcome.name, disposition_text(outcome.disposition), outcome.help});
    std::cout << table.text();
    return kOk;
}

}  // namespace

void add_nf(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("nf", "Network functions");
    command->require_subcommand(1);
    command->add_subcommand("list", "All that this program knows, and what runs them on which device")
        ->callback([&status] { status = list(); });
    CLI::App* one = command->add_subcommand("show", "One of them: fields, outcomes and where they lead by default");
    const auto name = std::make_shared<std::string>();
    one->add_option("name", *name, "As 'millrace nf list' names it")->required();
    one->callback([name, &status] { status = show(*name); });
}

}  // namespace millrace::cli
