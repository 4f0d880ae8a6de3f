#include "millrace/nftest/golden.hpp"

#include <algorithm>
#include <memory>

#include "millrace/nftest/declared.hpp"
#include "millrace/base/running.hpp"
#include "millrace/nf/cpu_stages.hpp"
#include "millrace/nf/variant.hpp"

namespace millrace::nftest {
namespace {

/// Times of a table count from here.
constexpr uint64_t kGoldenEpochNs = 1'700'000'000'000'000'000;

uint16_t port_number(const Config& name, const std::vector<std::string>& ports) {
    return static_cast<uint16_t>(name.choice(ports));
}

uint32_t outcome_number(const Config& name, const nf::Type& type) {
    if (name.text() == "refused") return kRefused;
    std::vector<std::string> names;
    for (const nf::Outcome& outcome : type.outcomes) names.push_back(outcome.name);
    return static_cast<uint32_t>(name.choice(names));
}

std::string outcome_name(uint32_t outcome, const nf::Type& type) {
    if (outcome == kRefused) return "refused";
    return outcome < type.outcomes.size() ? type.outcomes[outcome].name : "undeclared " + std::to_string(outcome);
}

/// Where two frames part, and both.
std::string difference(const Frame& got, const Frame& want) {
    const size_t at = static_cast<size_t>(std::mismatch(got.begin(), got.end(), want.begin(), want.end()).first -
                                          got.begin());
    std::string text = "the packets part at byte " + std::to_string(at);
    if (got.size() != want.size())
        text += ", and there are " + std::to_string(got.size()) + " bytes, expected " + std::to_string(want.size());
    return text + "\n" + hex_dump(got) + "\nexpected\n" + hex_dump(want);
}

std::string listed(const std::vector<uint32_t>& codes) {
    std::string text = "[";
    for (const uint32_t code : codes) text += (text.size() > 1 ? ", " : "") + std::to_string(code);
    return text + "]";
}

/// What a case was found to do wrong, each thing once with the halves that did it.
class Case {
public:
    explicit Case(std::string name) : name_(std::move(name)) {}

    const std::string& name() const { return name_; }
    void add(const Location& where, const std::string& message, const std::string& hint = {}) {
        for (Found& found : found_) {
            if (found.message != message || found.where.line != where.line || found.where.column != where.column)
                continue;
            if (found.halves.empty() || found.halves.back() != half) found.halves.push_back(half);
            return;
        }
        found_.push_back({where, message, hint, {half}});
    }
    /// What no half of its own did.
    void add_of_all(const Location& where, const std::string& message, const std::string& hint = {}) {
        found_.push_back({where, message, hint, {}});
    }
    bool good() const { return found_.empty(); }
    /// `halves`: of how many it ran on.
    void tell(size_t halves, std::vector<Diagnostic>& failures) const {
        for (const Found& found : found_) {
            std::string by;
            if (found.halves.size() < halves)
                for (const std::string& text : found.halves) by += (by.empty() ? "" : ", ") + text;
            failures.push_back(
                {found.where, "'" + name_ + "'" + (by.empty() ? "" : ", " + by) + ": " + found.message, found.hint});
        }
    }

