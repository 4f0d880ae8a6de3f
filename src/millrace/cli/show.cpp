// millrace show: asks a run that is at work what it counts, and what its tables hold.
#include <filesystem>
#include <iostream>
#include <nlohmann/json.hpp>

#include "millrace/cli/commands.hpp"
#include "millrace/cli/text/show_text.hpp"
#include "millrace/nf/flow_query.hpp"
#include "millrace/show/answers.hpp"
#include "millrace/show/client.hpp"

namespace millrace::cli {
namespace {

struct ShowArguments {
    std::string topic;
    std::string socket = "out/millrace.sock";
    show::Wanted wanted;
    bool json = false;
};

int show_topic(const ShowArguments& arguments) {
    const std::string text = show::ask(arguments.socket, show::request_for(arguments.topic, arguments.wanted));
    const nlohmann::json answer = nlohmann::json::parse(text, nullptr, false);
    if (!answer.is_object()) throw std::runtime_error(arguments.socket + ": what answers there is no run of Millrace");
    if (const auto error = answer.find("error"); error != answer.end())
        throw std::runtime_error(arguments.socket + ": " + (error->is_string() ? error->get<std::string>() : "?"));
    if (answer.value("version", 0u) != show::kVersion)
        throw std::runtime_error(arguments.socket + ": the run answers by another version of the protocol");
    if (arguments.json) std::cout << text << "\n";
    else std::cout << shown_text(answer, arguments.topic);
    std::cout.flush();
    if (!std::cout) throw std::runtime_error("the answer could not be written to the standard output");
    return kOk;
}

}  // namespace

void add_show(CLI::App& app, int& status) {
    CLI::App* command = app.add_subcommand("show", "Show what a run that is at work counts, and its tables");
    const auto arguments = std::make_shared<ShowArguments>();
    command->add_option("topic", arguments->topic, "What to show")
        ->required()
        ->check(CLI::IsMember(std::vector<std::string>(std::begin(show::kTopics), std::end(show::kTopics))));
    command->add_option("--socket", arguments->socket, "Where the run answers")
        ->type_name("PATH")
        ->capture_default_str();
    command
        ->add_option("--limit", arguments->wanted.limit,
                     "Most rows of tables; " + std::to_string(show::kRows) + " unless given")
        ->type_name("N")
        ->check(CLI::Range(size_t{1}, show::kMaxRows));
    command
        ->add_option("--match", arguments->wanted.match,
                     "Of flows those that match, in a firewall's words: 'tcp to any port 443'")
        ->type_name("WORDS");
    command
        ->add_option("--by", arguments->wanted.by,
                     "Flows with most of it first: bytes (unless given), packets, duration")
        ->check(CLI::IsMember(std::vector<std::string>(std::begin(nf::FlowQuery::kBy), std::end(nf::FlowQuery::kBy))));
    command->add_flag("--json", arguments->json, "The answer as the run gives it: one line of JSON");
    command->footer(
        "The run says where it answers by 'socket:' of its configuration or --socket, and else in its\n"
        "output folder: out/millrace.sock.");
    command->callback([arguments, &status] { status = show_topic(*arguments); });
}

}  // namespace millrace::cli
