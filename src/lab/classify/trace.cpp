#include "lab/classify/trace.hpp"

#include <charconv>

#include "millrace/base/files/file.hpp"

namespace millrace::nf::classify {
namespace {

constexpr std::string_view kBlanks = " \t";

/// The numbers of a line; stops where there is none, at `at`.
std::vector<uint64_t> numbers(std::string_view line, size_t& at) {
    std::vector<uint64_t> found;
    for (at = line.find_first_not_of(kBlanks); at < line.size(); at = line.find_first_not_of(kBlanks, at)) {
        uint64_t number = 0;
        const auto [end, error] = std::from_chars(line.data() + at, line.data() + line.size(), number);
        const auto next = static_cast<size_t>(end - line.data());
        if (error != std::errc{} || (next < line.size() && kBlanks.find(line[next]) == std::string_view::npos)) break;
        found.push_back(number);
        at = next;
    }
    return found;
}

}  // namespace

std::vector<TraceHeader> load_trace(std::string_view text, const std::string& file) {
    std::vector<TraceHeader> trace;
    for_each_line(text, [&](std::string_view line, uint32_t number) {
        if (line.find_first_not_of(kBlanks) == std::string_view::npos) return;
        const auto refuse = [&](size_t column, const std::string& why) {
            throw ConfigError(
                Diagnostic{{file, number, static_cast<uint32_t>(column + 1)},
                           why,
                           "a line of a trace is 'src dst sport dport protocol [flags] rule' in decimal numbers"});
        };
        size_t at = 0;
        const std::vector<uint64_t> columns = numbers(line, at);
        if (at < line.size()) refuse(at, "this is no number");
        if (columns.size() < 6)
            refuse(0, "there are " + std::to_string(columns.size()) + " numbers where six at least are wanted");
        if (columns[0] >> 32 != 0 || columns[1] >> 32 != 0 || columns[2] >> 16 != 0 || columns[3] >> 16 != 0 ||
            columns[4] >> 8 != 0)
            refuse(0, "a number is too large for its field");
        TraceHeader header;
        header.key.ip_version = 4;
        header.key.src_high = columns[0] << 32;
        header.key.dst_high = columns[1] << 32;
        header.key.src_port = static_cast<uint16_t>(columns[2]);
        header.key.dst_port = static_cast<uint16_t>(columns[3]);
        header.key.protocol = static_cast<uint8_t>(columns[4]);
        header.key.has = HeaderKey::kPorts;
        header.rule = static_cast<uint32_t>(columns.back());
        trace.push_back(header);
    });
    return trace;
}

}  // namespace millrace::nf::classify
