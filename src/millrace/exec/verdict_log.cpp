#include "millrace/exec/verdict_log.hpp"

#include <cerrno>
#include <cstring>
#include <nlohmann/json.hpp>
#include <stdexcept>

#include "millrace/io/metadata.hpp"

namespace millrace::exec {
namespace {

std::string json_text(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string ending(const chain::Program& program, const Fate& fate, const std::vector<std::string>& ports) {
    using Kind = chain::Target::Kind;
    const auto port_name = [&](uint16_t port) { return json_text(port < ports.size() ? ports[port] : "?"); };
    switch (fate.target.kind) {
        case Kind::port:
            return "\"end\":\"sent\",\"to\":" + port_name(fate.target.value);
        case Kind::output: {
            if (is_port_set(fate.out_port)) {
                std::string names;
                for (uint16_t i = 0; i < kPortSetPorts; ++i)
                    if (fate.out_port >> i & 1) names += (names.empty() ? "" : ",") + port_name(i);
                return "\"end\":\"sent\",\"to\":[" + names + "]" + (fate.out_port & kPortSetPunt ? ",\"punted\":true" : "");
            }
            const uint16_t port = fate.out_port < ports.size() ? fate.out_port : program.output;
            if (port == kNoPort) return "\"end\":\"drop\",\"by\":\"output\",\"reason\":\"no-output\"";
            return "\"end\":\"sent\",\"to\":" + port_name(port);
        }
        default:
            break;
    }
    const std::string end = fate.target.kind == Kind::punt ? "punt" : "drop";
    std::string by = "parser", reason;
    if (fate.node == kParserNode) {
        reason = kMalformedNames[fate.decision.outcome < kMalformedCount ? fate.decision.outcome : 0];
    } else if (fate.node < program.nodes.size()) {
        const chain::Node& node = program.nodes[fate.node];
        by = node.name;
        reason = node.type->outcomes.at(fate.decision.outcome).name;
    }
    return "\"end\":\"" + end + "\",\"by\":" + json_text(by) + ",\"reason\":" + json_text(reason);
}

}  // namespace

VerdictLog::VerdictLog(const std::string& path, std::vector<std::string> ports)
    : path_(path), ports_(std::move(ports)), file_(std::fopen(path.c_str(), "w")) {
    if (file_ == nullptr) throw std::runtime_error(path + ": " + std::strerror(errno));
}

VerdictLog::~VerdictLog() {
    if (file_ != nullptr) std::fclose(file_);
}

void VerdictLog::write(const chain::Program& program, const rte_mbuf& mbuf, std::span<const Visit> visits, const Fate& fate) {
    std::string path;
    for (const Visit& visit : visits) {
        const chain::Node& node = program.nodes[visit.node];
        if (!path.empty()) path += ',';
        path += "{\"chain\":" + json_text(program.name) + ",\"nf\":" + json_text(node.name) +
                ",\"outcome\":" + json_text(node.type->outcomes.at(visit.decision.outcome).name);
        const std::string by = node.nf->explain(visit.decision);
        if (!by.empty()) path += ",\"by\":" + json_text(by);
        path += '}';
    }
    const std::lock_guard lock(mutex_);
    std::string line;
    if (const auto begun = begun_.find(&mbuf); begun != begun_.end()) {
        line = std::move(begun->second);
        begun_.erase(begun);
        if (!path.empty() && !line.ends_with('[')) line += ',';
    } else {
        line = "{\"packet\":" + std::to_string(io::packet_number(&mbuf)) + ",\"port\":" +
               json_text(mbuf.port < ports_.size() ? ports_[mbuf.port] : "?") + ",\"length\":" + std::to_string(mbuf.pkt_len) + ",\"path\":[";
    }
    line += path;
    if (fate.target.kind == chain::Target::Kind::chain) {
        begun_.emplace(&mbuf, std::move(line));
        return;
    }
    line += "]," + ending(program, fate, ports_) + "}\n";
    std::fwrite(line.data(), 1, line.size(), file_);
}

void VerdictLog::close() {
    const std::lock_guard lock(mutex_);
    if (file_ == nullptr) return;
    const bool bad = std::ferror(file_) != 0;
    const bool unclosed = std::fclose(file_) != 0;
    file_ = nullptr;
    if (bad || unclosed) throw std::runtime_error(path_ + ": not all verdicts could be written");
}

}  // namespace millrace::exec
