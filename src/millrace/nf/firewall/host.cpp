#include "millrace/nf/firewall/host.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/base/eal.hpp"
#include "millrace/base/files/file.hpp"
#include "millrace/nf/classify/rules/classbench.hpp"
#include "millrace/nf/classify/rules/text_rules.hpp"

namespace millrace::nf::firewall {
namespace {

using classify::RuleSet;

constexpr uint64_t kDefaultMaxTable = uint64_t{1} << 30;
/// All published sets of 1,000 rules compile within 0.6 s and 240 MB; some of 10,000 do not within minutes.
constexpr uint64_t kDefaultMaxAclRules = 2000;

const std::vector<std::string> kActions = {"permit", "deny"};

uint32_t outcome_or(const Config& options, const std::string& key, Firewall::Outcome otherwise) {
    const auto value = options.find(key);
    return value ? static_cast<uint32_t>(value->choice(kActions)) : otherwise;
}

uint64_t size_or(const Config& options, const std::string& key, uint64_t otherwise) {
    const auto value = options.find(key);
    return value ? value->size() : otherwise;
}

/// Nothing for `auto`.
std::optional<classify::Engine> engine_of(const Config& options) {
    const auto value = options.find("engine");
    if (!value) return std::nullopt;
    std::vector<std::string> names(std::begin(classify::kEngineNames), std::end(classify::kEngineNames));
    names.push_back("auto");
    const size_t chosen = value->choice(names);
    return chosen + 1 == names.size() ? std::nullopt : std::optional(static_cast<classify::Engine>(chosen));
}

bool ports_never_seen(const classify::Box& box) {
    const classify::ByteMatch& protocol = box.protocol;
    return !(box.src_port.any() && box.dst_port.any()) && !protocol.contains(ip::kProtocolTcp) &&
           !protocol.contains(ip::kProtocolUdp);
}

std::string bytes_text(uint64_t bytes) {
    if (bytes < 10240) return fmt::format("{} B", bytes);
    if (bytes < uint64_t{10} << 20) return fmt::format("{} KiB", bytes >> 10);
    return fmt::format("{} MiB", bytes >> 20);
}

}  // namespace

FirewallHost::FirewallHost(const Config& options, const Environment& environment)
    : warn_(environment.warn), where_(options.where()) {
    options.only({"rules", "file", "classbench", "action", "match-flags", "default", "non-ip", "engine", "max-table",
                  "max-acl-rules", "max-acl"});
    load(options);
    build(options, environment.on_device ? classify::Searcher::gpu : classify::Searcher::core);
    warn_of_ports_never_seen();
}

void FirewallHost::load(const Config& options) {
    classify::ClassBenchOptions classbench;
    if (const auto action = options.find("action"))
        classbench.actions = static_cast<classify::ClassBenchOptions::Actions>(
            action->choice({"permit", "deny", "alternate", "hash"}));
    classbench.match_flags = options.boolean_or("match-flags", false);

    if (const auto list = options.find("rules")) classify::load_yaml_rules(*list, rules_);
    if (const auto files = options.find("file"))
        for (const Config& file : files->items())
            classify::load_text_rules(read_file(file.path(), file.where()), file.path(), rules_);
    if (const auto files = options.find("classbench"))
        for (const Config& file : files->items())
            classify::load_classbench(read_file(file.path(), file.where()), file.path(), classbench, rules_);
}

void FirewallHost::build(const Config& options, classify::Searcher searcher) {
    Firewall::Tables& tables = image_.start<Firewall::Tables>();
    tables.default_outcome = outcome_or(options, "default", Firewall::kDeny);
    tables.non_ip_outcome = outcome_or(options, "non-ip", Firewall::kPermit);
    max_acl_rules_ = size_or(options, "max-acl-rules", kDefaultMaxAclRules);
    max_acl_bytes_ = size_or(options, "max-acl", 0);

    const uint64_t max_table = size_or(options, "max-table", kDefaultMaxTable);
    try {
        classify::ClassifierBuilder builder(rules_, max_table, engine_of(options), searcher);
        choices_ = {builder.ipv4_choice(), builder.ipv6_choice()};
        table_bytes_ = builder.bytes();
        ipv4_boxes_ = builder.ipv4_boxes();
        ipv6_boxes_ = builder.ipv6_boxes();
        builder.attach(image_, tables.classifier);
    } catch (const classify::TablesTooLarge&) {
        options.fail(
            fmt::format("the tables of these {} rules take more than {}", rules_.rules.size(), bytes_text(max_table)),
            "allow more with 'max-table: 4Gi', take another 'engine', or use fewer rules");
    }
    std::vector<uint8_t> actions;
    for (const classify::Rule& rule : rules_.rules)
        actions.push_back(
            static_cast<uint8_t>(rule.action == classify::Action::permit ? Firewall::kPermit : Firewall::kDeny));
    if (!actions.empty()) image_.attach(tables.actions, std::move(actions));
}

/// ClassBench asks for ports of protocols that have none. Such rules are kept, and never match a packet.
void FirewallHost::warn_of_ports_never_seen() const {
    size_t count = 0;
    uint32_t first = 0;
    for (const classify::Box& box : rules_.boxes) {
        if (!ports_never_seen(box)) continue;
        if (count++ == 0) first = box.rule;
    }
    if (count == 0) return;
    const classify::Rule& rule = rules_.rules[first];
    warn_(
        {{rules_.files[rule.file], rule.line, 1},
         fmt::format("{} rules, of which this is the first, ask for ports of a protocol other than TCP and UDP", count),
         "no packet matches them",
         Diagnostic::Severity::warning});
}

bool FirewallHost::needs_whole_packets() const {
    return std::ranges::any_of(rules_.boxes, [](const classify::Box& box) {
        return !box.src_port.any() || !box.dst_port.any() || !box.tcp_flags.any();
    });
}

bool FirewallHost::reads_connections() const {
    return std::ranges::any_of(rules_.boxes, [](const classify::Box& box) { return !box.connections.any(); });
}

bool FirewallHost::takes_uncut() const {
    constexpr uint8_t kOfSome = tcp::kFin | tcp::kPsh | tcp::kCwr, kOfNone = tcp::kSyn | tcp::kRst;
    return std::ranges::none_of(rules_.boxes, [](const classify::Box& box) {
        return (box.tcp_flags.mask & kOfSome) != 0 && (box.tcp_flags.mask & box.tcp_flags.value & kOfNone) == 0;
    });
}

void FirewallHost::compile_acl() {
    const auto without = [&](const std::string& why, const std::string& hint) {
        warn_({where_, why + "; the CPU searches like the devices instead", hint, Diagnostic::Severity::warning});
    };
    const size_t most = std::max(ipv4_boxes_, ipv6_boxes_);
    if (most > max_acl_rules_) {
        without(fmt::format("rte_acl may take minutes and gigabytes to compile {} rules", most),
                fmt::format("set 'max-acl-rules: {}' to let it", most));
        return;
    }
    start_eal();  // that DPDK does not start is no matter of these rules
    try {
        acl_ = std::make_shared<const classify::Acl>(rules_, max_acl_bytes_);
    } catch (const std::runtime_error& error) {
        without(error.what(),
                max_acl_bytes_ > 0 ? "allow more with 'max-acl'" : "give DPDK more memory, or set 'max-acl-rules: 0'");
    }
}

std::unique_ptr<CpuHalf> FirewallHost::make_cpu_half() {
    const std::lock_guard lock(acl_mutex_);
    if (!acl_tried_) compile_acl();
    acl_tried_ = true;
    if (!acl_) return nullptr;
    return make_acl_half(acl_, *static_cast<const Firewall::Tables*>(image_.tables()));
}

std::string FirewallHost::explain(const Decision& decision) const {
    if (decision.detail != kNoDetail) return rules_.describe(decision.detail);
    return fmt::format("no rule: {}", kActions[decision.outcome == Firewall::kPermit ? 0 : 1]);
}

std::vector<Statistic> FirewallHost::statistics() const {
    size_t denying = 0;
    for (const classify::Rule& rule : rules_.rules) denying += rule.action == classify::Action::deny ? 1 : 0;
    return {{"rules", rules_.rules.size(), "rules loaded"},
            {"deny-rules", denying, "of them, rules that deny"},
            {"ipv4-boxes", ipv4_boxes_, "combinations of listed values that hold for IPv4"},
            {"ipv6-boxes", ipv6_boxes_, "combinations of listed values that hold for IPv6"},
            {"table-bytes", image_.array_bytes(), "memory of the search tables"}};
}

std::string FirewallHost::summary() const {
    const auto& tables = *static_cast<const Firewall::Tables*>(image_.tables());
    std::string engines;
    const size_t boxes[] = {ipv4_boxes_, ipv6_boxes_};
    for (size_t i = 0; i < 2; ++i)
        if (boxes[i] > 0) engines += fmt::format("; IPv{} by {}", i == 0 ? 4 : 6, choices_[i].text());
    return fmt::format("{} rules ({} boxes for IPv4, {} for IPv6), {} of tables; else {}, not IP {}{}",
                       rules_.rules.size(), ipv4_boxes_, ipv6_boxes_, bytes_text(table_bytes_),
                       kActions[tables.default_outcome], kActions[tables.non_ip_outcome], engines);
}

namespace {
const Register<Firewall, FirewallHost> registration{{
    .name = "firewall",
    .summary = "permits or denies packets by the first of its rules that matches",
    .outcomes = {{"permit", Disposition::next, "the first rule that matches permits, or the default does"},
                 {"deny", Disposition::drop, "the first rule that matches denies, or the default does"}},
    .device_header = "millrace/nf/firewall/device.hpp",
    .device_struct = "millrace::nf::firewall::Firewall",
    .has_cpu_half = true,
    .shareable = true,
}};
}  // namespace

}  // namespace millrace::nf::firewall
