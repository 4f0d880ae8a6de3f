#include "millrace/chain/tenants/tenant.hpp"

#include <pwd.h>
#include <unistd.h>

#include <algorithm>
#include <charconv>
#include <filesystem>
#include <map>

#include "millrace/base/files/file_ledger.hpp"
#include "millrace/chain/configuration.hpp"
#include "millrace/chain/names.hpp"
#include "millrace/chain/tenants/parts.hpp"
#include "millrace/isolation/report.hpp"
#include "millrace/nf/cpu_stages.hpp"

namespace millrace::chain {
namespace {

constexpr size_t kMaxTenants = 1024, kMaxTenantBytes = 63, kMaxSocketBytes = 107;
constexpr uint64_t kLeastMemoryBytes = 64 << 10, kMaxMemoryBytes = uint64_t{1} << 30;

struct Tables {
    uint32_t absent;
};
/// Of packets that come here, and not to the tenant: of a device that is gone, or that has not all of their headers.
Decision be_absent(Packet& packet, const void* tables) {
    const bool too_long = packet.layers().payload_offset > kUndividedHead;
    return {static_cast<uint32_t>(too_long ? AbsentFor::too_long : AbsentFor::away),
            static_cast<const Tables*>(tables)->absent};
}

uid_t read_user(const Config& value) {
    const std::string text = value.text();
    uid_t number = 0;
    const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), number);
    if (error == std::errc() && end == text.data() + text.size()) return number;
    if (const passwd* const known = getpwnam(text.c_str())) return known->pw_uid;
    value.fail("this system has no user '" + text + "'", "give a name of /etc/passwd, or a number");
}

std::string read_socket_path(const Config& entry, const Configuration& result) {
    const auto own = entry.find("socket");
    const std::string text = own ? own->text() : "tenants.sock";
    const std::string path = (std::filesystem::path(result.output_folder) / text).lexically_normal().string();
    if (own && text.empty()) own->fail("a path is missing here");
    if (path.size() > kMaxSocketBytes)
        (own ? *own : entry)
            .fail("the path of a socket has at most " + std::to_string(kMaxSocketBytes) + " bytes",
                  "name one in a folder further up, such as /run/millrace/tenants.sock");
    return path;
}

}  // namespace

void read_tenants(const Config& root, Configuration& result) {
    const auto list = root.find("tenants");
    if (!list) return;
    const std::vector<Config> entries = list->items();
    if (entries.size() > kMaxTenants) list->fail("there are more than " + std::to_string(kMaxTenants) + " tenants");
    std::map<std::string, Location> sockets;
    for (const Config& entry : entries) {
        entry.only({"name", "user", "socket"});
        Tenant tenant;
        tenant.where = entry.where();
        tenant.name = name_of(entry.at("name"), "a tenant");
        if (tenant.name.size() > kMaxTenantBytes)
            entry.at("name").fail("a tenant's name has at most " + std::to_string(kMaxTenantBytes) + " bytes");
        for (const Tenant& other : result.tenants)
            if (other.name == tenant.name) entry.at("name").fail("two tenants are named '" + tenant.name + "'");
        tenant.user = entry.has("user") ? read_user(entry.at("user")) : geteuid();
        tenant.socket = read_socket_path(entry, result);
        sockets.emplace(tenant.socket, tenant.where);
        result.tenants.push_back(std::move(tenant));
    }
    for (const auto& [socket, where] : sockets) FileLedger::note_here(FileLedger::Use::write, socket, where);
}

Fields read_fields(const Config& names) {
    Fields all;
    for (const Config& name : names.items()) {
        const std::string text = name.text();
        if (text == "headers") all |= field::headers;
        else if (text == "five-tuple") all |= field::five_tuple;
        else if (text == "everything") all |= field::everything;
        else {
            const std::vector<std::string> known(std::begin(kFieldNames), std::end(kFieldNames));
            all |= Fields{1u << index_of(name, text, "field", known)};
        }
        if (all.overlaps(field::length))
            name.fail("a tenant's function can't change a packet's length", "leave 'length' out");
    }
    return all;
}

TenantFunction::TenantFunction(const Config& entry, const Tenant& tenant) : tenant_(tenant) {
    type_.name = "tenant";
    type_.summary = "runs in the process of " + tenant.name;
    if (const auto reads = entry.find("reads")) type_.reads = read_fields(*reads);
    if (const auto writes = entry.find("writes")) type_.writes = read_fields(*writes);
    type_.is_tenants = type_.reads_time = true;
    type_.cpu_reads = type_.reads;
    type_.cpu_writes = type_.writes;
    type_.tables_bytes = sizeof(Tables);
    for (auto& process : type_.process) process = be_absent;
    if (const auto memory = entry.find("memory")) {
        memory_bytes_ = memory->size();
        if (memory_bytes_ < kLeastMemoryBytes || memory_bytes_ > kMaxMemoryBytes)
            memory->fail("a tenant's memory is from 64Ki to 1Gi", "16Mi is what it is unless given");
    }
    read_patience(entry);
    read_outcomes(entry);
    read_place(entry);
    image_.start<Tables>().absent = absent();
}

/// A packet waits so long for an answer that does not come: no latency below that can be kept.
void TenantFunction::read_patience(const Config& entry) {
    constexpr std::chrono::nanoseconds kLeast = std::chrono::microseconds(100), kMax = std::chrono::seconds(10);
    promise_ = read_promise(entry);
    const std::chrono::nanoseconds latency = promise_.latency;
    if (latency.count() > 0 && latency < kLeast)
        entry.at("latency").fail(
            "a tenant's answer is waited for at least 100us, and no latency below that can be kept");
    if (latency.count() > 0) patience_ = std::min(patience_, latency);
    const auto patience = entry.find("patience");
    if (!patience) return;
    patience_ = patience->duration();
    if (patience_ < kLeast || patience_ > kMax) patience->fail("a tenant answers within 100us to 10s");
    if (latency.count() > 0 && patience_ > latency)
        patience->fail("latency: " + entry.at("latency").text() + " is promised, and for " + patience->text() +
                           " packets may wait for an answer that does not come",
                       "a patience of " + entry.at("latency").text() + " at most");
}

