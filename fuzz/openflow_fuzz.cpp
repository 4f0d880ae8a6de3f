// Any bytes from a controller: answers in whole messages, no more than the conversation deserves, and flows that the
// switch can have.
#include <cstdlib>

#include "fuzz/entry.hpp"
#include "millrace/openflow/session/session.hpp"
#include "millrace/openflow/wire/actions.hpp"

namespace openflow_fuzz {

using namespace millrace;
using namespace millrace::openflow;

class Fake : public Datapath {
public:
    Fake() : control_(flow_switch::PortNumbers({"lan", "wan", "dmz"}), {}, flow_switch::Flow::kMaxFlows, 0, true) {}
    flow_switch::Control& control() override { return control_; }
    std::vector<PortView> ports() const override { return {{1, "lan"}, {2, "wan"}, {3, "dmz"}}; }
    Lookups lookups() const override { return {}; }
    bool inject(ByteView frame, uint16_t in_port, uint16_t out_port) override {
        if (frame.size() > 65535 || (in_port >= 3 && in_port != kNoPort)) std::abort();
        if (out_port >= 3 && out_port != kNoPort && !is_port_set(out_port)) std::abort();
        return true;
    }

private:
    flow_switch::Control control_;
};

/// What was sent must be messages from end to end.
void check_output(const Bytes& output) {
    size_t at = 0;
    while (at < output.size()) {
        if (output.size() - at < kHeaderBytes || output[at] != kVersion) std::abort();
        const size_t length = static_cast<size_t>(output[at + 2]) << 8 | output[at + 3];
        if (length < kHeaderBytes || length > output.size() - at) std::abort();
        at += length;
    }
}

/// What a controller has put in comes out as a match and actions that read the same.
void check_flows(flow_switch::Control& control) {
    const flow_switch::PortNumbers ports = control.ports();
    for (const flow_switch::FlowEntry& entry : control.flows({}, {})) {
        Bytes bytes;
        Writer writer(bytes);
        write_match(writer, entry.flow.match, ports);
        Reader reader(bytes, error::match_length);
        flow_switch::Flow again = entry.flow;
        again.match = read_match(reader, ports);
        again.set_table(entry.flow.table());
        if (identity_of(again) != identity_of(entry.flow) || text_of(entry.flow, ports).empty()) std::abort();
        bytes.clear();
        again.file = 0;
        write_instructions(writer, again, ports);
        if (read_instructions(bytes, again.table(), again.match, ports) != again.actions) std::abort();
    }
}

MILLRACE_FUZZER(openflow)(const uint8_t* data, size_t size) {
    Fake datapath;
    Roles roles;
    Session session(datapath, roles);
    // In two pieces, as a socket may bring it; in between everything that was changed is at work.
    const size_t first = size / 2;
    bool alive = true;
    for (const ByteView piece : {ByteView(data, first), ByteView(data + first, size - first), ByteView()}) {
        if (alive) alive = session.receive(piece);
        datapath.control().at_work(datapath.control().version(), nullptr);
        for (int i = 0; i < 100 && alive; ++i) alive = session.iterate();
        for (const flow_switch::RemovedFlow& removed : datapath.control().take_removed()) session.flow_removed(removed);
        check_output(session.output());
    }
    check_flows(datapath.control());
    return 0;
}

}  // namespace openflow_fuzz
