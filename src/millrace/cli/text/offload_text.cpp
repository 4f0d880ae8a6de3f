#include "millrace/cli/text/offload_text.hpp"

#include "millrace/io/offload_notes.hpp"

namespace millrace::cli {

std::string offload_text(const Config& ports, bool all) {
    constexpr size_t kMaxPorts = 50;
    std::string text;
    size_t count = 0;
    for (const auto& [name, options] : ports.entries())
        for (const char* const kind : {"af_packet", "af_xdp"}) {
            const auto interface = options.find(kind);
            if (!interface) continue;
            const auto offloads = io::offloads_of(kind, interface->text());
            if (offloads.empty() || ++count > kMaxPorts) continue;
            text += "  port " + name.text() + ", offloads of " + interface->text() + ": " +
                    io::offload_summary(offloads) + "\n";
            for (const io::Offload& offload : offloads)
                if (offload.on && (all || offload.costs)) text += "    " + offload.name + ": " + offload.note + "\n";
        }
    if (count > kMaxPorts) text += "  and " + std::to_string(count - kMaxPorts) + " more ports at interfaces\n";
    return text;
}

}  // namespace millrace::cli
