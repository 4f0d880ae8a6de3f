#include "millrace/cli/text/show_text.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/cli/text/promise_text.hpp"
#include "millrace/cli/text/stages_text.hpp"
#include "millrace/cli/text/table.hpp"

namespace millrace::cli {
namespace {

using nlohmann::json;

/// A member of an object; null where there is none.
const json& member(const json& object, const std::string& name) {
    static const json none;
    const auto found = object.is_object() ? object.find(name) : object.end();
    return object.is_object() && found != object.end() ? *found : none;
}

bool is_count(const json& value) {
    return value.is_number_unsigned() || (value.is_number_integer() && value.get<int64_t>() >= 0);
}

uint64_t number(const json& object, const std::string& name) {
    const json& value = member(object, name);
    return is_count(value) ? value.get<uint64_t>() : 0;
}

/// What may stand on a terminal: names and texts come from files and from the network.
std::string printable(std::string text) {
    std::replace_if(
        text.begin(), text.end(), [](char c) { return static_cast<unsigned char>(c) < ' ' || c == 0x7f; }, '?');
    return text;
}

std::string text_of(const json& value) {
    if (is_count(value)) return grouped(value.get<uint64_t>());
    if (value.is_string()) return printable(value.get<std::string>());
    return value.is_null() ? "" : printable(value.dump(-1, ' ', false, json::error_handler_t::replace));
}

std::string text(const json& object, const std::string& name) { return text_of(member(object, name)); }

/// `{"a": 1, "b": 2}` as "a 1, b 2".
std::string counts(const json& object) {
    std::string all;
    if (object.is_object())
        for (const auto& [name, n] : object.items())
            all += (all.empty() ? "" : ", ") + printable(name) + " " + text_of(n);
    return all;
}

/// What was promised to a chain or a tenant; empty where nothing was.
std::string promise_of(const json& object) {
    const json& promise = member(object, "promise");
    if (!promise.is_object()) return {};
    exec::PromiseReport report;
    report.rate = static_cast<double>(number(promise, "rate"));
    report.latency_ns = number(promise, "latency-ns");
    report.offered = static_cast<double>(number(promise, "offered"));
    report.longest_ns = number(promise, "longest-ns");
    report.batch = static_cast<uint32_t>(number(promise, "batch"));
    report.sms = static_cast<uint32_t>(number(promise, "sms"));
    report.intervals = number(promise, "intervals");
    report.rate_broken = number(promise, "rate-broken");
    report.latency_broken = number(promise, "latency-broken");
    return promise_text(report, text(promise, "now"));
}

std::string ports_text(const json& ports) {
    Table table({"port", "kind", "link", "mtu", "received", "bytes", "sent", "bytes", "drops"});
    std::string troubles;
    for (const json& port : ports) {
        const uint64_t mbps = number(port, "speed-mbps");
        const std::string speed = mbps > 0 ? " " + bit_rate(static_cast<double>(mbps) * 1e6) : "";
        table.add({text(port, "name"), text(port, "kind"), text(port, "link") + speed, text(port, "mtu"),
                   text(port, "received-packets"), text(port, "received-bytes"), text(port, "sent-packets"),
                   text(port, "sent-bytes"), counts(member(port, "drops"))});
        if (const std::string trouble = text(port, "trouble"); !trouble.empty())
            troubles += "port " + text(port, "name") + ": " + trouble + "\n";
    }
    return table.text() + troubles;
}

std::string nfs_text(const json& chain) {
    Table table({"nf", "packets", "outcomes"});
    for (const json& nf : member(chain, "nfs")) {
        std::string outcomes;
        const json& all = member(nf, "outcomes");
        if (all.is_object())
            for (const auto& [name, outcome] : all.items())
                if (number(outcome, "packets") > 0)
                    outcomes += (outcomes.empty() ? "" : ", ") + printable(name) + " " + text(outcome, "packets");
        table.add({text(nf, "name"), text(nf, "packets"), outcomes});
    }
    return member(chain, "nfs").empty() ? "" : table.text();
}

std::string chains_text(const json& chains) {
    Table table({"chain", "received", "injected", "copied", "sent", "dropped", "punted", "passed-on", "in-flight"});
    std::string more;
    for (const json& chain : chains) {
        table.add({text(chain, "name"), text(chain, "received-packets"), text(chain, "injected"), text(chain, "copied"),
                   text(chain, "sent-packets"), text(chain, "dropped"), text(chain, "punted"), text(chain, "passed-on"),
                   text(chain, "in-flight")});
        more += "\nchain " + text(chain, "name") + "\n";
        if (const std::string promise = promise_of(chain); !promise.empty()) more += "  promised  " + promise + "\n";
        if (const std::string drops = counts(member(chain, "drops")); !drops.empty())
            more += "  drops  " + drops + "\n";
        if (const std::string punts = counts(member(chain, "punts")); !punts.empty())
            more += "  punts  " + punts + "\n";
        if (const uint64_t packets = number(chain, "reassembled"); packets > 0)
            more += "  fragments  " + grouped(packets) + " packets of " + grouped(packets + number(chain, "joined")) +
                    "\n";
        more += nfs_text(chain);
    }
    return table.text() + more;
}

/// Times of a tenant's stages.
std::map<std::string, exec::TenantReport::Times> stages_of(const json& tenant) {
    std::map<std::string, exec::TenantReport::Times> times;
    for (const char* const stage : {"before", "device", "after"})
        if (const json& own = member(member(tenant, "stages"), std::string(stage) + "-ns"); own.is_object())
            times[stage] = {number(own, "p50"), number(own, "p99")};
    return times;
}

std::string tenants_text(const json& tenants) {
    Table table({"tenant", "chain", "state", "user", "process", "runs on", "packets", "answered", "absent", "batches",
                 "p99", "misdeeds"});
    for (const json& tenant : tenants)
        table.add({text(tenant, "name"), text(tenant, "chain"), text(tenant, "state"), text(tenant, "user"),
                   number(tenant, "process") > 0 ? std::to_string(number(tenant, "process")) : "-",
                   number(tenant, "process") > 0 ? text(tenant, "runs-on") : "-", text(tenant, "packets"),
                   text(tenant, "answered"), counts(member(tenant, "absent")), text(tenant, "batches"),
                   time_text(number(member(tenant, "answer-ns"), "p99")), counts(member(tenant, "misdeeds"))});
    std::string promises;
    for (const json& tenant : tenants)
        if (const std::string promise = promise_of(tenant); !promise.empty())
            promises += "tenant " + text(tenant, "name") + " was promised " + promise + "\n";
    std::string fences;
    for (const json& tenant : tenants)
        if (const json& instructions = member(tenant, "instructions"); number(instructions, "function") > 0)
            fences += fmt::format("tenant {} runs on the {}: {} instructions, and {} more for that\n",
                                  text(tenant, "name"), text(tenant, "runs-on"), text(instructions, "function"),
                                  text(instructions, "isolation"));
    std::string stages;
    for (const json& tenant : tenants) stages += stages_text(text(tenant, "name"), stages_of(tenant));
    if (tenants.empty()) return "no chain of this run has a tenant's function\n";
    return table.text() + fences + stages + promises;
}

std::string tables_text(const json& tables, const std::string& topic) {
    std::string all;
    for (const json& table : tables) {
        std::string chains;
        for (const json& chain : member(table, "chains")) {
            if (!chains.empty()) chains += ", ";
            chains += text_of(chain);
        }
        const json& rows = member(table, "rows");
        if (!all.empty()) all += "\n";
        all += fmt::format("{} of {}: {} {}", text(table, "nf"), chains, text(table, "total"), topic);
        if (rows.size() < number(table, "total")) all += fmt::format(", of which {}", grouped(rows.size()));
        all += "\n";
        std::vector<std::string> columns;
        for (const json& column : member(table, "columns")) columns.push_back(text_of(column));
        Table shown(columns);
        for (const json& row : rows) {
            std::vector<std::string> cells;
            for (const std::string& column : columns) cells.push_back(text(row, column));
            shown.add(std::move(cells));
        }
        if (!rows.empty()) all += shown.text();
    }
    return all.empty() ? "no network function of this run has " + topic + "\n" : all;
}

}  // namespace

std::string shown_text(const json& answer, const std::string& topic) {
    const json& shown = member(answer, topic);
    if (topic == "ports") return ports_text(shown);
    if (topic == "chains") return chains_text(shown);
    if (topic == "tenants") return tenants_text(shown);
    return tables_text(shown, topic);
}

}  // namespace millrace::cli
