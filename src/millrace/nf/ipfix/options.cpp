#include "millrace/nf/ipfix/options.hpp"

#include <algorithm>

#include "millrace/base/files/file_ledger.hpp"

namespace millrace::nf::ipfix {
namespace {

constexpr uint64_t kSecond = 1'000'000'000;
constexpr const char* kPort = "4739";  // IANA's of IPFIX

/// "host", "host:port", "2001:db8::1", "[2001:db8::1]:port".
void read_collector(const Config& collector, ExportOptions& to) {
    const std::string text = collector.text();
    const std::string hint = "write collector: 192.0.2.1:4739, '[2001:db8::1]:4739' or name:4739";
    std::string port = kPort;
    if (!text.empty() && text.front() == '[') {
        const size_t end = text.find(']');
        if (end == std::string::npos || (end + 1 < text.size() && text[end + 1] != ':'))
            collector.fail("'" + text + "' is no collector", hint);
        to.host = text.substr(1, end - 1);
        if (end + 1 < text.size()) port = text.substr(end + 2);
    } else if (std::count(text.begin(), text.end(), ':') == 1) {
        to.host = text.substr(0, text.find(':'));
        port = text.substr(text.find(':') + 1);
    } else {
        to.host = text;
    }
    const bool digits = !port.empty() && port.size() <= 5 && port.find_first_not_of("0123456789") == std::string::npos;
    if (to.host.empty() || to.host.find_first_of(" /\t") != std::string::npos || !digits || std::stoul(port) == 0 ||
        std::stoul(port) > 65535)
        collector.fail("'" + text + "' is no collector", hint);
    to.port = port;
}

uint64_t time_of(const Config& options, const std::string& name, uint64_t usual, const std::string& hint) {
    const auto given = options.find(name);
    if (!given) return usual;
    const auto ns = static_cast<uint64_t>(given->duration().count());
    if (ns == 0 || ns > 365 * 86'400 * kSecond) given->fail("'" + name + "' is from 1 ns to a year", hint);
    return ns;
}

ExportOptions read_export(const Config& options, const std::string& output_folder) {
    ExportOptions to;
    const auto collector = options.find("collector"), file = options.find("file");
    if (collector && file)
        file->fail("records go to a collector or to a file", "leave one of them out; two functions have two");
    if (!collector && !file)
        options.fail("nobody gets the records", "give it collector: 192.0.2.1:4739, or file: flows.ipfix");
    if (collector) read_collector(*collector, to);
    else to.file = output_path(*file, output_folder);
    to.where = collector ? collector->where() : file->where();
    to.domain = static_cast<uint32_t>(options.integer_or("domain", 0, 0, UINT32_MAX));
    to.template_refresh_ns = time_of(options, "template-refresh", to.template_refresh_ns,
                                     "write template-refresh: 60s");
    to.template_messages = static_cast<uint64_t>(
        options.integer_or("template-messages", static_cast<int64_t>(to.template_messages), 1, INT32_MAX));
    to.mtu = static_cast<uint32_t>(options.integer_or("mtu", to.mtu, 576, 65535));
    return to;
}

}  // namespace

bool ExportOptions::same_as(const ExportOptions& other) const {
    return host == other.host && port == other.port && file == other.file && domain == other.domain &&
           template_refresh_ns == other.template_refresh_ns && template_messages == other.template_messages &&
           mtu == other.mtu;
}

std::string ExportOptions::target() const {
    if (!file.empty()) return file;
    return (host.find(':') != std::string::npos ? "[" + host + "]" : host) + ":" + port;
}

Options read_options(const Config& options, const std::string& output_folder) {
    options.only({"collector", "file", "domain", "active-timeout", "idle-timeout", "template-refresh",
                  "template-messages", "mtu", "max-flows", "when-full"});
    Options own;
    own.flows = KeyedOptions::read(options, "flows",
                                   {.most = 262'144, .timeout_ns = 15 * kSecond, .when_full = WhenFull::evict});
    own.flows.timeout_ns = time_of(options, "idle-timeout", own.flows.timeout_ns, "write idle-timeout: 15s");
    own.active_ns = time_of(options, "active-timeout", 60 * kSecond, "write active-timeout: 60s");
    own.to = read_export(options, output_folder);
    return own;
}

}  // namespace millrace::nf::ipfix