void TenantFunction::read_outcomes(const Config& entry) {
    const std::vector<std::string> words = {"next", "drop", "punt"};
    if (const auto outcomes = entry.find("outcomes"))
        for (const auto& [name, leads] : outcomes->entries()) {
            const std::string text = name_of(name, "an outcome");
            if (text == kAbsent)
                name.fail("'absent' is what packets get that the tenant has not decided on",
                          "'absent: bypass' says where these go");
            if (text.size() > kMaxOutcomeBytes)
                name.fail("an outcome's name has at most " + std::to_string(kMaxOutcomeBytes) + " bytes");
            type_.outcomes.push_back({text, static_cast<nf::Disposition>(leads.choice(words)), ""});
        }
    if (type_.outcomes.empty())
        entry.fail("'outcomes' is missing: what the tenant may say of a packet",
                   "write 'outcomes: {forward: next, block: drop}', say");
    if (type_.outcomes.size() > kMaxOutcomes)
        entry.at("outcomes").fail("a tenant has at most " + std::to_string(kMaxOutcomes) + " outcomes");
    const auto absent = entry.find("absent");
    if (!absent)
        entry.fail("'absent' is missing: what happens to packets while the tenant does not answer",
                   "drop, bypass or punt");
    constexpr nf::Disposition kLeads[] = {nf::Disposition::drop, nf::Disposition::next, nf::Disposition::punt};
    type_.outcomes.push_back(
        {kAbsent, kLeads[absent->choice({"drop", "bypass", "punt"})], "the tenant did not answer"});
}

void TenantFunction::read_place(const Config& entry) {
    if (const auto place = entry.find("runs-on")) may_run_on_gpu_ = place->choice({"process", "gpu"}) == 1;
    const auto isolation = entry.find("isolation");
    if (!isolation) return;
    if (!may_run_on_gpu_)
        isolation->fail("its function runs in its process, which is isolated by itself",
                        "leave it out, or write 'runs-on: gpu'");
    constexpr isolation::Isolation kChoices[] = {isolation::Isolation::fenced, isolation::Isolation::checked,
                                                 isolation::Isolation::none};
    isolation_ = kChoices[isolation->choice({"fenced", "checked", "none"})];
}

std::string TenantFunction::explain(const Decision& decision) const {
    if (decision.outcome != absent() || decision.detail >= std::size(kAbsentForNames)) return {};
    return std::string("the tenant was absent: ") + kAbsentForNames[decision.detail];
}

std::string TenantFunction::summary() const {
    return "user " + std::to_string(tenant_.user) + " attaches at " + tenant_.socket + "; sees " +
           field_names(sees() | changes()) + "; may change " + field_names(changes()) + "; runs in its process" +
           (may_run_on_gpu_ ? std::string(", or on the run's GPU, ") + isolation::name_of(isolation_) : "") +
           (promise_.made() ? "; is promised " + promise_.text() : "");
}

Node read_tenant_node(const Config& entry, const std::vector<Tenant>& tenants, const Program& program,
                      std::map<std::string, std::string>& chain_of) {
    entry.only({"tenant", "name", "reads", "writes", "outcomes", "absent", "memory", "patience", "rate", "latency",
                "runs-on", "isolation", "on"});
    const Config kind = entry.at("tenant");
    std::vector<std::string> names;
    for (const Tenant& tenant : tenants) names.push_back(tenant.name);
    if (names.empty()) kind.fail("no tenant may attach", "say who '" + kind.text() + "' is under 'tenants:'");
    const Tenant& tenant = tenants[index_of(kind, kind.text(), "tenant", names)];
    if (const auto [first, fresh] = chain_of.emplace(tenant.name, program.name); !fresh)
        kind.fail("'" + tenant.name + "' stands in chain '" + first->second + "' already",
                  "a tenant has one function; let it attach by another name for a second one");
    Node node;
    node.where = kind.where();
    node.name = entry.has("name") ? name_of(entry.at("name"), "a network function") : tenant.name;
    check_name(program, node.name, entry.has("name") ? entry.at("name") : kind);
    const auto function = std::make_shared<TenantFunction>(entry, tenant);
    node.type = &function->type();
    node.nf = function;
    return node;
}

void check_tenants(const Config& chain, const Program& program) {
    const bool has_some = std::any_of(program.nodes.begin(), program.nodes.end(),
                                      [](const Node& node) { return tenant_of(node) != nullptr; });
    for (const char* key : {"inner", "reassemble"})
        if (has_some && chain.has(key))
            chain.at(key).fail("a chain with a tenant's function goes without '" + std::string(key) + "'",
                               "make that a chain of its own, which leads to this one");
    for (const Node& node : program.nodes)
        if (node.nf != nullptr && nf::cpu_stages_of(*node.nf).any())
            throw ConfigError(Diagnostic{node.where,
                                         "'" + node.name +
                                             "' has CPU stages around its device half, which run in the process of a "
                                             "tenant",
                                         "name a tenant in its place, and have 'millrace tenant' bring it"});
}

const TenantFunction* tenant_of(const Node& node) { return dynamic_cast<const TenantFunction*>(node.nf.get()); }

}  // namespace millrace::chain
