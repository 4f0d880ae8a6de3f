#include <algorithm>
#include <atomic>
#include <map>
#include <optional>
#include <sstream>
#include <utility>

#include "millrace/base/files/line_file.hpp"
#include "millrace/base/files/output_file.hpp"
#include "millrace/nf/nf.hpp"
#include "millrace/nf/nids/alerts/eve.hpp"
#include "millrace/nf/nids/alerts/host_bits.hpp"
#include "millrace/nf/nids/alerts/threshold.hpp"
#include "millrace/nf/nids/compile/compiled_rules.hpp"
#include "millrace/nf/nids/cpu.hpp"
#include "millrace/nf/nids/device.hpp"
#include "millrace/nf/nids/flows/flow_memory.hpp"
#include "millrace/nf/nids/flows/streams.hpp"
#include "millrace/nf/nids/options.hpp"
#include "millrace/nf/variant.hpp"
#include "millrace/nf/whole_packets.hpp"

namespace millrace::nf::nids {
namespace {

/// What NidsOfStreams tells of streams, in the order of its codes, by Suricata's names.
constexpr const char* kAnomalies[] = {"stream.reassembly_overlap_different_data", "stream.reassembly_seq_gap"};

std::string location_text(const Location& where) { return where.file + ":" + std::to_string(where.line); }

/// What outlives a generation: the alert file, the thresholds, the counters.
struct AlertLog {
    AlertLog(std::string path, Reporter reporter) : eve(std::move(path), "alerts", std::move(reporter)) {}
    LineFile eve;
    ThresholdTable thresholds;
    HostBits host_bits;
    std::atomic<uint64_t> alerts = 0, suppressed = 0;
};

/// What options and rules come to: the same for all nodes with equal options.
struct Ruleset {
    /// `before`: the state of flows that the generation before has, or null.
    Ruleset(Options options, const FlowMemory* before)
        : engine(options.engine), classes(std::move(options.classes)), broken(options.broken.size()),
          disabled(options.disabled), eve(std::move(options.eve)), report(std::move(options.report)),
          flows(options.flows),
          rules(compile(std::move(options.rules), options.ips, before != nullptr ? before->names() : FlowNames{},
                        flows.followed && flows.streams && flows.messages)) {
        if (before != nullptr && rules.state.names.bits.size() > before->room())
            rules.state = compile_state(rules.rules, rules.compiled, {{}, rules.state.names.ints});
        if (!asks_flows()) {
            rules.attach(image);
            return;
        }
        auto& tables = image.start<FlowTables>();
        rules.attach(image, tables.rules);
        rules.state.attach(image, tables.asked);
    }
    /// What rules ask for, and the options do: flows where any rule asks for them, and streams then where any rule may
    /// be met across segments; or where the options have streams.
    Follows follows() const {
        const bool streams = flows.followed && flows.streams && rules.spans;
        if (streams && (flows.streams_asked || rules.of_flows() > 0))
            return flows.messages && rules.of_messages ? Follows::messages : Follows::streams;
        return flows.followed && rules.of_flows() > 0 ? Follows::flows : Follows::nothing;
    }
    bool asks_flows() const { return follows() != Follows::nothing; }
    const NidsTables& tables() const {
        return asks_flows() ? static_cast<const FlowTables*>(image.tables())->rules
                            : *static_cast<const NidsTables*>(image.tables());
    }

    pattern::Engine engine;
    Classifications classes;
    size_t broken, disabled;
    std::string eve, report;
    FlowOptions flows;
    CompiledRules rules;
    Image image;
};

class NidsHost : public NetworkFunction, public WantsWholePackets, public Varied {
public:
    NidsHost(const Config& config, const Environment& environment) {
        const auto* previous = dynamic_cast<NidsHost*>(environment.previous);
        const FlowMemory* const before = previous != nullptr && previous->flows_ ? &*previous->flows_ : nullptr;
        // A report is of one node.
        const auto* const twin = dynamic_cast<const NidsHost*>(environment.twin);
        if (twin != nullptr && twin->set_->report.empty()) {
            set_ = twin->set_;
        } else {
            Options options = read_options(config, environment);
            const std::vector<Diagnostic> broken = options.broken;
            set_ = std::make_shared<const Ruleset>(std::move(options), before);
            warn_of_unsupported(environment);
            if (!set_->report.empty()) make_report(broken);
        }
        const bool same_file = previous != nullptr && previous->log_->eve.path() == set_->eve;
        log_ = same_file ? previous->log_ : std::make_shared<AlertLog>(set_->eve, environment.warn);
        if (!set_->asks_flows()) return;
        flows_.emplace(set_->flows, set_->rules.state, set_->follows(), environment, before);
        flows_->attach(image_, image_.start_from<FlowTables>(set_->image));
    }

