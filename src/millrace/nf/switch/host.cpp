#include <fmt/format.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <filesystem>
#include <fstream>
#include <numeric>

#include "millrace/base/file.hpp"
#include "millrace/nf/classify/search_builder.hpp"
#include "millrace/nf/classify/vector_store.hpp"
#include "millrace/nf/changeable.hpp"
#include "millrace/nf/switch/action_tables.hpp"
#include "millrace/nf/switch/change_file.hpp"
#include "millrace/nf/switch/control.hpp"
#include "millrace/nf/switch/match_field.hpp"
#include "millrace/nf/switch/words.hpp"

namespace millrace::nf::flow_switch {
namespace {

constexpr size_t kMaxFileBytes = size_t{256} << 20;
constexpr uint64_t kDefaultMaxTable = uint64_t{1} << 30;

PortNumbers read_ports(const Config& options, const std::vector<std::string>& names) {
    const auto map = options.find("ports");
    if (!map) return PortNumbers(names);
    std::map<uint32_t, uint16_t> by_number;
    for (const auto& [number, name] : map->entries()) {
        const auto found = std::find(names.begin(), names.end(), name.text());
        if (found == names.end()) name.fail("there is no port '" + name.text() + "'", "name one of the configuration's 'ports:'");
        by_number[static_cast<uint32_t>(number.integer(1, 0xfffffeff))] = static_cast<uint16_t>(found - names.begin());
    }
    return PortNumbers(names, std::move(by_number));
}

/// Controllers, one or a list; and a number of up to 64 bits.
Control::Address read_address(const Config& options, const Environment& environment) {
    Control::Address address;
    if (const auto list = options.find("controller")) {
        for (const Config& item : list->items()) {
            const auto controller = parse_controller(item.text());
            if (!controller)
                item.fail("'" + item.text() + "' is not the address of a controller", "write tcp:HOST:PORT to connect to it, or ptcp:PORT to wait for it");
            address.controllers.push_back(*controller);
        }
    }
    if (const auto id = options.find("datapath-id")) {
        try {
            address.datapath = parse_number({id->text(), 0}, ~uint64_t{0});
        } catch (const WordMistake& mistake) {
            id->fail(mistake.message, "write it as 0x1");
        }
    } else {
        // The same in each run, and another one for another switch (FNV-1a).
        uint64_t hash = 0xcbf29ce484222325ull;
        for (const char c : environment.chain_name + "/" + environment.node_name) hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
        address.datapath = hash & 0xffffffffffffull;
    }
    return address;
}

/// Nothing for `auto`. Bit vectors know 5-tuples only.
std::optional<classify::Engine> engine_of(const Config& options) {
    using classify::Engine;
    const auto value = options.find("engine");
    if (!value) return std::nullopt;
    constexpr Engine kEngines[] = {Engine::linear, Engine::tuple, Engine::bloom, Engine::merged};
    std::vector<std::string> names;
    for (const Engine engine : kEngines) names.push_back(classify::kEngineNames[static_cast<size_t>(engine)]);
    names.push_back("auto");
    const size_t chosen = value->choice(names);
    return chosen == std::size(kEngines) ? std::nullopt : std::optional(kEngines[chosen]);
}

/// The flows, in the order of `order`, that can match packets with keys of that many words.
template <unsigned Words>
std::vector<classify::TernaryRule<Words>> rules_of(const std::vector<Flow>& flows, const std::vector<uint32_t>& order) {
    std::vector<classify::TernaryRule<Words>> rules;
    for (uint32_t position = 0; position < order.size(); ++position) {
        const auto& [value, mask] = flows[order[position]].match;
        if (mask.eth_type == 0xffff && (value.eth_type == eth::kTypeIpv6) != (Words == 15)) continue;
        classify::TernaryRule<Words> rule;
        std::copy_n(classify::ternary_key<Words>(value).words, Words, rule.value);
        std::copy_n(classify::ternary_key<Words>(mask).words, Words, rule.mask);
        rule.position = position;
        rules.push_back(rule);
    }
    return rules;
}

class SwitchHost : public NetworkFunction, public Changeable, public Controllable, public PuntTaker {
public:
    SwitchHost(const Config& options, const Environment& environment) : ports_(read_ports(options, environment.ports)), engine_(engine_of(options)) {
        options.only({"flows", "file", "groups", "ports", "engine", "max-table", "max-flows", "dump", "changes", "controller", "datapath-id"});
        if (const auto limit = options.find("max-table")) max_table_ = limit->size();
        if (const auto most = options.find("max-flows")) max_flows_ = most->size();
        if (const auto dump = options.find("dump")) dump_file_ = (std::filesystem::path(environment.output_folder) / dump->text()).string();
        if (const auto changes = options.find("changes")) changes_.path = changes->path();
        address_ = read_address(options, environment);
        load(options, ports_);
        if (!changes_.path.empty()) flows_.files.push_back(changes_.path);
        plain_ = changes_.path.empty() && address_.controllers.empty();
        const auto* previous = dynamic_cast<const SwitchHost*>(environment.previous);
        if (previous != nullptr) {
            control_ = previous->control_;
            version_ = control_->keep_controlled(flows_);
        }
        try {
            build(previous == nullptr ? nullptr : previous->counters_.get());
        } catch (const classify::TablesTooLarge& error) {
            options.fail(error.what(), "allow more with 'max-table: 4Gi', take another 'engine', or use fewer flows");
        }
        if (previous != nullptr) return;
        control_ = std::make_shared<Control>(ports_, flows_);
        control_->set_address(address_);
        adopted_ = true;
    }

