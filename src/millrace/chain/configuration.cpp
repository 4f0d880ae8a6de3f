#include "millrace/chain/configuration.hpp"

#include <algorithm>
#include <map>
#include <set>

#include "millrace/base/files/output_file.hpp"
#include "millrace/base/running.hpp"
#include "millrace/chain/classification/classified.hpp"
#include "millrace/chain/equal_functions.hpp"
#include "millrace/chain/head.hpp"
#include "millrace/chain/inner.hpp"
#include "millrace/chain/names.hpp"
#include "millrace/chain/previous.hpp"
#include "millrace/chain/tenants/parts.hpp"
#include "millrace/chain/reachability.hpp"
#include "millrace/nf/plugin.hpp"
#include "millrace/nf/state/keeps_journal.hpp"
#include "millrace/nf/variant.hpp"

namespace millrace::chain {
namespace {

/// Reads one configuration, going on after a mistake so that all are found in one pass.
class Loader {
public:
    Loader(const Config& root, const LoadOptions& options) : root_(root), options_(options) {}

    Configuration load(const std::string& file) {
        result_.file = file;
        result_.files = std::make_shared<FileLedger>();
        result_.siblings = std::make_shared<SiblingPlaces>();
        const FileLedger::Scope scope(*result_.files);
        FileLedger::note_here(FileLedger::Use::read, file, {file, 0, 0});
        if (options_.previous != nullptr) {
            result_.generation = options_.previous->generation + 1;
            result_.reporter = options_.previous->reporter;
            result_.siblings = options_.previous->siblings;
        }
        if (!root_.is_map() && !root_.is_null())
            root_.fail("a configuration is a map ('key: value' lines)", "begin with 'version: 1'");
        find_functions();
        attempt([&] {
            root_.only({"version", "device", "idle", "socket", "output", "plugins", "ports", "chains", "classify",
                        "sharing", "admission", "tenants"});
        });
        attempt([&] { read_head(); });
        attempt([&] { read_ports(); });
        attempt([&] { read_chains(); });
        attempt([&] { read_classification(); });
        if (mistakes_.empty()) {
            attempt([&] {
                for (const Diagnostic& mistake : unreached(result_)) add(mistake);
                for (const Diagnostic& mistake : untracked(result_)) add(mistake);
                for (const Diagnostic& mistake : circles(result_, target_places_)) add(mistake);
            });
            for (const auto& program : result_.chains)
                for (const Node& node : program->nodes) attempt([&] { check_state(node); });
        }
        if (mistakes_.empty()) attempt([&] { cut_at_tenants(result_); });
        if (!mistakes_.empty()) throw ConfigError(std::move(mistakes_));
        if (result_.device != "cpu") result_.classified = make_classified(result_);
        for (const Diagnostic& warning : lost_punts(result_)) result_.reporter(warning);
        result_.warnings = result_.reporter.take_warnings();
        return std::move(result_);
    }

private:
    /// More than these are a slip: each chain is compiled as a program of its own, each function into its chain's.
    static constexpr size_t kMaxChains = 4096, kMaxFunctions = 1024;

    template <class F>
    void attempt(F&& f) {
        try {
            f();
        } catch (const ConfigError& e) {
            for (const Diagnostic& mistake : e.diagnostics()) add(mistake);
        }
    }

    /// Several steps may come upon the same mistake (a key given twice, say); it is told once.
    void add(const Diagnostic& mistake) {
        const bool known = std::any_of(mistakes_.begin(), mistakes_.end(), [&](const Diagnostic& other) {
            return other.where.line == mistake.where.line && other.where.column == mistake.where.column &&
                   other.where.file == mistake.where.file && other.message == mistake.message;
        });
        if (!known) mistakes_.push_back(mistake);
    }

    void find_functions() {
        try {
            functions_.emplace();
        } catch (const nf::PluginError& e) {
            throw ConfigError(Diagnostic{{}, e.what(), e.hint()});
        }
    }

    void read_head() {
        if (root_.at("version").integer() != 1)
            root_.at("version").fail("this version of the format is not known", "write 'version: 1'");
        attempt([&] { read_devices(root_, options_, result_); });
        attempt([&] { read_idle(root_, result_); });
        attempt([&] { read_sharing(root_, result_); });
        attempt([&] { read_admission(root_, result_); });
        result_.output_folder = options_.output_folder.empty() ? root_.text_or("output", "out")
                                                               : options_.output_folder;
        const auto output = options_.output_folder.empty() ? root_.find("output") : std::nullopt;
        if (result_.output_folder.empty()) output->fail("a folder is missing here", "'output: .' is the current one");
        attempt([&] { check_output_folder(result_.output_folder, output ? output->where() : root_.where()); });
        attempt([&] { read_socket(root_, result_); });
        attempt([&] { read_tenants(root_, result_); });
        if (const auto plugins = root_.find("plugins")) {
            for (const Config& plugin : plugins->items())
                attempt([&] {
                    const std::string path = plugin.path();
                    try {
                        if (options_.load_plugins) functions_->add(path);
                        else nf::Plugin::check(path);
                    } catch (const nf::PluginError& e) {
                        plugin.fail(std::string("this plugin can't be loaded: ") + e.what(), e.hint());
                    }
                });
        }
    }