    std::string_view variant() const override {
        static constexpr const char* kVariants[][2] = {
            {"", ""}, {"flows", "flow-numbers"}, {"streams", "stream-numbers"}, {"messages", "message-numbers"}};
        return kVariants[static_cast<size_t>(set_->follows())][set_->rules.state.asks_numbers];
    }
    const Image& image() const override { return flows_ ? image_ : set_->image; }
    void device_lost() override {
        if (flows_) flows_->lose();
    }

    std::unique_ptr<CpuHalf> make_cpu_half() override {
        const NidsTables& tables = flows_ ? static_cast<const FlowTables*>(image_.tables())->rules : set_->tables();
        return nids::make_cpu_half(set_->rules.patterns, set_->engine, tables, set_->follows());
    }

    /// Rules that ask for patterns alone are decided where these are found.
    bool runs_in_parts() const override {
        const NidsTables& tables = flows_ ? static_cast<const FlowTables*>(image_.tables())->rules : set_->tables();
        return tables.asks_more || tables.without_pattern;
    }

    size_t most_events() const override { return set_->rules.rules.size() + std::size(kAnomalies); }

    /// By the tables that are there: a few packets need no library's.
    std::unique_ptr<CpuHalf> make_teller() override {
        return nids::make_cpu_half(set_->rules.patterns, pattern::Engine::scalar, set_->tables(), set_->follows());
    }

    std::string explain(const Decision& decision) const override {
        if (decision.detail >= set_->rules.rules.size()) return {};
        const Rule& rule = set_->rules.rules[decision.detail];
        return "sid " + std::to_string(rule.sid) + " \"" + rule.message + "\" (" + location_text(rule.where) + ")";
    }

    void on_event(const Event& event, const PacketInfo& info) override {
        const size_t rules = set_->rules.rules.size();
        if (event.code >= rules) {
            if (event.code - rules < std::size(kAnomalies))
                log_->eve.append(anomaly_line(kAnomalies[event.code - rules], event, info));
            return;
        }
        const Rule& rule = set_->rules.rules[event.code];
        if (!log_->host_bits.admit(rule, event, info.timestamp_ns) || rule.silent) return;
        if (is_suppressed(rule, event) || !log_->thresholds.admits(rule, event, info.timestamp_ns)) {
            ++log_->suppressed;
            return;
        }
        ++log_->alerts;
        log_->eve.append(eve_line(rule, set_->classes, event, info));
    }

    /// Whoever follows the file sees an alert at once, however few there are.
    void events_told() override { log_->eve.flush(); }

    std::vector<Statistic> statistics() const override {
        std::vector<Statistic> all = {
            {"alerts", log_->alerts, "alerts written"},
            {"alerts-suppressed", log_->suppressed, "alerts that a threshold or suppress line held back"},
            {"windows-forgotten", log_->thresholds.forgotten(),
             "windows of thresholds that ended early, as too many addresses were counted"},
            {"xbits-forgotten", log_->host_bits.forgotten(), "bits of hosts that ended early, as too many were set"},
            {"eve-lines-lost", log_->eve.lost(), "alerts that could not be written"},
            {"rules", set_->rules.rules.size(), "rules that are applied"},
            {"rules-unsupported", set_->rules.unsupported.size(),
             "rules that one packet cannot decide, or with unknown options"},
            {"rules-broken", set_->broken, "rules left out as they are broken (on-error: skip)"},
            {"rules-disabled", set_->disabled, "rules left out by 'disable:'"}};
        if (flows_)
            for (Statistic& statistic : flows_->statistics()) all.push_back(std::move(statistic));
        return all;
    }

    std::string summary() const override {
        const FlowNames& names = set_->rules.state.names;
        std::ostringstream out;
        out << set_->rules.rules.size() << " rules (" << set_->rules.without_pattern.rules() << " without a pattern), "
            << (set_->image.array_bytes() + 1023) / 1024 << " KiB; " << set_->rules.patterns->summary();
        if (flows_)
            out << "\n"
                << set_->rules.of_flows() << " rules ask for the state of flows, " << names.bits.size() << " flowbits, "
                << names.ints.size() << " flowints; " << (flows_->bytes() + 1023) / 1024 << " KiB of flows";
        if (flows_ && flows_->stream_bytes() > 0)
            out << ", of which are " << (flows_->stream_bytes() + 1023) / 1024 << " KiB for streams: tails of "
                << set_->flows.tail << " B";
        if (flows_ && flows_->message_bytes() > 0)
            out << ", and " << (flows_->message_bytes() + 1023) / 1024 << " KiB for HTTP messages";
        if (set_->rules.unsupported.empty()) return out.str();
        out << "\n" << set_->rules.unsupported.size() << " rules not supported:";
        for (const auto& [count, reason] : reasons()) out << "\n  " << count << " " << reason;
        return out.str();
    }

