#include "millrace/exec/report/verdict_log.hpp"

#include <nlohmann/json.hpp>
#include <stdexcept>

#include "millrace/io/metadata.hpp"

namespace millrace::exec {
namespace {

std::string json_text(const std::string& text) {
    return nlohmann::json(text).dump(-1, ' ', false, nlohmann::json::error_handler_t::replace);
}

std::string ending(const chain::Program& program, const rte_mbuf& mbuf, const Verdict& verdict,
                   const std::vector<std::string>& ports) {
    using Kind = chain::Target::Kind;
    const auto port_name = [&](uint16_t port) { return json_text(port < ports.size() ? ports[port] : "?"); };
    switch (verdict.target.kind) {
        case Kind::port: return "\"end\":\"sent\",\"to\":" + port_name(verdict.target.value);
        case Kind::output: {
            if (is_port_set(verdict.out_port)) {
                std::string names;
                for (uint16_t i = 0; i < kPortSetPorts; ++i)
                    if (verdict.out_port >> i & 1) names += (names.empty() ? "" : ",") + port_name(i);
                return "\"end\":\"sent\",\"to\":[" + names + "]" +
                       (verdict.out_port & kPortSetPunt ? ",\"punted\":true" : "");
            }
            const uint16_t port = verdict.out_port < ports.size() ? verdict.out_port : program.output;
            if (port == kNoPort) return "\"end\":\"drop\",\"by\":\"output\",\"reason\":\"no-output\"";
            return "\"end\":\"sent\",\"to\":" + port_name(port);
        }
        case Kind::punt:
            if (program.punt_port_of(mbuf.port) == kNoPort && verdict.node < program.nodes.size() &&
                program.nodes[verdict.node].nf->punt_taker() == nullptr)
                return "\"end\":\"drop\",\"by\":\"punt\",\"reason\":\"no-punt-port\"";
            break;
        default: break;
    }
    const std::string end = verdict.target.kind == Kind::punt ? "punt" : "drop";
    std::string by = "parser", reason;
    if (verdict.node == kParserNode) {
        reason = kMalformedNames[verdict.decision.outcome < kMalformedCount ? verdict.decision.outcome : 0];
    } else if (verdict.node < program.nodes.size()) {
        const chain::Node& node = program.nodes[verdict.node];
        by = node.name;
        reason = node.outcome_name(verdict.decision.outcome);
    }
    return "\"end\":\"" + end + "\",\"by\":" + json_text(by) + ",\"reason\":" + json_text(reason);
}

}  // namespace

VerdictLog::VerdictLog(const std::string& path, std::vector<std::string> ports, Reporter reporter)
    : ports_(std::move(ports)), file_(path, "verdicts", std::move(reporter)) {
    file_.start_afresh();
}

void VerdictLog::write(const chain::Program& program, const rte_mbuf& mbuf, std::span<const Visit> visits,
                       const Verdict& verdict) {
    std::string path;
    for (const Visit& visit : visits) {
        const chain::Node& node = program.nodes[visit.node];
        if (!path.empty()) path += ',';
        path += "{\"chain\":" + json_text(program.name) + ",\"nf\":" + json_text(node.name) +
                ",\"outcome\":" + json_text(std::string(node.outcome_name(visit.decision.outcome)));
        const std::string by = visit.decision.outcome < node.type->outcomes.size() ? node.nf->explain(visit.decision)
                                                                                   : "";
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
        line = "{\"packet\":" + std::to_string(io::packet_number(&mbuf)) +
               ",\"port\":" + json_text(mbuf.port < ports_.size() ? ports_[mbuf.port] : "?") +
               ",\"length\":" + std::to_string(mbuf.pkt_len) + ",\"path\":[";
    }
    line += path;
    if (verdict.target.kind == chain::Target::Kind::chain) {
        begun_.emplace(&mbuf, std::move(line));
        return;
    }
    line += "]," + ending(program, mbuf, verdict, ports_) + "}";
    file_.append(line);
}

void VerdictLog::close() {
    const std::lock_guard lock(mutex_);
    file_.flush();
    if (file_.lost() > 0)
        throw std::runtime_error(file_.path() + ": " + std::to_string(file_.lost()) + " verdicts could not be written");
}

}  // namespace millrace::exec
