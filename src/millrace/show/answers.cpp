#include "millrace/show/answers.hpp"

#include <algorithm>
#include <map>
#include <optional>
#include <stdexcept>

#include "millrace/base/text/prefix.hpp"
#include "millrace/exec/report/report_json.hpp"
#include "millrace/nf/flow_query.hpp"

namespace millrace::show {

using nlohmann::json;

namespace {

struct Request {
    std::string topic;
    size_t limit = kRows;
    bool of_flows = false;  // it has what only flows are asked with
    nf::FlowQuery flows;
};

nf::FlowQuery::By by_of(const json& value) {
    const auto& all = nf::FlowQuery::kBy;
    const auto found = value.is_string() ? std::find(std::begin(all), std::end(all), value.get<std::string>())
                                         : std::end(all);
    if (found == std::end(all)) throw std::runtime_error("\"by\" is bytes, packets or duration");
    return static_cast<nf::FlowQuery::By>(found - std::begin(all));
}

Request read(std::string_view text) {
    const json request = json::parse(text, nullptr, false);
    if (!request.is_object()) throw std::runtime_error(R"(a request is a line such as {"version":1,"show":"ports"})");
    const auto version = request.find("version");
    if (version == request.end() || !version->is_number_unsigned())
        throw std::runtime_error("a request says its \"version\", a number");
    if (*version != kVersion)
        throw std::runtime_error("version " + version->dump() + " is not known: this is version " +
                                 std::to_string(kVersion));
    Request result;
    for (const auto& [key, value] : request.items()) {
        if (key == "show") {
            if (value.is_string()) result.topic = value.get<std::string>();
        } else if (key == "limit") {
            if (!value.is_number_unsigned() || value.get<uint64_t>() == 0 || value.get<uint64_t>() > kMaxRows)
                throw std::runtime_error("\"limit\" is from 1 to " + std::to_string(kMaxRows));
            result.limit = value.get<size_t>();
        } else if (key == "match") {
            if (!value.is_string()) throw std::runtime_error("\"match\" is a text");
            result.flows.read(value.get<std::string>());
            result.of_flows = true;
        } else if (key == "by") {
            result.flows.by = by_of(value);
            result.of_flows = true;
        } else if (key != "version") {
            throw std::runtime_error("\"show\", \"limit\", \"match\" and \"by\" are known here, and nothing else");
        }
    }
    if (result.of_flows && result.topic != "flows") throw std::runtime_error("\"match\" and \"by\" are for flows");
    if (std::find(std::begin(kTopics), std::end(kTopics), result.topic) != std::end(kTopics)) return result;
    std::string topics;
    for (const char* topic : kTopics) topics += (topics.empty() ? "" : ", ") + std::string(topic);
    throw std::runtime_error("\"show\" is one of " + topics);
}

json ports_json(const exec::Runtime& runtime) {
    json ports = json::array();
    for (const auto& port : runtime.ports()) {
        json entry = exec::port_json(
            {port->name(), port->info().kind, port->info().detail, port->counters(), port->trouble()});
        const io::LinkState link = port->link();
        const std::array<uint8_t, 6> mac = port->mac();
        entry["link"] = link.up ? "up" : "down";
        entry["speed-mbps"] = link.speed_mbps;
        entry["mtu"] = port->mtu();
        entry["mac"] = mac == std::array<uint8_t, 6>{} ? "" : mac_text(mac);
        entry["queues"] = std::max(port->info().receive_queues, port->info().send_queues);
        ports.push_back(std::move(entry));
    }
    return ports;
}

/// Counters of workers at work are some packets apart; that no more has left than came in is waited for.
json chains_json(const exec::Runtime& runtime, const exec::PromiseWatch* promises) {
    constexpr int kTries = 10;
    exec::Report report;
    for (int tries = 0; tries < kTries; ++tries) {
        report = exec::make_report(runtime);
        for (exec::ChainReport& chain : report.chains) chain.settle();
        if (std::all_of(report.chains.begin(), report.chains.end(),
                        [](const exec::ChainReport& chain) { return chain.conserved(); }))
            break;
    }
    if (promises != nullptr) promises->add_to(report);
    json chains = json::array();
    for (const exec::ChainReport& chain : report.chains) chains.push_back(exec::chain_json(chain));
    return chains;
}

json tenants_json(const exec::Runtime& runtime, const exec::PromiseWatch* promises) {
    exec::Report report;
    if (runtime.options().tenants != nullptr) report.tenants = runtime.options().tenants->report();
    if (promises != nullptr) promises->add_to(report);
    json tenants = json::array();
    for (const exec::TenantReport& tenant : report.tenants) tenants.push_back(exec::tenant_json(tenant));
    return tenants;
}

json row_json(const nf::ShownTable& shown, const std::vector<nf::ShownTable::Value>& row) {
    json entry = json::object();
    for (size_t i = 0; i < shown.columns.size() && i < row.size(); ++i)
        std::visit([&](const auto& value) { entry[shown.columns[i]] = value; }, row[i]);
    return entry;
}

/// What a network function has of the topic. Flows of those that can't choose among them are left out where some are
/// asked for.
std::optional<nf::ShownTable> table_of(const nf::NetworkFunction& nf, const Request& request, size_t room,
                                       nf::StateReader* states) {
    const auto* const flows = request.topic == "flows" ? dynamic_cast<const nf::ShowsFlows*>(&nf) : nullptr;
    if (flows == nullptr) return request.of_flows ? std::nullopt : nf.show(request.topic, room);
    nf::FlowQuery query = request.flows;
    query.most = room;
    return flows->show_flows(query, states);
}

/// The tables of all network functions that have one; a function that several chains share is there once.
json tables_json(const chain::Configuration& configuration, const Request& request, nf::StateReader* states) {
    json tables = json::array();
    size_t room = request.limit;
    std::map<const nf::NetworkFunction*, std::optional<size_t>> place_of;
    for (const auto& program : configuration.chains) {
        for (const chain::Node& node : program->nodes) {
            const auto [place, is_new] = place_of.emplace(node.nf.get(), std::nullopt);
            if (is_new) {
                const std::optional<nf::ShownTable> shown = table_of(*node.nf, request, room, states);
                if (!shown) continue;
                place->second = tables.size();
                json rows = json::array();
                for (const auto& row : shown->rows) rows.push_back(row_json(*shown, row));
                room -= std::min(room, shown->rows.size());
                tables.push_back({{"nf", node.name},
                                  {"chains", json::array()},
                                  {"columns", shown->columns},
                                  {"total", shown->total},
                                  {"rows", std::move(rows)}});
            }
            if (place->second) tables[*place->second]["chains"].push_back(program->name);
        }
    }
    return tables;
}

std::string text_of(const json& value) { return value.dump(-1, ' ', false, json::error_handler_t::replace); }

}  // namespace

std::string answer(const exec::Runtime& runtime, std::string_view text, double seconds,
                   const exec::PromiseWatch* promises) {
    const Request request = read(text);
    const auto configuration = runtime.configuration();
    json result = {{"version", kVersion},
                   {"show", request.topic},
                   {"generation", configuration->generation},
                   {"seconds", seconds}};
    if (request.topic == "ports") result["ports"] = ports_json(runtime);
    else if (request.topic == "chains") result["chains"] = chains_json(runtime, promises);
    else if (request.topic == "tenants") result["tenants"] = tenants_json(runtime, promises);
    else result[request.topic] = tables_json(*configuration, request, runtime.device_states());
    return text_of(result);
}

std::string refusal(const std::string& why) { return text_of({{"version", kVersion}, {"error", why}}); }

std::string request_for(const std::string& topic, const Wanted& wanted) {
    json request = {{"version", kVersion}, {"show", topic}};
    if (wanted.limit != 0) request["limit"] = wanted.limit;
    if (!wanted.match.empty()) request["match"] = wanted.match;
    if (!wanted.by.empty()) request["by"] = wanted.by;
    return text_of(request);
}

}  // namespace millrace::show
