// Any bytes as a flow, as a group and as a meter: one, or a mistake within the line; and a flow that was read runs on a
// packet.
#include <cstdlib>

#include "fuzz/entry.hpp"
#include "millrace/nf/nf.hpp"
#include "millrace/nf/switch/text/flow_parser.hpp"
#include "millrace/nf/variant.hpp"

namespace flow_fuzz {

using namespace millrace;
using namespace millrace::nf::flow_switch;

const std::vector<std::string> kPorts = {"lan", "wan", "dmz"};

/// A frame that a good part of all flows matches: tagged UDP over IPv4 from 10.0.0.1 port 9 to 10.0.0.2 port 7.
constexpr uint8_t kFrame[] = {2,  0,    0, 0, 0,  2, 2, 0, 0, 0,  0,  1,    0x81, 0,  0, 5, 8,
                              0,  0x45, 0, 0, 32, 0, 1, 0, 0, 64, 17, 0x66, 0xca, 10, 0, 0, 1,
                              10, 0,    0, 2, 0,  9, 0, 7, 0, 12, 0,  0,    1,    2,  3, 4};

void run(const std::string& flow) {
    nf::Environment environment{.node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kPorts};
    const nf::Type* type = nf::find_type("switch");
    std::string quoted;
    for (const char c : flow) quoted += c == '\'' ? std::string("''") : std::string(1, c);
    std::unique_ptr<nf::NetworkFunction> made;
    try {
        made = type->create(Config::parse("{engine: linear, flows: ['" + quoted + "']}"), environment);
    } catch (const ConfigError&) {
        return;  // YAML has its own view of some bytes; a group may be missing
    }
    type = &nf::type_of(*type, *made);
    constexpr size_t kRoom = 64;
    uint8_t buffer[kRoom + sizeof kFrame];
    __builtin_memcpy(buffer + kRoom, kFrame, sizeof kFrame);
    Packet packet;
    packet.attach(buffer + kRoom, sizeof kFrame, sizeof kFrame, type->head_growth, 0);
    packet.set_in_port(0);
    packet.parse();
    const Decision decision = type->process_with(8)(packet, made->image().tables());
    if (decision.outcome >= type->outcomes.size()) std::abort();
    if (decision.outcome == 0 && packet.out_port() >= kPorts.size() && !is_port_set(packet.out_port())) std::abort();
}

MILLRACE_FUZZER(flow)(const uint8_t* data, size_t size) {
    const std::string_view line(reinterpret_cast<const char*>(data), size);
    const PortNumbers ports(kPorts);
    try {
        parse_group(line, ports);
    } catch (const nf::classify::WordMistake& mistake) {
        if (mistake.offset > size || mistake.message.empty()) std::abort();
    }
    try {
        parse_meter(line);
    } catch (const nf::classify::WordMistake& mistake) {
        if (mistake.offset > size || mistake.message.empty()) std::abort();
    }
    try {
        const Flow flow = parse_flow(line, ports);
        run(std::string(line));
    } catch (const nf::classify::WordMistake& mistake) {
        if (mistake.offset > size || mistake.message.empty()) std::abort();
    }
    return 0;
}

}  // namespace flow_fuzz
