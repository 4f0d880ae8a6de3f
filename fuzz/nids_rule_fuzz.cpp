// Any text as a rule file, and any bytes as a packet's payload: nothing may crash, and all lanes agree. Whatever rules
// ask of flows, and leave with them, stays within what a flow has.
#include <cstdlib>

#include "fuzz/entry.hpp"
#include "millrace/nf/nids/compile/compiled_rules.hpp"
#include "millrace/nf/nids/device.hpp"
#include "millrace/nf/nids/flows/numbers.hpp"
#include "millrace/nf/nids/rules/rule_files.hpp"

namespace nids_rule_fuzz {

using namespace millrace;

void ask_of_flow(const nf::nids::CompiledRules& compiled, const Packet& packet) {
    nf::Image image;
    auto& asked = image.start<nf::nids::StateTables>();
    compiled.state.attach(image, asked);
    std::vector<uint32_t> bits(compiled.state.names.bits.size() / 32 + 1);
    std::vector<uint32_t> words(
        nf::nids::NumbersOfFlow::words_for(static_cast<uint32_t>(compiled.state.names.ints.size())));
    const bool of_tcp = packet.layers().is_tcp();
    const nf::nids::NumbersOfFlow numbers(words.data(), of_tcp);
    for (const bool from_client : {true, false})
        if (of_tcp) numbers.take_segment(packet, from_client, nf::flows::Tcp::established);
    const nf::nids::StateOfFlow left(nf::nids::BitsOfFlow(bits.data()), numbers), none({}, {});
    for (const nf::nids::StateRule& rule : asked.rules) {
        if (left.allow(asked, rule)) left.take(asked, rule);
        none.take(asked, rule);
        for (uint32_t i = 0; i < rule.ops; ++i)
            if (nf::nids::asks(asked.ops[rule.first_op + i].verb) && none.allow(asked, rule)) std::abort();
    }
}

MILLRACE_FUZZER(nids_rule)(const uint8_t* data, size_t size) {
    static const nf::nids::Variables variables = nf::nids::Variables::defaults();
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    // The rules end at a zero byte; what follows is a frame.
    const size_t end = std::min(input.find('\0'), size);
    nf::nids::RuleFile file = nf::nids::parse_rules(input.substr(0, end), "fuzz", variables);
    nf::nids::CompiledRules compiled;
    try {
        compiled = nf::nids::compile(std::move(file.rules), true);
    } catch (const ConfigError&) {
        return 0;
    }
    nf::Image image;
    compiled.attach(image);
    const auto& tables = *static_cast<const nf::nids::NidsTables*>(image.tables());
    std::vector<uint8_t> frame(input.begin() + static_cast<ptrdiff_t>(std::min(end + 1, size)), input.end());
    if (frame.size() > 9000) frame.resize(9000);
    Packet packet;
    packet.attach(frame.data(), static_cast<uint32_t>(frame.size()), static_cast<uint32_t>(frame.size()), 0, 0);
    packet.parse();
    const Decision one = nf::nids::Nids::process(packet, tables, Lanes<1>{});
    const Decision many = nf::nids::Nids::process(packet, tables, Lanes<32>{});
    if (!(one == many)) std::abort();
    ask_of_flow(compiled, packet);
    return 0;
}

}  // namespace nids_rule_fuzz
