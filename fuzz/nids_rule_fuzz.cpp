// Any text as a rule file, and any bytes as a packet's payload: nothing may crash, and all lanes agree.
#include <cstdlib>

#include "millrace/nf/nids/compile/compiled_rules.hpp"
#include "millrace/nf/nids/device.hpp"
#include "millrace/nf/nids/rules/rule_files.hpp"

using namespace millrace;

extern "C" int LLVMFuzzerTestOneInput(const uint8_t* data, size_t size) {
    static const nf::nids::Variables variables = nf::nids::Variables::defaults();
    const std::string_view input(reinterpret_cast<const char*>(data), size);
    // The rules end at a zero byte; what follows is a frame.
    const size_t end = std::min(input.find('\0'), size);
    nf::nids::RuleFile file = nf::nids::parse_rules(input.substr(0, end), "fuzz", variables);
    nf::nids::CompiledRules compiled = nf::nids::compile(std::move(file.rules), true);
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
    return 0;
}