    void read_ports() {
        const auto ports = root_.find("ports");
        if (!ports) root_.fail("'ports' is missing", "a chain needs at least a port to receive from");
        for (const auto& [name, options] : ports->entries()) result_.port_names.push_back(name_of(name, "a port"));
        if (result_.port_names.empty()) ports->fail("there is no port here");
        attempt([&] { read_linux_ports(*ports); });
        if (result_.port_names.size() >= kNoPort) ports->fail("too many ports");
        port_names_ = std::make_shared<const std::vector<std::string>>(result_.port_names);
    }

    /// Their taps are ports behind the others.
    void read_linux_ports(const Config& ports) {
        std::vector<LinuxPort> found = find_linux_ports(ports);
        result_.ports = with_taps(ports, found);
        for (const LinuxPort& linux_port : found) result_.port_names.push_back(linux_port.interface);
        taps_ = taps_by_port(found, result_.port_names.size());
        result_.linux_ports = std::move(found);
    }

    void read_chains() {
        const auto chains = root_.find("chains");
        if (!chains || chains->entries().empty())
            (chains ? *chains : root_).fail("there is no chain here", "add one below 'chains:'");
        const auto entries = with_chains(chains->entries(), result_.linux_ports, result_.port_names);
        for (const auto& [name, options] : entries) {
            chain_names_.push_back(name_of(name, "a chain"));
            if (chain_names_.back().front() == '(')
                name.fail("a chain's name can't begin with '('", "use letters, digits, '-' and '_'");
        }
        if (chain_names_.size() > kMaxChains)
            chains->fail("there are more than " + std::to_string(kMaxChains) + " chains",
                         "lead several classes of packets to one");
        size_t done = 0, total = 0;
        for (const auto& [name, options] : entries)
            if (options.is_map() && options.has("nfs")) total += options.at("nfs").items().size();
        for (const auto& entry : entries) attempt([&] { read_chain(entry.first, entry.second, done, total); });
    }

    void read_chain(const Config& name, const Config& options, size_t& done, size_t total) {
        options.only({"input", "output", "punt", "max-delay", "max-batch", "malformed", "reassemble", "inner", "nfs",
                      "rate", "latency", "weight"});
        Promise promise;
        attempt([&] { promise = read_promise(options); });
        auto program = std::make_shared<Program>();
        program->name = program->whole = name.text();
        program->where = name.where();
        program->port_names = port_names_;
        program->generation = result_.generation;
        program->taps = taps_;
        program->index = static_cast<uint16_t>(std::find(chain_names_.begin(), chain_names_.end(), name.text()) -
                                               chain_names_.begin());
        if (const auto inputs = options.find("input"))
            for (const Config& input : inputs->items()) attempt([&] { add_input(*program, input); });
        if (const auto output = options.find("output")) attempt([&] { program->output = port_number(*output); });
        if (const auto punt = options.find("punt")) attempt([&] { program->punt_port = port_number(*punt); });
        if (const auto delay = options.find("max-delay")) attempt([&] { program->max_delay = delay->duration(); });
        if (const auto batch = options.find("max-batch"))
            attempt([&] { program->max_batch = static_cast<uint32_t>(batch->integer(1, 65536)); });
        if (const auto malformed = options.find("malformed"))
            attempt([&] { program->drop_malformed = malformed->choice({"drop", "pass"}) == 0; });
        if (const auto limits = options.find("reassemble"))
            attempt([&] { program->reassembly = read_reassembly(*limits); });
        const std::vector<Config> nfs = options.has("nfs") ? options.at("nfs").items() : std::vector<Config>{};
        if (nfs.size() > kMaxFunctions)
            options.at("nfs").fail(
                "there are more than " + std::to_string(kMaxFunctions) + " network functions in this chain",
                "make it several chains, which lead to each other");
        // A chain that has a port to itself does not share batches with others.
        SiblingPlaces::Chain* const siblings = options.has("input") ? nullptr : &result_.siblings->of(nfs);
        std::vector<std::optional<Config>> edges;  // the `on:` maps, read once all names are known
        for (const Config& nf : nfs) {
            attempt([&] { edges.push_back(read_node(*program, nf, siblings)); });
            if (options_.progress) options_.progress(program->name, ++done, total);
        }
        if (edges.size() == program->nodes.size())
            for (size_t i = 0; i < edges.size(); ++i) attempt([&] { connect(*program, i, edges[i]); });
        if (const auto kinds = options.find("inner")) attempt([&] { read_inner(*kinds, *program); });
        leave_out_reassembly(*program, result_.reporter);
        attempt([&] { check_tenants(options, *program); });
        attempt([&] { check_tenants_promises(promise, *program); });
        plan_program(*program, result_.device == "cpu");
        result_.chains.push_back(std::move(program));
        result_.promises.push_back(std::move(promise));
    }

