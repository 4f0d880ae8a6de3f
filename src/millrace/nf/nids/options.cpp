#include "millrace/nf/nids/options.hpp"

#include <map>

#include "millrace/base/files/file.hpp"
#include "millrace/base/files/file_ledger.hpp"
#include "millrace/base/files/output_file.hpp"

namespace millrace::nf::nids {
namespace {

Variables read_variables(const Config& options) {
    Variables variables = Variables::defaults();
    const auto map = options.find("variables");
    if (!map) return variables;
    for (const auto& [key, value] : map->entries()) {
        std::string name = key.text();
        if (name.starts_with('$')) name.erase(0, 1);
        if (name.empty()) key.fail("a variable has no name");
        std::string text;
        if (value.is_list()) {
            for (const Config& item : value.items()) text += (text.empty() ? "[" : ",") + item.text();
            text += "]";
        } else {
            text = value.text();
        }
        // Ports and addresses look alike only as `any` and variables; a value must be one of them.
        variables.set(name, text);
    }
    for (const auto& [key, value] : map->entries()) {
        std::string name = key.text();
        const std::string reference = name.starts_with('$') ? name : "$" + name;
        std::string why;
        try {
            variables.addresses(reference, 0);
            continue;
        } catch (const RuleError& error) {
            why = error.message;
        }
        try {
            variables.ports(reference, 0);
        } catch (const RuleError&) {
            value.fail(why, "a variable is a list of addresses or a list of ports");
        }
    }
    return variables;
}

/// Of rules with the same gid and sid only the highest revision is applied; the others are told as such.
void refuse_doubles(std::vector<Rule>& rules) {
    std::map<std::pair<uint32_t, uint32_t>, size_t> kept;
    for (size_t i = 0; i < rules.size(); ++i) {
        if (rules[i].sid == 0) continue;
        const auto [at, added] = kept.emplace(std::pair(rules[i].gid, rules[i].sid), i);
        if (added) continue;
        const bool newer = rules[i].revision > rules[at->second].revision;
        rules[newer ? at->second : i].refuse("the same sid in another rule");
        if (newer) at->second = i;
    }
}

/// Where no flows are followed, rules that ask for what others have left with them, or only leave
/// something, are not applied.
void forget_flow_state(std::vector<Rule>& rules) {
    for (Rule& rule : rules) {
        const bool alerts = rule.action == Action::alert || rule.action == Action::log;
        for (const FlowBits& bits : rule.flow_bits)
            if (bits.asks()) rule.refuse("flowbits that are asked for: 'flows: none'");
        if (!rule.stream_sizes.empty()) rule.refuse("stream_size: 'flows: none'");
        for (const FlowInt& number : rule.flow_ints)
            if (number.asks()) rule.refuse("flowint that are asked for: 'flows: none'");
        if (!rule.flow_ints.empty() && rule.silent && alerts) rule.refuse("it only sets flowint: 'flows: none'");
        if (!rule.flow_bits.empty() && rule.silent && alerts) rule.refuse("it only sets flowbits: 'flows: none'");
        rule.flow_bits.clear();
        rule.stream_sizes.clear();
        rule.flow_ints.clear();
        if (rule.asks_host_bits()) rule.refuse("xbits that are asked for: 'flows: none'");
        if (!rule.host_bits.empty() && rule.silent && alerts) rule.refuse("it only sets xbits: 'flows: none'");
        rule.host_bits.clear();
    }
}

class Reader {
public:
    Reader(const Config& options, const Environment& environment) : options_(options), environment_(environment) {}

    Options run() {
        options_.only({"rules", "rule", "variables", "mode", "engine", "classification", "eve", "report", "disable",
                       "on-error", "flows"});
        variables_ = read_variables(options_);
        read_rules();
        apply_alert_filters(filters_, out_.rules, errors_, environment_.warn);
        const bool skip = options_.has("on-error") && options_.at("on-error").choice({"fail", "skip"}) == 1;
        if (!errors_.empty() && !skip) throw ConfigError(std::move(errors_));
        for (Diagnostic& error : errors_) {
            error.severity = Diagnostic::Severity::warning;
            environment_.warn(error);
        }
        out_.broken = std::move(errors_);
        disable();
        refuse_doubles(out_.rules);
        out_.flows = read_flow_options(options_.find("flows"));
        if (!out_.flows.followed) forget_flow_state(out_.rules);
        if (const auto file = options_.find("classification"))
            out_.classes = parse_classifications(read_file(file->path(), file->where()), file->path());
        out_.ips = options_.has("mode") && options_.at("mode").choice({"ids", "ips"}) == 1;
        if (options_.has("engine")) {
            static constexpr pattern::Engine kEngines[] = {pattern::Engine::automatic, pattern::Engine::hyperscan,
                                                           pattern::Engine::vector, pattern::Engine::scalar};
            const Config engine = options_.at("engine");
            out_.engine = kEngines[engine.choice({"auto", "hyperscan", "vector", "scalar"})];
            if (!pattern::is_available(out_.engine))
                engine.fail("this machine cannot run the engine '" + engine.text() + "'");
        }
        read_outputs();
        return std::move(out_);
    }

private:
    void read_rules() {
        if (!options_.has("rules") && !options_.has("rule"))
            options_.fail("there are no rules", "name files under 'rules:' or write rules under 'rule:'");
        if (const auto files = options_.find("rules"))
            for (const Config& file : files->items())
                add(parse_rules(read_file(file.path(), file.where()), file.path(), variables_));
        if (const auto texts = options_.find("rule")) {
            for (const Config& text : texts->items()) {
                RuleFile parsed = parse_rules(text.text(), text.where().file, variables_);
                // Places in the YAML: that of the text, as its own lines are not the file's.
                for (Rule& rule : parsed.rules) rule.where = text.where();
                for (AlertFilter& filter : parsed.filters) filter.where = text.where();
                for (Diagnostic& error : parsed.errors) {
                    error.message += " (column " + std::to_string(error.where.column) + " of the rule)";
                    error.where = text.where();
                }
                add(std::move(parsed));
            }
        }
    }

    void add(RuleFile file) {
        for (Rule& rule : file.rules) out_.rules.push_back(std::move(rule));
        for (AlertFilter& filter : file.filters) filters_.push_back(std::move(filter));
        for (Diagnostic& error : file.errors) errors_.push_back(std::move(error));
    }

    void disable() {
        const auto list = options_.find("disable");
        if (!list) return;
        for (const Config& item : list->items()) {
            const auto sid = static_cast<uint32_t>(item.integer(1, 0xffffffff));
            const size_t removed = std::erase_if(out_.rules, [&](const Rule& rule) { return rule.sid == sid; });
            if (removed == 0) item.fail("no rule has the sid " + std::to_string(sid));
            out_.disabled += removed;
        }
    }

    void read_outputs() {
        const std::string& folder = environment_.output_folder;
        if (const auto eve = options_.find("eve")) {
            out_.eve = output_path(*eve, folder, FileLedger::Use::append);
        } else {
            out_.eve = folder.empty() ? "eve.json" : folder + "/eve.json";
            FileLedger::note_here(FileLedger::Use::append, out_.eve, options_.where());
            check_output(out_.eve, options_.where(), folder);
        }
        if (const auto report = options_.find("report")) out_.report = output_path(*report, folder);
    }

    const Config& options_;
    const Environment& environment_;
    Variables variables_;
    std::vector<AlertFilter> filters_;
    std::vector<Diagnostic> errors_;
    Options out_;
};

}  // namespace

Options read_options(const Config& options, const Environment& environment) {
    return Reader(options, environment).run();
}

}  // namespace millrace::nf::nids
