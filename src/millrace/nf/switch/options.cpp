#include "millrace/nf/switch/options.hpp"

#include <algorithm>

#include "millrace/base/files/private_file.hpp"
#include "millrace/nf/classify/search_builder.hpp"
#include "millrace/nf/switch/text/words.hpp"

namespace millrace::nf::flow_switch {

PortNumbers read_ports(const Config& options, const std::vector<std::string>& names) {
    const auto map = options.find("ports");
    if (!map) return PortNumbers(names);
    std::map<uint32_t, uint16_t> by_number;
    for (const auto& [number, name] : map->entries()) {
        const auto found = std::find(names.begin(), names.end(), name.text());
        if (found == names.end())
            name.fail("there is no port '" + name.text() + "'", "name one of the configuration's 'ports:'");
        by_number[static_cast<uint32_t>(number.integer(1, 0xfffffeff))] = static_cast<uint16_t>(found - names.begin());
    }
    return PortNumbers(names, std::move(by_number));
}

namespace {

std::shared_ptr<const TlsContext> read_tls(const Config& tls) {
    constexpr size_t kMaxPemBytes = size_t{1} << 20;
    tls.only({"certificate", "key", "authorities", "name"});
    if (!TlsContext::is_built_in())
        tls.fail("this program was built without TLS, as OpenSSL was not there", "build it with OpenSSL (libssl-dev)");
    TlsFiles files;
    const auto read = [&](const char* name, std::string& text, bool secret) {
        const Config file = tls.at(name);
        const std::string path = file.path();
        text = read_file(path, file.where(), kMaxPemBytes, secret ? only_for_its_owner(path) : FileCheck{});
    };
    read("certificate", files.certificate, false);
    read("key", files.key, true);
    read("authorities", files.authorities, false);
    if (const auto name = tls.find("name")) files.name = name->text();
    try {
        return std::make_shared<const TlsContext>(std::move(files));
    } catch (const std::runtime_error& error) {
        tls.fail(error.what(), "give 'certificate' with its chain, its 'key' and the 'authorities' in PEM");
    }
}

}  // namespace

Control::Address read_address(const Config& options, const Environment& environment) {
    Control::Address address;
    if (const auto list = options.find("controller")) {
        for (const Config& item : list->items()) {
            const auto controller = parse_controller(item.text());
            if (!controller)
                item.fail("'" + item.text() + "' is not the address of a controller",
                          "write tcp:HOST:PORT to connect to it, ssl:HOST:PORT by TLS, or ptcp:PORT to wait for it");
            if (controller->tls && !options.find("tls"))
                item.fail("'" + item.text() + "' is by TLS, and nothing says by which certificates",
                          "write 'tls: {certificate: own.pem, key: own.key, authorities: ca.pem}'");
            address.controllers.push_back(*controller);
        }
    }
    if (const auto tls = options.find("tls")) address.tls = read_tls(*tls);
    if (const auto id = options.find("datapath-id")) {
        try {
            address.datapath = parse_number({id->text(), 0}, ~uint64_t{0});
        } catch (const WordMistake& mistake) {
            id->fail(mistake.message, "write it as 0x1");
        }
    } else {
        // The same in each run, and another one for another switch (FNV-1a).
        uint64_t hash = 0xcbf29ce484222325ull;
        for (const char c : environment.chain_name + "/" + environment.node_name)
            hash = (hash ^ static_cast<uint8_t>(c)) * 0x100000001b3ull;
        address.datapath = hash & 0xffffffffffffull;
    }
    return address;
}

std::optional<classify::Engine> engine_of(const Config& options) {
    using classify::Engine;
    const auto value = options.find("engine");
    if (!value) return std::nullopt;
    constexpr Engine kEngines[] = {Engine::linear, Engine::tuple, Engine::bloom, Engine::merged};
    std::vector<std::string> names;
    for (const Engine engine : kEngines) names.push_back(classify::kEngineNames[static_cast<size_t>(engine)]);
    names.push_back("auto");
    const size_t chosen = value->choice(names);
    return chosen == std::size(kEngines) ? std::nullopt : std::optional(kEngines[chosen]);
}

}  // namespace millrace::nf::flow_switch
