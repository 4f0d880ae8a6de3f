#include "millrace/nf/router/kernel/kernel_router.hpp"

#include <linux/if.h>

#include <algorithm>
#include <fstream>
#include <string>
#include <vector>

#include "millrace/nf/router/cpu.hpp"
#include "millrace/nf/router/device.hpp"

namespace millrace::nf::router {
namespace {

using namespace std::chrono_literals;

constexpr uint32_t kMain = 254, kLocal = 255;
/// A change that comes alone is at work at once; of many that come one by one some go together.
constexpr auto kLeastPause = 5ms;
/// So many times as long as a snapshot took there is none, but not for longer than this.
constexpr int kRest = 4;
constexpr auto kMaxRest = 100ms;

uint32_t read_table(const Config& value) {
    if (value.text() == "main") return kMain;
    const auto number = static_cast<uint32_t>(value.integer(1, UINT32_MAX));
    if (number == kLocal) value.fail("table 255 has the host's own addresses, and is always followed", "leave it out");
    return number;
}

std::string interface_name(const Config& key) {
    const std::string name = key.text();
    if (name.empty() || name.size() >= IFNAMSIZ || name.find_first_of("/: \t\n") != std::string::npos)
        key.fail("'" + name + "' is no name of a network interface", "at most 15 characters, without blanks");
    return name;
}

/// Linux takes part: it sends the first packets to each neighbour, and tells senders of errors.
void warn_of_forwarding(const Config& kernel, const Reporter& warn) {
    const auto is_set = [](std::string name) {
        std::ranges::replace(name, '.', '/');
        std::ifstream file("/proc/sys/" + name);
        char value = 0;
        return (file >> value) && value != '0';
    };
    std::vector<std::string> unset;
    if (!is_set("net.ipv4.ip_forward")) unset.emplace_back("net.ipv4.ip_forward");
    const bool has_ipv6 = std::ifstream("/proc/sys/net/ipv6/conf/all/disable_ipv6").good();
    if (has_ipv6 && !is_set("net.ipv6.conf.all.disable_ipv6") && !is_set("net.ipv6.conf.all.forwarding"))
        unset.emplace_back("net.ipv6.conf.all.forwarding");
    for (const std::string& name : unset)
        warn(kernel.diagnostic(
            "Linux does not forward, and so the first packets to each neighbour are lost (" + name + " is 0)",
            "sysctl -w " + name + "=1"));
}

}  // namespace

KernelOptions read_kernel_options(const Config& options, const std::vector<std::string>& ports,
                                  const std::vector<std::pair<std::string, uint16_t>>& linux_ports) {
    KernelOptions result;
    if (options.is_scalar()) {
        if (!options.boolean()) options.fail("'kernel: false' is not known", "give the router 'routes:' or a 'file:'");
    } else {
        options.only({"table", "interfaces"});
        if (const auto table = options.find("table")) result.table = read_table(*table);
    }
    if (options.is_scalar() || !options.has("interfaces")) {
        if (linux_ports.empty())
            options.fail("no interface of Linux' stands for a port",
                         "add 'linux: NAME' to the ports: a tap of that name is made for each");
        result.interfaces = linux_ports;
        return result;
    }
    const Config interfaces = options.at("interfaces");
    for (const auto& [key, value] : interfaces.entries()) {
        const std::string name = interface_name(key);
        const auto port = static_cast<uint16_t>(value.choice(ports));
        for (const auto& [other, its_port] : result.interfaces)
            if (its_port == port) value.fail("port '" + ports[port] + "' stands for '" + other + "' already");
        result.interfaces.emplace_back(name, port);
    }
    if (result.interfaces.empty())
        interfaces.fail("an interface is missing here",
                        "such as 'lan0: lan': a Linux interface, and the port it stands for");
    return result;
}

KernelRouter::KernelRouter(const Config& options, const Environment& environment) {
    options.only({"kernel"});
    const Config kernel = options.at("kernel");
    options_ = read_kernel_options(kernel, environment.ports, environment.linux_ports);
    if (environment.live) {
        const auto* previous = dynamic_cast<const KernelRouter*>(environment.previous);
        if (previous != nullptr && previous->watch_ != nullptr && previous->options_ == options_) {
            watch_ = previous->watch_;
            generations_ = previous->generations_;
        } else {
            try {
                watch_ = std::make_shared<KernelWatch>(options_, kernel.where(), environment.warn);
                warn_of_forwarding(kernel, environment.warn);
            } catch (const std::runtime_error& error) {
                kernel.fail(error.what());
            }
        }
        snapshot_ = watch_->snapshot();
    }
    make_image();
}

KernelRouter::KernelRouter(const KernelRouter& previous, KernelSnapshot snapshot)
    : options_(previous.options_), watch_(previous.watch_), snapshot_(std::move(snapshot)),
      generations_(previous.generations_ + 1) {
    make_image();
}

void KernelRouter::make_image() {
    RouterTables& tables = image_.start<RouterTables>();
    tables.kernel_host = 1;
    if (watch_ == nullptr) return;
    const auto attach = [this](auto& view, const auto& owner, const auto& array,
                               std::shared_ptr<const Revision> revision = {}) {
        using Array = std::remove_reference_t<decltype(array)>;
        if (!array.empty()) image_.attach(view, std::shared_ptr<Array>(owner, &array), std::move(revision));
    };
    attach(tables.prefixes.ipv4_root, snapshot_.ipv4, snapshot_.ipv4->root, snapshot_.ipv4->root_revision);
    attach(tables.prefixes.ipv4_groups, snapshot_.ipv4, snapshot_.ipv4->groups, snapshot_.ipv4->groups_revision);
    attach(tables.prefixes.ipv6_root, snapshot_.ipv6, snapshot_.ipv6->root, snapshot_.ipv6->root_revision);
    attach(tables.prefixes.ipv6_groups, snapshot_.ipv6, snapshot_.ipv6->groups, snapshot_.ipv6->groups_revision);
    attach(tables.targets, snapshot_.forwarding, snapshot_.forwarding->targets);
    attach(tables.members, snapshot_.forwarding, snapshot_.forwarding->members);
    attach(tables.next_hops, snapshot_.forwarding, snapshot_.forwarding->next_hops);
    attach(tables.port_macs, snapshot_.forwarding, snapshot_.forwarding->port_macs);
}

std::shared_ptr<NetworkFunction> KernelRouter::next() {
    if (watch_ == nullptr || !watch_->is_newer_than(snapshot_)) return nullptr;
    const auto begin = Clock::now();
    if (begin < next_at_) return nullptr;
    auto made = std::make_shared<KernelRouter>(*this, watch_->snapshot());
    const auto end = Clock::now();
    made->next_at_ = end +
                     std::max<Clock::duration>(kLeastPause, std::min<Clock::duration>(kMaxRest, kRest * (end - begin)));
    return made;
}

std::unique_ptr<CpuHalf> KernelRouter::make_cpu_half() {
    // DPDK's tables would have to be made anew for each change.
    return make_cpu_router(*static_cast<const RouterTables*>(image_.tables()), nullptr);
}

std::string KernelRouter::explain(const Decision& decision) const {
    const bool is_sent = decision.outcome == Router::kForward || decision.outcome == Router::kTooBig;
    if (!is_sent || snapshot_.forwarding == nullptr || decision.detail >= snapshot_.forwarding->names.size()) return {};
    return "via " + snapshot_.forwarding->names[decision.detail];
}

std::vector<Statistic> KernelRouter::statistics() const {
    const KernelWatch::Counts counts = watch_ != nullptr ? watch_->counts() : KernelWatch::Counts{};
    return {
        {"routes-ipv4", snapshot_.prefixes4, "IPv4 prefixes that are looked up, own addresses and neighbours included"},
        {"routes-ipv6", snapshot_.prefixes6, "IPv6 prefixes that are looked up, own addresses and neighbours included"},
        {"kernel-routes", counts.routes, "routes of the kernel, those that others override included"},
        {"neighbours", counts.neighbours, "neighbours whose MAC address is known"},
        {"next-hops", snapshot_.forwarding != nullptr ? snapshot_.forwarding->next_hops.size() : 0,
         "neighbours that packets are sent to"},
        {"generations", generations_, "times that changes of the kernel came to work"},
        {"resyncs", counts.resyncs, "times that the kernel was asked for everything again"},
        {"malformed-messages", counts.malformed, "messages of the kernel that could not be read"},
        {"table-bytes", image_.array_bytes(), "memory that the tables take on a device"}};
}

std::string KernelRouter::summary() const {
    std::string names;
    for (const auto& [name, port] : options_.interfaces) names += (names.empty() ? "" : ", ") + name;
    const std::string table = options_.table == kMain ? "main" : std::to_string(options_.table);
    std::string text = "follows the kernel's table " + table + " for " + names;
    if (watch_ != nullptr)
        text += ": " + std::to_string(snapshot_.prefixes4) + " IPv4 and " + std::to_string(snapshot_.prefixes6) +
                " IPv6 routes";
    return text;
}

}  // namespace millrace::nf::router