    /// The generation behind `previous` with other flows and groups. Throws TablesTooLarge.
    SwitchHost(const SwitchHost& previous, Control::Wanted wanted)
        : ports_(previous.ports_), engine_(previous.choice_.engine), max_table_(previous.max_table_), max_flows_(previous.max_flows_),
          dump_file_(previous.dump_file_), changes_(previous.changes_), address_(previous.address_), plain_(previous.plain_), control_(previous.control_),
          version_(wanted.version), adopted_(true) {
        // What was fastest is so still, nearly always; measuring would take longer than all else.
        flows_.flows = std::move(wanted.flows);
        flows_.groups = std::move(wanted.groups);
        flows_.files = previous.flows_.files;
        build(previous.counters_.get());
    }

    std::shared_ptr<NetworkFunction> next() override {
        if (!std::exchange(adopted_, true)) {
            control_->adopt(ports_, flows_, version_);
            control_->set_address(address_);
        }
        control_->at_work(version_, counters_);
        changes_.read_on([this](std::string_view line) { change(line); });
        if (control_->version() == version_) return nullptr;
        try {
            return std::make_shared<SwitchHost>(*this, control_->wanted());
        } catch (const classify::TablesTooLarge& error) {
            spdlog::warn("switch: {}; the flows stay as they were", error.what());
            version_ = control_->give_up(flows_.flows, flows_.groups);
            return nullptr;
        }
    }

    std::shared_ptr<Control> control() const override { return control_; }

    const Control::Address& wanted_address() const override { return address_; }

    PuntTaker* punt_taker() override { return control_->listening() ? this : nullptr; }

    bool take(rte_mbuf* packet, const Decision& decision) override {
        const Flow* const flow = punting_flow(decision);
        return control_->punts().put({packet, flow != nullptr ? flow->cookie : ~uint64_t{0}, decision.outcome, flow != nullptr && flow->is_table_miss() ? 1u : 0u});
    }

    Fields reads(Fields of_type) const override { return plain_ ? fields_used(flows_).reads : of_type; }
    Fields writes(Fields of_type) const override { return plain_ ? fields_used(flows_).writes : of_type; }

    const Image& image() const override { return image_; }

    std::string explain(const Decision& decision) const override {
        if (decision.detail >= flows_.flows.size()) return decision.outcome == Switch::kMiss ? "no flow" : std::string{};
        const Flow& flow = flows_.flows[decision.detail];
        if (flow.file == Flow::kFromController) return fmt::format("flow {} (controller) {}", decision.detail + 1, text_of(flow, ports_));
        return fmt::format("flow {} ({}:{}) {}", decision.detail + 1, std::filesystem::path(flows_.files[flow.file]).filename().string(), flow.line, flow.text);
    }

