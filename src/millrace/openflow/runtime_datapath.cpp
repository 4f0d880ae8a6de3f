#include "millrace/openflow/runtime_datapath.hpp"

#include "millrace/exec/worker/worker.hpp"
#include "millrace/nf/switch/device.hpp"

namespace millrace::openflow {

std::vector<PortView> RuntimeDatapath::ports() const {
    std::vector<PortView> views;
    const flow_switch::PortNumbers numbers = control_->ports();
    for (const auto& [number, index] : numbers.by_number()) {
        const io::Port& port = *runtime_.ports()[index];
        const io::PortCounters counters = port.counters();
        const io::LinkState link = port.link();
        const auto drops = [&](io::PortDrop drop) {
            const auto found = counters.drops.find(io::drop_name(drop));
            return found == counters.drops.end() ? uint64_t{0} : found->second;
        };
        PortView view{number, port.name(), port.mac(), link.up, link.speed_mbps};
        view.received_packets = counters.received_packets;
        view.received_bytes = counters.received_bytes;
        view.sent_packets = counters.sent_packets;
        view.sent_bytes = counters.sent_bytes;
        view.receive_errors = drops(io::PortDrop::receive_error) + drops(io::PortDrop::read_error);
        view.receive_drops = counters.receive_drops() - view.receive_errors;
        view.send_errors = drops(io::PortDrop::tx_error) + drops(io::PortDrop::write_error);
        view.send_drops = counters.send_drops() - view.send_errors;
        views.push_back(std::move(view));
    }
    return views;
}

Lookups RuntimeDatapath::lookups() const {
    using flow_switch::Switch;
    Lookups lookups;
    for (const auto& worker : runtime_.workers())
        for (const exec::ChainCounters* chain : worker->counters()) {
            if (chain->chain != chain_) continue;
            for (const auto& node : chain->nodes) {
                if (node->name != node_ || node->by_outcome.size() <= Switch::kMalformed) continue;
                const uint64_t packets = node->packets.get();
                lookups.all += packets;
                lookups.matched += packets - node->by_outcome[Switch::kMiss].get() -
                                   node->by_outcome[Switch::kMalformed].get();
            }
        }
    return lookups;
}

bool RuntimeDatapath::inject(ByteView frame, uint16_t in_port, uint16_t out_port) {
    const auto configuration = runtime_.configuration();
    const chain::Program* const program = configuration->find_chain(chain_);
    return program != nullptr && runtime_.inject(program->index, frame, in_port, out_port);
}

}  // namespace millrace::openflow
