#include "millrace/chain/head.hpp"

#include <filesystem>
#include <stdexcept>

namespace millrace::chain {

void read_devices(const Config& root, const LoadOptions& options, Configuration& result) {
    if (const auto device = root.find("device")) {
        std::string text;
        for (const Config& name : device->items()) text += (text.empty() ? "" : "+") + name.text();
        try {
            result.runs_on = parse_device_names(text);
        } catch (const std::invalid_argument& e) {
            device->fail(e.what(), "such as 'device: cuda', 'device: [cuda:0, cuda:1]' or 'device: [cuda, cpu]'");
        }
    }
    if (!options.device.empty()) result.runs_on = parse_device_names(options.device);
    result.device = text_of(result.runs_on);
}

void read_idle(const Config& root, Configuration& result) {
    if (const auto idle = root.find("idle"))
        result.idle = idle->choice({"sleep", "poll"}) == 0 ? Idle::sleep : Idle::poll;
}

void read_sharing(const Config& root, Configuration& result) {
    const auto sharing = root.find("sharing");
    if (!sharing) return;
    const std::vector<std::string> words(std::begin(schedule::kSharingNames), std::end(schedule::kSharingNames));
    result.sharing = schedule::kSharings[sharing->choice(words)];
}

void read_admission(const Config& root, Configuration& result) {
    if (const auto admission = root.find("admission"))
        result.admission = admission->choice({"refuse", "warn"}) == 0 ? Admission::refuse : Admission::warn;
}

void read_socket(const Config& root, Configuration& result) {
    constexpr size_t kMaxBytes = 107;  // of Linux
    const auto socket = root.find("socket");
    if (!socket) return;
    result.socket = socket->text();
    if (result.socket == "none") return;
    if (result.socket.empty()) socket->fail("a path is missing here", "'socket: none' is none");
    result.socket = (std::filesystem::path(result.output_folder) / result.socket).lexically_normal().string();
    if (result.socket.size() > kMaxBytes)
        socket->fail("the path of a socket has at most " + std::to_string(kMaxBytes) + " bytes",
                     "name one in a folder further up, such as /run/millrace.sock");
    FileLedger::note_here(FileLedger::Use::write, result.socket, socket->where());
}

}  // namespace millrace::chain