    std::vector<Statistic> statistics() const override {
        uint64_t packets = 0, bytes = 0, used = 0;
        for (size_t i = 0; i < flows_.flows.size(); ++i) {
            const auto [p, b] = counted(i);
            packets += p;
            bytes += b;
            used += p > 0;
        }
        return {{"flows", flows_.flows.size(), "flows loaded"},
                {"groups", flows_.groups.size(), "groups loaded"},
                {"used-flows", used, "of the flows, those that matched a packet"},
                {"flow-packets", packets, "packets that matched one of these flows"},
                {"flow-bytes", bytes, "bytes of their frames, as they came in"},
                {"changes", control_->changed_flows(), "flows added, changed and removed while at work"},
                {"refused-changes", changes_.refused, "lines of changes that were wrong"},
                {"packet-ins", control_->traffic().packet_ins, "packets that went to a controller"},
                {"lost-packet-ins", control_->traffic().lost_packet_ins, "packets for a controller, while there was none or it did not read"},
                {"packet-outs", control_->traffic().packet_outs, "packets that a controller sent: each by its ports, or through the chain"},
                {"lost-packet-outs", control_->traffic().lost_packet_outs, "packets that a controller sent, and that were too long or too many"},
                {"table-bytes", table_bytes_, "memory of the search tables"}};
    }

    std::string summary() const override {
        return fmt::format("{} flows, {} groups, {} KiB of tables; searched by {}; IPv6 by {}", flows_.flows.size(), flows_.groups.size(),
                           table_bytes_ >> 10, choice_.text(), ipv6_choice_.text());
    }

    /// As `ovs-ofctl dump-flows` lists them.
    void flush() override {
        if (dump_file_.empty()) return;
        std::ofstream out(dump_file_);
        for (size_t i = 0; i < flows_.flows.size(); ++i) {
            const auto [packets, bytes] = counted(i);
            const Flow& flow = flows_.flows[i];
            out << fmt::format("n_packets={}, n_bytes={}, {}\n", packets, bytes, flow.file == Flow::kFromController ? text_of(flow, ports_) : flow.text);
        }
        if (!out) throw std::runtime_error("cannot write " + dump_file_);
    }

private:
    /// One line of changes. Throws WordMistake.
    void change(std::string_view line) {
        FlowChange change = parse_change(line, ports_);
        change.flow.line = changes_.lines;
        change.flow.file = static_cast<uint32_t>(flows_.files.size() - 1);
        try {
            control_->change(std::move(change));
        } catch (const Refusal& refusal) {
            throw classify::WordMistake{0, refusal == Refusal::no_group ? "there is no such group" : "there are too many flows", {}};
        }
    }

    /// The flow that sent a packet to the controller. A device tells the lower 16 bits of its number only: with more flows than
    /// that it is the first of those that may be meant.
    const Flow* punting_flow(const Decision& decision) const {
        for (size_t i = decision.detail; i < flows_.flows.size(); i += size_t{1} << 16) {
            const Flow& flow = flows_.flows[i];
            const auto punts = [](const Action& action) { return action.kind == ActionKind::controller || action.kind == ActionKind::group; };
            if (decision.outcome == Switch::kTtlExpired || std::any_of(flow.actions.begin(), flow.actions.end(), punts)) return &flow;
        }
        return nullptr;
    }

    void load(const Config& options, const PortNumbers& ports) {
        if (const auto files = options.find("groups"))
            for (const Config& file : files->items()) load_groups(read_file(file.path(), file.where(), kMaxFileBytes), file.path(), ports, flows_);
        if (const auto list = options.find("flows")) load_inline(*list, ports);
        if (const auto files = options.find("file"))
            for (const Config& file : files->items()) load_flows(read_file(file.path(), file.where(), kMaxFileBytes), file.path(), ports, flows_);
        if (flows_.flows.size() > Control::kMaxFlows) options.fail("there are more than " + std::to_string(Control::kMaxFlows) + " flows");
        for (const Flow& flow : flows_.flows)
            for (const Action& action : flow.actions)
                if (action.kind == ActionKind::group && group_index(action.value) == flows_.groups.size())
                    throw ConfigError(Diagnostic{{flows_.files[flow.file], flow.line, 1}, fmt::format("there is no group {}", action.value), "load it with 'groups:'"});
    }

    void load_inline(const Config& list, const PortNumbers& ports) {
        const uint32_t file = static_cast<uint32_t>(flows_.files.size());
        flows_.files.push_back(list.where().file);
        for (const Config& item : list.items()) {
            try {
                Flow flow = parse_flow(item.text(), ports);
                flow.text = item.text();
                flow.file = file;
                flow.line = item.where().line;
                flows_.flows.push_back(std::move(flow));
            } catch (const classify::WordMistake& mistake) {
                item.fail(mistake.message, mistake.hint);
            }
        }
    }