    void flush() override {
        log_->eve.flush();
        if (report_.empty()) return;
        const std::string text = std::exchange(report_text_, {});
        write_file(std::exchange(report_, {}), text);
    }

private:
    /// Why rules are not supported, the most frequent reason first.
    std::vector<std::pair<size_t, std::string>> reasons() const {
        std::map<std::string, size_t> counts;
        for (const Rule& rule : set_->rules.unsupported) ++counts[rule.unsupported_group];
        std::vector<std::pair<size_t, std::string>> sorted;
        for (const auto& [reason, count] : counts) sorted.emplace_back(count, reason);
        std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
            return a.first != b.first ? a.first > b.first : a.second < b.second;
        });
        return sorted;
    }

    void warn_of_unsupported(const Environment& environment) const {
        std::map<std::string, std::pair<size_t, const Rule*>> groups;
        for (const Rule& rule : set_->rules.unsupported) {
            auto& [count, first] = groups[rule.unsupported_group];
            if (count++ == 0) first = &rule;
        }
        for (const auto& [reason, group] : groups) {
            const auto& [count, first] = group;
            std::string message = std::to_string(count) + (count == 1 ? " rule is" : " rules are") +
                                  " not supported: " + reason + (count == 1 ? " (sid " : " (the first: sid ") +
                                  std::to_string(first->sid) + ")";
            environment.warn({first->where, std::move(message), "'report: FILE' lists them all"});
        }
    }

    /// Written when the function is at work, not when its options are only looked at.
    void make_report(const std::vector<Diagnostic>& broken) {
        std::ostringstream out;
        for (const Rule& rule : set_->rules.unsupported)
            out << location_text(rule.where) << "\t" << rule.gid << ":" << rule.sid << "\t" << rule.unsupported << "\n";
        for (const Diagnostic& error : broken)
            out << error.where.file << ":" << error.where.line << ":" << error.where.column << "\tbroken\t"
                << error.message << "\n";
        report_ = set_->report;
        report_text_ = out.str();
    }

    std::string report_, report_text_;
    std::shared_ptr<const Ruleset> set_;
    std::shared_ptr<AlertLog> log_;
    std::optional<FlowMemory> flows_;  ///< where rules ask for them
    Image image_;                      ///< then: the rule set's, and the flows
};

Declaration declare(std::string name, std::string device_header, std::string device_struct) {
    return {
        .name = std::move(name),
        .summary = "raises alerts by Snort and Suricata rules, and drops what they say",
        .outcomes = {{"clean", Disposition::next, "no rule matched, or a pass rule did"},
                     {"alert", Disposition::next, "a rule matched"},
                     {"block", Disposition::drop, "a drop or reject rule matched (mode: ips)"}},
        .device_header = std::move(device_header),
        .device_struct = std::move(device_struct),
        .emits_events = true,
        .has_cpu_half = true,
        .shares_tables = true,
    };
}

const Register<Nids, NidsHost> registration{declare("nids", "millrace/nf/nids/device.hpp", "millrace::nf::nids::Nids")};
const Register<NidsOfFlows, NidsHost> registration_of_flows{
    declare("nids:flows", "millrace/nf/nids/flows/device.hpp", "millrace::nf::nids::NidsOfFlows")};
const Register<NidsOfFlowNumbers, NidsHost> registration_of_flow_numbers{
    declare("nids:flow-numbers", "millrace/nf/nids/flows/device.hpp", "millrace::nf::nids::NidsOfFlowNumbers")};
const Register<NidsOfStreams, NidsHost> registration_of_streams{
    declare("nids:streams", "millrace/nf/nids/flows/streams.hpp", "millrace::nf::nids::NidsOfStreams")};
const Register<NidsOfStreamNumbers, NidsHost> registration_of_stream_numbers{
    declare("nids:stream-numbers", "millrace/nf/nids/flows/streams.hpp", "millrace::nf::nids::NidsOfStreamNumbers")};
const Register<NidsOfMessages, NidsHost> registration_of_messages{
    declare("nids:messages", "millrace/nf/nids/flows/streams.hpp", "millrace::nf::nids::NidsOfMessages")};
const Register<NidsOfMessageNumbers, NidsHost> registration_of_message_numbers{
    declare("nids:message-numbers", "millrace/nf/nids/flows/streams.hpp", "millrace::nf::nids::NidsOfMessageNumbers")};

}  // namespace
}  // namespace millrace::nf::nids