    std::string half;  ///< that is at work

private:
    struct Found {
        Location where;
        std::string message, hint;
        std::vector<std::string> halves;
    };
    std::string name_;
    std::vector<Found> found_;
};

/// What explains a decision, without the place of the option that led to it.
std::string without_place(const std::string& text) {
    const size_t begin = text.find(" ("), end = text.find(')', begin);
    const bool place = end != std::string::npos && text.substr(begin, end - begin).find(':') != std::string::npos;
    return place ? text.substr(0, begin) + text.substr(end + 1) : text;
}

/// `places`: those of options are compared, too.
void run_step(const Config& step, const std::vector<std::string>& ports, NfRunner& runner, const Half& half,
              DeclarationCheck* check, bool places, Case& into) {
    const nf::Type& type = runner.type();
    const Config packet_here = step.at("packet");
    const Frame input = build_packet(packet_here);
    const auto in_port = step.find("in-port");
    const uint16_t port = in_port ? port_number(*in_port, ports) : uint16_t{0};
    if (check != nullptr)
        for (const Undeclared& found : check->check({input}, port))
            into.add_of_all(packet_here.where(), found.message, found.hint);
    const auto time = step.find("time");
    runner.time_ns = kGoldenEpochNs + (time ? static_cast<uint64_t>(time->duration().count()) : 0);
    const NfResult result = runner.run({input}, half, port);
    for (const std::string& mistake : result.mistakes) into.add(packet_here.where(), mistake);
    const Config expect = step.at("expect");
    expect.only({"outcome", "packet", "unchanged", "detail", "explain", "out-port", "events"});
    const auto compare = [&](const Config& at, const std::string& what, const std::string& got,
                             const std::string& want) {
        if (got != want) into.add(at.where(), what + " " + got + ", expected " + want);
    };

    const Decision& decision = result.decisions[0];
    const Config outcome = expect.at("outcome");
    compare(outcome, "outcome", outcome_name(decision.outcome, type),
            outcome_name(outcome_number(outcome, type), type));
    if (const auto packet = expect.find("packet"))
        if (const Frame want = build_packet(*packet); result.frames[0] != want)
            into.add(packet->where(), difference(result.frames[0], want));
    if (const auto unchanged = expect.find("unchanged"))
        if (unchanged->boolean() && result.frames[0] != input)
            into.add(unchanged->where(), difference(result.frames[0], input));
    if (const auto detail = expect.find("detail"))
        compare(*detail, "detail", std::to_string(decision.detail), std::to_string(detail->integer(0, 0xffffffff)));
    const auto shown = [&](const std::string& text) { return places ? text : without_place(text); };
    if (const auto explain = expect.find("explain"))
        compare(*explain, "explain",
                decision.outcome < type.outcomes.size() ? "'" + shown(runner.nf().explain(decision)) + "'" : "nothing",
                "'" + shown(explain->text()) + "'");
    if (const auto out = expect.find("out-port")) {
        const uint16_t want = out->text() == "none" ? kNoPort : port_number(*out, ports);
        const auto name = [&](uint16_t number) {
            return number == kNoPort       ? std::string("none")
                   : number < ports.size() ? ports[number]
                                           : "number " + std::to_string(number);
        };
        compare(*out, "out-port", name(result.out_ports[0]), name(want));
    }
    if (const auto events = expect.find("events")) {
        std::vector<uint32_t> want, got;
        for (const Config& code : events->items()) want.push_back(static_cast<uint32_t>(code.integer(0, 0xffffffff)));
        for (const Event& event : result.events) got.push_back(event.code);
        compare(*events, "events", listed(got), listed(want));
    }
}

Config options_of(const Config& entry, const std::string& path) {
    const auto options = entry.find("options");
    if (!options) return Config::parse("{}", path);
    return options->is_scalar() ? Config::parse(options->text(), path) : *options;
}

class Table {
public:
    Table(const nf::Type& type, const std::string& path, const GoldenOptions& options)
        : type_(type), path_(path), options_(options) {}