    size_t group_index(uint32_t id) const {
        const auto found = std::find_if(flows_.groups.begin(), flows_.groups.end(), [&](const Group& group) { return group.id == id; });
        return static_cast<size_t>(found - flows_.groups.begin());
    }

    /// Makes the tables of `flows_`. Throws TablesTooLarge.
    void build(const Counters* previous) {
        const std::vector<std::string> names = identities(flows_.flows);
        counters_ = std::make_shared<Counters>(previous, names, max_flows_);
        for (const std::string& name : names) counter_of_.push_back(counters_->place(name));
        auto& tables = image_.start<Switch::Tables>();
        std::vector<uint32_t> order(flows_.flows.size());
        std::iota(order.begin(), order.end(), 0u);
        std::stable_sort(order.begin(), order.end(), [&](uint32_t a, uint32_t b) { return flows_.flows[a].priority > flows_.flows[b].priority; });
        choice_ = build_search(rules_of<9>(flows_.flows, order), tables.flows);
        ipv6_choice_ = build_search(rules_of<15>(flows_.flows, order), tables.ipv6_flows);
        attach_actions(tables, order);
        image_.attach_state(tables.counters, counters_->values(), "counters");
    }

    template <unsigned Words>
    classify::EngineChoice build_search(std::vector<classify::TernaryRule<Words>> rules, typename classify::Search<Words>::Tables& tables) {
        const classify::EngineChoice choice = engine_ ? classify::EngineChoice{*engine_, {}} : classify::choose_engine<Words>(rules, max_table_);
        classify::SearchBuilder<Words> builder(std::move(rules), choice.engine, max_table_);
        table_bytes_ += builder.bytes();
        builder.attach(image_, tables);
        return choice;
    }

    void attach_actions(Switch::Tables& tables, const std::vector<uint32_t>& order) {
        ActionTables made(flows_.groups);
        std::vector<Switch::Flow> entries;
        for (const uint32_t number : order) {
            const Flow& flow = flows_.flows[number];
            entries.push_back({made.append(flow.actions), static_cast<uint32_t>(flow.actions.size()), number, counter_of_[number].index});
        }
        image_.attach_some(tables.entries, std::move(entries));
        image_.attach_some(tables.actions, std::move(made.actions));
        image_.attach_some(tables.groups, std::move(made.groups));
        image_.attach_some(tables.buckets, std::move(made.buckets));
    }

    Counters::Counts counted(size_t flow) const {
        const Counters::Counts counts = Counters::at(*counters_->values(), counter_of_[flow]);
        const Flow::Life& life = flows_.flows[flow].life;
        return {counts.packets - life.first_packets, counts.bytes - life.first_bytes};
    }

    PortNumbers ports_;
    std::optional<classify::Engine> engine_;
    uint64_t max_table_ = kDefaultMaxTable;
    size_t max_flows_ = 0;
    std::string dump_file_;
    ChangeFile changes_;
    Control::Address address_;
    bool plain_ = false;      // nobody changes the flows
    std::shared_ptr<Control> control_;
    uint64_t version_ = 0;    // of the flows
    bool adopted_ = false;    // the control knows of these flows
    FlowSet flows_;
    Image image_;
    std::shared_ptr<Counters> counters_;
    std::vector<Counters::Place> counter_of_;  // by flow, in order of loading
    classify::EngineChoice choice_, ipv6_choice_;
    uint64_t table_bytes_ = 0;
};

const Register<Switch, SwitchHost> registration{{
    .name = "switch",
    .summary = "forwards packets by OpenFlow flows: matches on 12 fields, changes headers, sends by ports",
    .outcomes = {{"forward", Disposition::next, "a flow sends it by a port or several"},
                 {"drop", Disposition::drop, "a flow drops it, or sends it only where it came in"},
                 {"controller", Disposition::punt, "a flow sends it to the controller"},
                 {"miss", Disposition::drop, "no flow matches"},
                 {"ttl-expired", Disposition::drop, "a flow decrements the TTL or hop limit, which has run out"},
                 {"no-room", Disposition::drop, "a flow pushes a tag, and the packet has no room for it or four already"},
                 {"malformed", Disposition::drop, "its headers do not hold, and the chain let it pass"}},
    .device_header = "millrace/nf/switch/device.hpp",
    .device_struct = "millrace::nf::flow_switch::Switch",
    .head_growth = 8,
}};

}  // namespace
}  // namespace millrace::nf::flow_switch
