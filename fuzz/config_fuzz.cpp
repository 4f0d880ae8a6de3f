// Any text as a configuration: it is read or refused with a place, and never more than that.
#include <functional>
#include <string>

#include "fuzz/entry.hpp"
#include "millrace/base/text/config.hpp"

namespace config_fuzz {

using millrace::Config;
using millrace::ConfigError;

void refuse_or_not(const std::function<void()>& read) {
    try {
        read();
    } catch (const ConfigError&) {
        // It is refused.
    }
}

void walk(const Config& node, int depth) {
    if (depth > 20) return;
    refuse_or_not([&] { node.integer(); });
    refuse_or_not([&] { node.size(); });
    refuse_or_not([&] { node.duration(); });
    refuse_or_not([&] { node.prefix(); });
    refuse_or_not([&] { node.mac(); });
    refuse_or_not([&] { node.boolean(); });
    refuse_or_not([&] { node.number(); });
    refuse_or_not([&] { node.only({"version", "ports", "chains"}); });
    refuse_or_not([&] {
        if (node.is_map())
            for (const auto& [key, value] : node.entries()) walk(value, depth + 1);
    });
    refuse_or_not([&] {
        if (node.is_list())
            for (const Config& item : node.items()) walk(item, depth + 1);
    });
}

MILLRACE_FUZZER(config)(const uint8_t* data, size_t size) {
    if (size > 4096) return 0;
    refuse_or_not([&] { walk(Config::parse(std::string(reinterpret_cast<const char*>(data), size)), 0); });
    return 0;
}

}  // namespace config_fuzz