    void run(const Config& entry, Case& into) {
        entry.only({"name", "options", "behind", "ports", "packet", "in-port", "time", "expect", "steps"});
        std::vector<std::string> ports = kTestPorts;
        if (const auto names = entry.find("ports")) {
            ports.clear();
            for (const Config& name : names->items()) ports.push_back(name.text());
        }
        bool first = true;
        for (const Half& half : options_.halves) {
            into.half = half.text();
            NfRunner& runner = instance_for(entry, ports);
            // Its stages give the device half what it works with, and finish what that has decided.
            if (!half.device.empty() && nf::cpu_stages_of(runner.nf()).any()) continue;
            if (!packets_.empty()) {
                runner.time_ns = kGoldenEpochNs - 1'000'000'000;
                for (const std::string& mistake : runner.run(packets_, half).mistakes)
                    into.add(entry.where(), "of the packets before: " + mistake);
            }
            // Once for a case: what it looks for is no matter of halves.
            std::unique_ptr<DeclarationCheck> check;
            if (first && options_.checked)
                check = std::make_unique<DeclarationCheck>(nf::type_of(type_, runner.nf()), runner.nf());
            first = false;
            if (const auto steps = entry.find("steps")) {
                for (const Config& step : steps->items()) {
                    step.only({"packet", "in-port", "time", "expect"});
                    run_step(step, ports, runner, half, check.get(), !options_.fill, into);
                }
            } else {
                run_step(entry, ports, runner, half, check.get(), !options_.fill, into);
            }
        }
    }

private:
    /// A new NF for this entry, or the one at hand when it has no state and the same options (an alias): big tables
    /// take long to make.
    NfRunner& instance_for(const Config& entry, const std::vector<std::string>& ports) {
        const Config given = options_of(entry, path_);
        const Location where = entry.has("options") ? given.where() : Location{};
        const auto behind = entry.find("behind");
        const bool same = runner_ != nullptr && !behind && !runner_->stateful() && ports_ == ports &&
                          where_.line == where.line && where_.column == where.column;
        if (!same) {
            const Filled filled = options_.fill ? options_.fill(given) : Filled{given};
            packets_ = filled.packets;
            const nf::Environment environment{
                .node_name = "golden", .chain_name = "golden", .output_folder = options_.output_folder, .ports = ports};
            runner_ = std::make_unique<NfRunner>(type_, filled.options, environment, options_.open);
            if (behind) put_behind(*behind, environment);
            where_ = where;
            ports_ = ports;
        }
        return *runner_;
    }

    /// `what` is a map of one NF to its options.
    void put_behind(const Config& what, const nf::Environment& environment) {
        const auto entries = what.entries();
        if (entries.size() != 1) what.fail("this is not one network function", "write behind: {conntrack: {…}}");
        const auto& [name, options] = entries.front();
        const nf::Type* const before = nf::find_type(name.text());
        if (before == nullptr) name.fail("there is no network function '" + name.text() + "'");
        runner_->put_behind(*before, options, environment);
    }

    const nf::Type& type_;
    const std::string& path_;
    const GoldenOptions& options_;
    std::unique_ptr<NfRunner> runner_;  // of the entry before
    Location where_;                    // of its options
    std::vector<Frame> packets_;        // that come first
    std::vector<std::string> ports_;
};

}  // namespace

GoldenReport run_golden(const nf::Type& type, const std::string& path, const GoldenOptions& options) {
    const Config file = Config::load(path);
    const std::vector<Config> entries = file.items();
    if (entries.empty()) file.fail("this table has no packets", "give it a list of cases: - {name, packet, expect}");
    GoldenReport report;
    Table table(type, path, options);
    for (size_t i = 0; i < entries.size(); i += options.every) {
        const Config& entry = entries[i];
        ++report.cases;
        const auto name = entry.is_map() ? entry.find("name") : std::nullopt;
        Case one(name && name->is_scalar() ? name->text() : "case " + std::to_string(i + 1));
        const RunningFor running(one.name());
        try {
            if (!name) entry.fail("this case has no name", "say what it is about: name: drops a TTL of 0");
            table.run(entry, one);
        } catch (const ConfigError& e) {
            for (const Diagnostic& diagnostic : e.diagnostics())
                one.add_of_all(diagnostic.where, diagnostic.message, diagnostic.hint);
        } catch (const std::exception& e) {
            one.add_of_all(entry.where(), e.what());
        }
        if (!one.good()) ++report.failed;
        one.tell(options.halves.size(), report.failures);
    }
    return report;
}

}  // namespace millrace::nftest
