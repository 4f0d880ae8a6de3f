#include <algorithm>
#include <atomic>
#include <map>
#include <sstream>
#include <utility>

#include "millrace/base/line_file.hpp"
#include "millrace/base/output_file.hpp"
#include "millrace/nf/nf.hpp"
#include "millrace/nf/nids/alerts/eve.hpp"
#include "millrace/nf/nids/alerts/threshold.hpp"
#include "millrace/nf/nids/compile/compiled_rules.hpp"
#include "millrace/nf/nids/cpu.hpp"
#include "millrace/nf/nids/device.hpp"
#include "millrace/nf/nids/options.hpp"

namespace millrace::nf::nids {
namespace {

std::string location_text(const Location& where) { return where.file + ":" + std::to_string(where.line); }

/// What outlives a generation: the alert file, the thresholds, the counters.
struct AlertLog {
    AlertLog(std::string path, Reporter reporter) : eve(std::move(path), "alerts", std::move(reporter)) {}
    LineFile eve;
    ThresholdTable thresholds;
    std::atomic<uint64_t> alerts = 0, suppressed = 0;
};

class NidsHost : public NetworkFunction {
public:
    NidsHost(const Config& config, const Environment& environment) {
        Options options = read_options(config, environment);
        engine_ = options.engine;
        classes_ = std::move(options.classes);
        broken_ = options.broken.size();
        disabled_ = options.disabled;
        rules_ = compile(std::move(options.rules), options.ips);
        rules_.attach(image_);
        warn_of_unsupported(environment);
        if (!options.report.empty()) make_report(options.report, options.broken);
        const auto* previous = dynamic_cast<NidsHost*>(environment.previous);
        const bool same_file = previous != nullptr && previous->log_->eve.path() == options.eve;
        log_ = same_file ? previous->log_ : std::make_shared<AlertLog>(options.eve, environment.warn);
    }

    const Image& image() const override { return image_; }

    std::unique_ptr<CpuHalf> make_cpu_half() override {
        return nids::make_cpu_half(rules_.patterns, engine_, *static_cast<const NidsTables*>(image_.tables()));
    }

    size_t most_events() const override { return rules_.rules.size(); }

    /// By the tables that are there: a few packets need no library's.
    std::unique_ptr<CpuHalf> make_teller() override {
        return nids::make_cpu_half(rules_.patterns, pattern::Engine::scalar,
                                   *static_cast<const NidsTables*>(image_.tables()));
    }

    std::string explain(const Decision& decision) const override {
        if (decision.detail >= rules_.rules.size()) return {};
        const Rule& rule = rules_.rules[decision.detail];
        return "sid " + std::to_string(rule.sid) + " \"" + rule.message + "\" (" + location_text(rule.where) + ")";
    }

    void on_event(const Event& event, const PacketInfo& info) override {
        if (event.code >= rules_.rules.size()) return;
        const Rule& rule = rules_.rules[event.code];
        if (is_suppressed(rule, event) || !log_->thresholds.admits(rule, event, info.timestamp_ns)) {
            ++log_->suppressed;
            return;
        }
        ++log_->alerts;
        log_->eve.append(eve_line(rule, classes_, event, info));
    }

    /// Whoever follows the file sees an alert at once, however few there are.
    void events_told() override { log_->eve.flush(); }

    std::vector<Statistic> statistics() const override {
        return {{"alerts", log_->alerts, "alerts written"},
                {"alerts-suppressed", log_->suppressed, "alerts that a threshold or suppress line held back"},
                {"windows-forgotten", log_->thresholds.forgotten(),
                 "windows of thresholds that ended early, as too many addresses were counted"},
                {"eve-lines-lost", log_->eve.lost(), "alerts that could not be written"},
                {"rules", rules_.rules.size(), "rules that are applied"},
                {"rules-unsupported", rules_.unsupported.size(),
                 "rules that one packet cannot decide, or with unknown options"},
                {"rules-broken", broken_, "rules left out as they are broken (on-error: skip)"},
                {"rules-disabled", disabled_, "rules left out by 'disable:'"}};
    }

    std::string summary() const override {
        std::ostringstream out;
        out << rules_.rules.size() << " rules (" << rules_.without_pattern.rules() << " without a pattern), "
            << (image_.array_bytes() + 1023) / 1024 << " KiB; " << rules_.patterns->summary();
        if (rules_.unsupported.empty()) return out.str();
        out << "\n" << rules_.unsupported.size() << " rules not supported:";
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
        for (const Rule& rule : rules_.unsupported) ++counts[rule.unsupported_group];
        std::vector<std::pair<size_t, std::string>> sorted;
        for (const auto& [reason, count] : counts) sorted.emplace_back(count, reason);
        std::sort(sorted.begin(), sorted.end(), [](const auto& a, const auto& b) {
            return a.first != b.first ? a.first > b.first : a.second < b.second;
        });
        return sorted;
    }

    void warn_of_unsupported(const Environment& environment) const {
        std::map<std::string, std::pair<size_t, const Rule*>> groups;
        for (const Rule& rule : rules_.unsupported) {
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
    void make_report(const std::string& path, const std::vector<Diagnostic>& broken) {
        std::ostringstream out;
        for (const Rule& rule : rules_.unsupported)
            out << location_text(rule.where) << "\t" << rule.gid << ":" << rule.sid << "\t" << rule.unsupported << "\n";
        for (const Diagnostic& error : broken)
            out << error.where.file << ":" << error.where.line << ":" << error.where.column << "\tbroken\t"
                << error.message << "\n";
        report_ = path;
        report_text_ = out.str();
    }

    std::string report_, report_text_;
    CompiledRules rules_;
    Classifications classes_;
    pattern::Engine engine_ = pattern::Engine::automatic;
    size_t broken_ = 0, disabled_ = 0;
    Image image_;
    std::shared_ptr<AlertLog> log_;
};

const Register<Nids, NidsHost> registration{{
    .name = "nids",
    .summary = "raises alerts by Snort and Suricata rules, and drops what they say",
    .outcomes = {{"clean", Disposition::next, "no rule matched, or a pass rule did"},
                 {"alert", Disposition::next, "a rule matched"},
                 {"block", Disposition::drop, "a drop or reject rule matched (mode: ips)"}},
    .device_header = "millrace/nf/nids/device.hpp",
    .device_struct = "millrace::nf::nids::Nids",
    .emits_events = true,
    .has_cpu_half = true,
}};

}  // namespace
}  // namespace millrace::nf::nids