    void add_input(Program& program, const Config& input) {
        const uint16_t port = port_number(input);
        const auto [first, fresh] = input_of_.emplace(port, program.name);
        if (!fresh)
            input.fail(
                "port '" + input.text() + "' is used twice: it is the input of chain '" + first->second + "' already",
                "share a port between chains with 'classify:'");
        program.inputs.push_back(port);
    }

    uint16_t port_number(const Config& value) const {
        return index_of(value, value.text(), "port", result_.port_names);
    }
    uint16_t chain_number(const Config& value) const { return index_of(value, value.text(), "chain", chain_names_); }

    /// Reads one entry of `nfs:`, makes the NF, and returns its `on:` map.
    std::optional<Config> read_node(Program& program, const Config& entry, SiblingPlaces::Chain* siblings) {
        static const std::vector<std::string> kOwn = {"name", "on", "lanes"};
        std::vector<std::string> kinds;
        for (const nf::Type* type : functions_->all()) kinds.push_back(type->name);

        if (entry.is_map() && entry.has("tenant")) {
            program.nodes.push_back(read_tenant_node(entry, result_.tenants, program, chain_of_tenant_));
            return entry.find("on");
        }
        std::optional<Config> kind, options;
        if (entry.is_scalar()) {
            kind = entry;
            options = Config::parse("{}", entry.where().file);
        } else {
            for (const auto& [key, value] : entry.entries()) {
                if (std::find(kOwn.begin(), kOwn.end(), key.text()) != kOwn.end()) continue;
                if (kind)
                    key.fail("'" + kind->text() + "' and '" + key.text() + "' in one entry",
                             "begin a new entry with '- '");
                kind = key;
                options = value;
            }
            if (!kind) entry.fail("this entry names no network function", "write it as '- firewall: {…}'");
        }
        const nf::Type* type = functions_->find(kind->text());
        if (type == nullptr) {
            const std::string near = closest_word(kind->text(), kinds);
            const bool is_left_out = !options_.load_plugins && root_.has("plugins");
            kind->fail("there is no network function '" + kind->text() + "'",
                       !near.empty() ? "did you mean '" + near + "'?"
                       : is_left_out ? "plugins are not loaded, as their code would run: '--plugins' does"
                                     : "'millrace nf list' shows them");
        }
        Node node;
        node.type = type;
        node.where = kind->where();
        node.lanes = options_.lanes != 0 ? options_.lanes : type->lanes;
        node.name = kind->text();
        if (!entry.is_scalar()) {
            if (const auto name = entry.find("name")) node.name = name_of(*name, "a network function");
            if (const auto lanes = entry.find("lanes")) {
                const auto own = static_cast<unsigned>(lanes->integer(1, 32));
                if (type->process_with(own) == nullptr) lanes->fail("lanes must be 1, 8 or 32");
                if (options_.lanes == 0) node.lanes = own;
            }
        }
        if (type->process_with(node.lanes) == nullptr) entry.fail("lanes must be 1, 8 or 32");
        check_name(program, node.name, entry.is_map() && entry.has("name") ? entry.at("name") : *kind);
        node.nf = make_nf(program, node, *options, siblings);
        if (options_.live) nf::make_state_present(*node.nf, result_.device.find("cpu") != std::string::npos);
        node.type = &nf::type_of(*node.type, *node.nf);
        program.nodes.push_back(std::move(node));
        return entry.is_scalar() ? std::nullopt : entry.find("on");
    }

