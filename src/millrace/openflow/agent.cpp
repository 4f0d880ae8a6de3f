#include "millrace/openflow/agent.hpp"

#include <poll.h>
#include <rte_mbuf.h>
#include <spdlog/spdlog.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>
#include <exception>

#include "millrace/nf/switch/device.hpp"
#include "millrace/openflow/peer.hpp"
#include "millrace/openflow/runtime_datapath.hpp"

namespace millrace::openflow {
namespace {

using Clock = std::chrono::steady_clock;
using flow_switch::Control;
using flow_switch::PuntedPacket;

/// Workers do not wake the agent, as that would take them a system call: it looks itself.
constexpr int kTurnMs = 1, kIdleTurnMs = 20;
/// Changes that no barrier waits for are brought in so often at most, all that have come meanwhile at once.
constexpr auto kBetweenChanges = std::chrono::milliseconds(1);
constexpr unsigned kPacketsAtOnce = 256;

PacketInReason reason_of(const PuntedPacket& punted) {
    if (punted.outcome == flow_switch::Switch::kTtlExpired) return PacketInReason::invalid_ttl;
    return punted.table_miss != 0 || punted.outcome == flow_switch::Switch::kMiss ? PacketInReason::no_match
                                                                                  : PacketInReason::action;
}

}  // namespace

Agent::Agent(std::unique_ptr<Datapath> datapath, const std::vector<flow_switch::ControllerAddress>& controllers,
             const std::shared_ptr<const TlsContext>& tls)
    : datapath_(std::move(datapath)), roles_(std::make_unique<Roles>()),
      progress_(std::make_unique<Socket>(::eventfd(0, EFD_NONBLOCK | EFD_CLOEXEC))) {
    for (const flow_switch::ControllerAddress& controller : controllers)
        peers_.push_back(std::make_unique<Peer>(controller, *datapath_, *roles_, tls));
    datapath_->control().listen(true);
    datapath_->control().on_progress([socket = progress_->get()] { ::eventfd_write(socket, 1); });
    thread_ = std::thread([this] { run(); });
}

Agent::~Agent() {
    stopping_ = true;
    thread_.join();
    datapath_->control().on_progress({});
    datapath_->control().listen(false);
    for (PuntedPacket left; datapath_->control().punts().take(left);) rte_pktmbuf_free(left.packet);
}

uint16_t Agent::listens_on() const {
    for (const auto& peer : peers_)
        if (const uint16_t port = peer->listens_on(); port != 0) return port;
    return 0;
}

void Agent::run() {
    Clock::time_point ports_seen{};
    eventfd_t progress = 0;
    while (!stopping_) {
        std::vector<pollfd> sockets = {{progress_->get(), POLLIN, 0}};
        bool connected = false;
        for (const auto& peer : peers_) connected |= peer->prepare(Clock::now(), sockets);
        ::poll(sockets.data(), sockets.size(), connected ? kTurnMs : kIdleTurnMs);
        if (sockets.front().revents != 0) ::eventfd_read(progress_->get(), &progress);
        for (const auto& peer : peers_) peer->work(Clock::now(), sockets);
        bring_in_changes();
        pass_on_packets();
        for (const flow_switch::RemovedFlow& removed : datapath_->control().take_removed())
            for (const auto& peer : peers_)
                peer->for_each_session([&](Session& session) { session.flow_removed(removed); });
        if (Clock::now() - ports_seen >= std::chrono::milliseconds(500)) {
            ports_seen = Clock::now();
            watch_ports();
        }
    }
}

void Agent::bring_in_changes() {
    const Control& control = datapath_->control();
    const Clock::time_point now = Clock::now();
    if (now - brought_in_ < kBetweenChanges || control.progress(control.version()) != Control::Progress::waits) return;
    datapath_->hurry();
    brought_in_ = Clock::now();
}

void Agent::pass_on_packets() {
    const flow_switch::PortNumbers ports = datapath_->control().ports();
    Control::Traffic& traffic = datapath_->control().traffic();
    PuntedPacket punted;
    for (unsigned i = 0; i < kPacketsAtOnce && datapath_->control().punts().take(punted); ++i) {
        const rte_mbuf* const packet = punted.packet;
        const uint32_t in_port = packet->port < ports.count() ? ports.number(packet->port) : port::kController;
        const PacketIn message{{rte_pktmbuf_mtod(packet, const uint8_t*), packet->data_len},
                               in_port,
                               reason_of(punted),
                               punted.cookie,
                               static_cast<uint8_t>(punted.table)};
        bool taken = false;
        for (const auto& peer : peers_)
            peer->for_each_session([&](Session& session) { taken |= session.packet_in(message); });
        ++(taken ? traffic.packet_ins : traffic.lost_packet_ins);
        rte_pktmbuf_free(punted.packet);
    }
}

/// Tells the controllers of links that came up or went down, of addresses that changed, and of ports that have a number
/// now, or none any more.
void Agent::watch_ports() {
    std::map<uint32_t, PortView> now;
    for (PortView& port : datapath_->ports()) now.emplace(port.number, std::move(port));
    const auto tell = [&](const PortView& port, PortChange change) {
        for (const auto& peer : peers_)
            peer->for_each_session([&](Session& session) { session.port_changed(port, change); });
    };
    if (last_ports_) {
        for (const auto& [number, before] : *last_ports_)
            if (!now.contains(number)) tell(before, PortChange::removed);
        for (const auto& [number, port] : now) {
            const auto before = last_ports_->find(number);
            if (before == last_ports_->end()) tell(port, PortChange::added);
            else if (before->second.up != port.up || before->second.speed_mbps != port.speed_mbps ||
                     before->second.mac != port.mac)
                tell(port, PortChange::modified);
        }
    }
    last_ports_ = std::move(now);
}

/// The agent for a switch: the one that there is, or a new one.
std::unique_ptr<Agent> Agents::agent_for(const Entry& wanted, const std::string& chain, const std::string& node) {
    const auto same = std::find_if(agents_.begin(), agents_.end(),
                                   [&](const Entry& other) { return other.control == wanted.control; });
    if (same != agents_.end() && same->address == wanted.address && same->agent != nullptr)
        return std::move(same->agent);
    if (same != agents_.end()) same->agent.reset();  // it may listen on the same port
    return std::make_unique<Agent>(std::make_unique<RuntimeDatapath>(runtime_, wanted.control, chain, node),
                                   wanted.address.controllers, wanted.address.tls);
}

void Agents::watch_links() {
    std::vector<bool> down;
    for (const auto& program : runtime_.configuration()->chains) {
        for (const chain::Node& node : program->nodes) {
            const auto* const controllable = dynamic_cast<const flow_switch::Controllable*>(node.nf.get());
            if (controllable == nullptr || !controllable->control()->watches_links()) continue;
            if (down.empty())
                for (const auto& port : runtime_.ports()) down.push_back(!port->link().up);
            controllable->control()->set_down(down);
        }
    }
}

void Agents::follow() {
    std::vector<Entry> next;
    std::exception_ptr trouble;
    const auto configuration = runtime_.configuration();
    for (const auto& program : configuration->chains) {
        for (const chain::Node& node : program->nodes) {
            const auto* const controllable = dynamic_cast<const flow_switch::Controllable*>(node.nf.get());
            if (controllable == nullptr || controllable->wanted_address().controllers.empty()) continue;
            Entry entry{controllable->control(), controllable->wanted_address(), nullptr};
            try {
                entry.agent = agent_for(entry, program->name, node.name);
                next.push_back(std::move(entry));
            } catch (const std::runtime_error&) {
                trouble = std::current_exception();  // the others shall go on
            }
        }
    }
    agents_ = std::move(next);
    if (trouble) std::rethrow_exception(trouble);
}

}  // namespace millrace::openflow
