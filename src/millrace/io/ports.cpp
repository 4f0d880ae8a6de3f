// From the YAML map `ports:` to ports.
#include <fmt/format.h>
#include <unistd.h>

#include <algorithm>
#include <optional>

#include "millrace/base/files/file_ledger.hpp"
#include "millrace/io/kernel/interface.hpp"
#include "millrace/io/port_plan.hpp"

namespace millrace::io {
namespace {

const std::vector<std::string> kKinds = {"pcap", "output",    "capture", "source", "sink", "null",
                                         "ring", "af_packet", "af_xdp",  "tap",    "dpdk"};
const std::vector<std::string> kShared = {"queues", "buffers", "max-frame"};
constexpr int64_t kMaxQueues = 64;

struct Planned {
    Config value;
    std::string kind;
    OpenPort open;
    std::optional<uint16_t> stands_for;  ///< the port of this number, which is opened first
    std::shared_ptr<uint32_t> port_mtu;
    std::optional<Config> linux = {};  ///< of a port that Linux has an interface for, which another stands for
};

/// The port that a tap is to stand for; never itself.
std::optional<uint16_t> port_behind(const PortPlan& plan, const std::vector<StandIn>& stand_ins) {
    if (plan.info.kind != "tap") return std::nullopt;
    for (const auto& [interface, port] : stand_ins)
        if (interface == plan.value.text() && port != plan.info.index) return port;
    return std::nullopt;
}

/// The entry that says what kind of port it is. A `pcap` with an `output` is one port of kind pcap.
std::pair<Config, Config> find_kind(const Config& name, const Config& options) {
    if (!options.is_map())
        name.fail("port '" + name.text() + "' is not a map", "write it as " + name.text() + ": { pcap: traffic.pcap }");
    std::vector<std::pair<Config, Config>> found;
    std::vector<std::string> keys;
    for (const auto& [key, value] : options.entries()) {
        keys.push_back(key.text());
        if (std::find(kKinds.begin(), kKinds.end(), key.text()) != kKinds.end()) found.emplace_back(key, value);
    }
    if (found.size() == 2 && found[0].first.text() == "output") std::swap(found[0], found[1]);
    if (found.size() == 2 && found[0].first.text() == "pcap" && found[1].first.text() == "output") found.pop_back();
    if (found.size() > 1)
        found[1].first.fail("port '" + name.text() + "' is a '" + found[0].first.text() + "' already",
                            "make it two ports");
    if (!found.empty()) return found[0];
    for (const std::string& key : keys)
        if (const std::string near = closest_word(key, kKinds); !near.empty())
            options.fail("port '" + name.text() + "' does not say what it is",
                         fmt::format("did you mean '{}' by '{}'?", near, key));
    std::string all;
    for (const std::string& kind : kKinds) all += (all.empty() ? "" : ", ") + kind;
    options.fail("port '" + name.text() + "' does not say what it is", "one of " + all);
}

uint64_t memory_of_machine() {
    return static_cast<uint64_t>(sysconf(_SC_PHYS_PAGES)) * static_cast<uint64_t>(sysconf(_SC_PAGESIZE));
}

PortPlan read_shared(const Config& name, const Config& options, uint16_t index, const PortEnvironment& environment) {
    const auto [key, value] = find_kind(name, options);
    PortPlan plan{.info = {},
                  .options = options,
                  .value = value,
                  .pool = {},
                  .warn = environment.warn,
                  .sources = environment.sources,
                  .output_folder = environment.output_folder};
    plan.info.name = name.text();
    plan.info.kind = key.text();
    plan.info.index = index;
    plan.queues = static_cast<uint16_t>(options.integer_or("queues", environment.queues, 1, kMaxQueues));
    plan.max_frame_bytes = static_cast<uint32_t>(
        options.integer_or("max-frame", 0, 64, longest_frame(environment.headroom_bytes)));
    plan.pool.headroom_bytes = std::max<uint32_t>(environment.headroom_bytes, RTE_PKTMBUF_HEADROOM);
    plan.pool.tailroom_bytes = environment.tailroom_bytes;
    plan.pool.packets = environment.pool_packets;
    plan.pool_memory_bytes = environment.pool_memory_bytes;
    if (const auto buffers = options.find("buffers")) {
        const uint64_t count = buffers->size();
        if (count < 64 || count > (uint64_t{1} << 24)) buffers->fail("'buffers' is out of range", "from 64 to 16Mi");
        plan.pool.packets = static_cast<uint32_t>(count);
        plan.buffers_given = true;
        plan.pool_for(plan.max_frame_bytes);  // so many can't be
    }
    return plan;
}

/// What an interface that another one stands for is to have no more: packets would pass Millrace by it.
void warn_of_addresses(const Planned& port, const std::function<void(Diagnostic)>& warn) {
    const std::string interface = port.value.text();
    const std::vector<std::string> addresses = addresses_of(interface);
    if (addresses.empty()) return;
    const std::string stands_in = port.linux->is_map() ? port.linux->at("tap").text() : port.linux->text();
    Diagnostic warning = port.linux->diagnostic(
        fmt::format("Linux has addresses at '{}', which '{}' stands for ({})", interface, stands_in,
                    fmt::join(addresses, ", ")),
        fmt::format("give them to '{1}': 'ip address flush dev {0}', then 'ip address add ADDRESS/LENGTH dev {1}'",
                    interface, stands_in));
    warning.severity = Diagnostic::Severity::warning;
    warn(std::move(warning));
}

OpenPort plan_kind(const PortPlan& plan, RingPlans& rings) {
    const std::string& kind = plan.info.kind;
    if (kind == "pcap" || kind == "output") return plan_pcap(plan);
    if (kind == "capture") return plan_capture(plan);
    if (kind == "source") return plan_source(plan);
    if (kind == "sink") return plan_sink(plan);
    if (kind == "null") return plan_null(plan);
    if (kind == "ring") return rings.plan(plan);
    if (kind == "af_packet") return plan_packet_socket(plan);
    if (kind == "af_xdp") return plan_xdp(plan);
    if (kind == "tap") return plan_tap(plan);
    return plan_ethdev(plan);
}

/// Plans every port and reports the mistakes of all at once.
std::vector<Planned> plan_ports(const Config& ports, const PortEnvironment& environment) {
    std::vector<Planned> planned;
    std::vector<Diagnostic> mistakes;
    RingPlans rings;
    FileLedger files;  // of ports that are no part of a configuration
    std::optional<FileLedger::Scope> scope;
    if (!FileLedger::is_in_scope()) scope.emplace(files);
    const auto entries = ports.entries();
    if (entries.empty()) ports.fail("there are no ports", "name at least one, such as in: { pcap: traffic.pcap }");
    uint16_t index = 0;
    std::map<std::string, std::string> interfaces;  // and whose they are
    for (const auto& [name, options] : entries) {
        try {
            const PortPlan plan = read_shared(name, options, index++, environment);
            if (plan.info.kind == "af_packet" || plan.info.kind == "af_xdp" || plan.info.kind == "tap")
                if (const auto [had, is_new] = interfaces.emplace(plan.value.text(), plan.info.name); !is_new)
                    plan.value.fail("'" + had->first + "' is the interface of port '" + had->second + "' already",
                                    "give each port one of its own");
            planned.push_back({plan.value.is_null() ? options : plan.value, plan.info.kind, plan_kind(plan, rings),
                               port_behind(plan, environment.stand_ins), plan.port_mtu});
            if (plan.info.kind == "af_packet" || plan.info.kind == "af_xdp")
                planned.back().linux = options.find("linux");
        } catch (const ConfigError& e) {
            mistakes.insert(mistakes.end(), e.diagnostics().begin(), e.diagnostics().end());
        }
    }
    if (mistakes.empty()) rings.check_pairs();
    if (!mistakes.empty()) throw ConfigError(std::move(mistakes));
    return planned;
}

}  // namespace

PoolOptions PortPlan::pool_for(uint32_t frame_bytes) const {
    PoolOptions result = pool;
    result.max_frame_bytes = std::min(std::max(frame_bytes, 60u), longest_frame(pool.headroom_bytes));
    const size_t element = sizeof(rte_mbuf) + 128 + result.headroom_bytes + result.max_frame_bytes +
                           result.tailroom_bytes;
    if (buffers_given) {
        const uint64_t wanted = uint64_t{result.packets} * element, all = memory_of_machine();
        constexpr double kGiB = 1 << 30;
        if (wanted > all)
            options.at("buffers").fail(fmt::format("{} buffers of {} bytes take {:.0f} GiB", result.packets, element,
                                                   static_cast<double>(wanted) / kGiB),
                                       fmt::format("this machine has {:.0f} GiB", static_cast<double>(all) / kGiB));
        return result;
    }
    const size_t fit = std::max<size_t>(pool_memory_bytes / element, 512);
    result.packets = static_cast<uint32_t>(std::min<size_t>(result.packets, fit));
    return result;
}

std::string PortPlan::output_path(const Config& output) const { return millrace::output_path(output, output_folder); }

void PortPlan::only(std::vector<std::string> own) const {
    own.push_back(info.kind);
    own.insert(own.end(), kShared.begin(), kShared.end());
    options.only(own);
}

std::vector<std::unique_ptr<Port>> make_ports(const Config& ports, const PortEnvironment& environment) {
    const std::vector<Planned> planned = plan_ports(ports, environment);
    start_eal(environment.eal);
    register_metadata();
    std::vector<std::unique_ptr<Port>> result(planned.size());
    const auto open = [&](size_t i) {
        const Planned& port = planned[i];
        try {
            if (port.stands_for && *port.stands_for < result.size() && result[*port.stands_for] != nullptr)
                *port.port_mtu = result[*port.stands_for]->mtu();
            result[i] = port.open();
            if (port.linux) warn_of_addresses(port, environment.warn);
        } catch (const ConfigError&) {
            throw;
        } catch (const std::exception& e) {
            port.value.fail(e.what());
        }
    };
    for (size_t i = 0; i < planned.size(); ++i)
        if (!planned[i].stands_for) open(i);
    for (size_t i = 0; i < planned.size(); ++i)
        if (planned[i].stands_for) open(i);
    return result;
}

void check_ports(const Config& ports, const PortEnvironment& environment) { plan_ports(ports, environment); }

}  // namespace millrace::io