    std::shared_ptr<nf::NetworkFunction> make_nf(const Program& program, const Node& node, const Config& options,
                                                 SiblingPlaces::Chain* siblings) {
        nf::Environment environment{.node_name = node.name,
                                    .chain_name = program.name,
                                    .output_folder = result_.output_folder,
                                    .ports = result_.port_names};
        environment.linux_ports = interfaces_of(result_.linux_ports);
        environment.warn = result_.reporter;
        environment.on_device = result_.device != "cpu";
        environment.live = options_.live;
        if (siblings != nullptr) environment.siblings = &(*siblings)[{program.nodes.size(), node.type}];
        if (options_.previous != nullptr) find_previous(options_.previous->chains, program.name, node, environment);
        const Running running(node.name, program.name, Call::making);
        if (!node.type->shareable && !node.type->shares_tables) return node.type->create(options, environment);
        auto& first = equals_.first(*node.type, options);
        if (first != nullptr && node.type->shareable) return first;
        environment.twin = first.get();
        std::shared_ptr<nf::NetworkFunction> made = node.type->create(options, environment);
        if (first == nullptr) first = made;
        return made;
    }

    void connect(Program& program, size_t index, const std::optional<Config>& on) {
        Node& node = program.nodes[index];
        const Target next = index + 1 < program.nodes.size()
                                ? Target{Target::Kind::node, static_cast<uint16_t>(index + 1)}
                                : Target{Target::Kind::output, 0};
        std::vector<std::string> outcomes;
        for (const nf::Outcome& outcome : node.type->outcomes) {
            outcomes.push_back(outcome.name);
            node.targets.push_back(outcome.disposition == nf::Disposition::next   ? next
                                   : outcome.disposition == nf::Disposition::drop ? Target{Target::Kind::drop, 0}
                                                                                  : Target{Target::Kind::punt, 0});
        }
        if (!on) return;
        for (const auto& entry : on->entries())
            attempt([&] {
                const std::string& outcome = entry.first.text();
                const auto found = std::find(outcomes.begin(), outcomes.end(), outcome);
                if (found == outcomes.end())
                    entry.first.fail("'" + node.type->name + "' has no outcome '" + outcome + "'",
                                     near_or_all(outcome, outcomes));
                const size_t at = static_cast<size_t>(found - outcomes.begin());
                node.targets[at] = read_target(program, index, entry.second, next, {result_.port_names, chain_names_});
                target_places_[{program.index, index, at}] = entry.second.where();
            });
    }

    void read_classification() {
        std::vector<ClassificationRule> rules;
        if (const auto table = root_.find("classify")) {
            for (const Config& line : table->items()) {
                attempt([&] {
                    line.only({"match", "chain"});
                    ClassificationRule rule;
                    if (const auto match = line.find("match"))
                        rule = ClassificationRule::read(*match, result_.port_names);
                    rule.chain = chain_number(line.at("chain"));
                    rules.push_back(rule);
                });
            }
        }
        // `input:` is the short form: every packet of that port, behind the table's own lines.
        for (const auto& program : result_.chains)
            for (const uint16_t port : program->inputs) {
                ClassificationRule rule;
                rule.port = port;
                rule.chain = program->index;
                rules.push_back(rule);
            }
        result_.classification = Classification(std::move(rules), result_.port_names.size());
    }

    /// Ordered state is handed from device to device with the order; what packets change in no order can't be.
    void check_state(const Node& node) {
        if (result_.runs_on.devices.size() > 1 && node.changes_state_in_no_order())
            add({node.where,
                 "'" + node.name +
                     "' keeps state that packets change in no order, and several devices would each have their own",
                 "give one device"});
        if (node.type->emits_events && !node.tells_again())
            add({node.where,
                 "'" + node.name +
                     "' emits events and changes packets or state: it can't be asked again where events find no room",
                 "a function that emits events must only look"});
    }

    const Config& root_;
    const LoadOptions& options_;
    std::optional<nf::Catalogue> functions_;
    Configuration result_;
    std::vector<std::string> chain_names_;
    std::shared_ptr<const std::vector<std::string>> port_names_ = std::make_shared<std::vector<std::string>>();
    std::shared_ptr<const std::vector<uint16_t>> taps_;
    std::map<uint16_t, std::string> input_of_;
    std::map<std::string, std::string> chain_of_tenant_;  // that it has a function in
    /// The first function of a kind with these options, where others may share something with it.
    EqualFunctions equals_;
    TargetPlaces target_places_;
    std::vector<Diagnostic> mistakes_;
};

}  // namespace

const Program* Configuration::find_chain(std::string_view name) const {
    for (const auto& program : chains)
        if (program->name == name) return program.get();
    return nullptr;
}

Configuration load_configuration(const std::string& path, const LoadOptions& options) {
    return Loader(Config::load(path), options).load(path);
}

Configuration parse_configuration(const std::string& text, const std::string& file, const LoadOptions& options) {
    return Loader(Config::parse(text, file), options).load(file);
}

}  // namespace millrace::chain
