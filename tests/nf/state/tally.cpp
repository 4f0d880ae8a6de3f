#include "nf/state/tally.hpp"

#include <numeric>

namespace millrace::test {

using nf::KeyedOptions;

TallyHost::TallyHost(const Config& options, const nf::Environment& environment)
    : KeyedFunction(KeyedOptions::read(options, "keys", {.most = 1 << 16, .timeout_ns = 1'000'000'000'000}),
                    environment, "tally") {
    std::vector<std::string> known = KeyedOptions::names("keys");
    known.insert(known.end(), {"counts-all", "journal"});
    options.only(known);
    tables().counts_all = options.boolean_or("counts-all", false);
    image_to_fill().attach_state(tables().all, std::make_shared<std::vector<uint32_t>>(1), "all");
}

uint64_t TallyHost::statistic(const std::string& name) const {
    for (const nf::Statistic& statistic : statistics())
        if (statistic.name == name) return statistic.value;
    ADD_FAILURE() << "no statistic " << name;
    return 0;
}

uint64_t TallyHost::packets() const {
    const auto& tables = *static_cast<const Tally::Tables*>(image().tables());
    uint64_t packets = 0;
    for (uint64_t i = 0; i < tables.state.tags.size(); ++i)
        if (tables.state.tags[i] != 0) packets += tables.state.entries[i].value.tally.packets;
    return packets;
}

std::map<uint32_t, uint32_t> TallyHost::written() const {
    std::map<uint32_t, uint32_t> written;
    table().written().each(
        [&](const Tally::Source& source, uint32_t last) { written[__builtin_bswap32(source.words[0])] = last; });
    return written;
}

std::map<uint32_t, uint32_t> TallyHost::kept() const {
    const auto& state = static_cast<const Tally::Tables*>(image().tables())->state;
    std::map<uint32_t, uint32_t> kept;
    for (uint64_t i = 0; i < state.tags.size(); ++i)
        if (state.tags[i] != 0) kept[__builtin_bswap32(state.entries[i].key.words[0])] = state.entries[i].value.last;
    return kept;
}

namespace {

const nf::Register<Tally, TallyHost> registration{{
    .name = "tally",
    .summary = "counts packets of each source address",
    .outcomes = {{"known", nf::Disposition::next, "its address was seen before"},
                 {"new", nf::Disposition::next, "it was not"},
                 {"full", nf::Disposition::next, "there was no room for its address"},
                 {"no-key", nf::Disposition::next, "it is not IP"},
                 {"looked", nf::Disposition::next, "its address was not seen before, and is not remembered"}},
    .device_header = "nf/state/device.hpp",
    .device_struct = "millrace::test::Tally",
}};

}  // namespace

chain::Configuration tally_chain(const std::string& options, const std::string& device, const std::string& before,
                                 const std::string& behind, const chain::Configuration* previous) {
    return make_configuration("[" + before + "tally: {" + options + "}" + behind + "]", device, 0, "(test)", previous);
}

TallyHost& tally_of(const chain::Configuration& configuration) {
    for (const chain::Node& node : configuration.chains[0]->nodes)
        if (auto* host = dynamic_cast<TallyHost*>(node.nf.get())) return *host;
    throw std::logic_error("the chain has no tally");
}

Frame keyed_frame(uint32_t key, size_t number, uint16_t port) {
    PacketSpec spec;
    spec.ipv4.emplace();
    spec.ipv4->src = key;
    spec.udp.emplace();
    spec.udp->src = static_cast<uint16_t>(number);
    spec.udp->dst = port;
    return build(spec);
}

Decision TallyModel::next(uint32_t key, uint16_t port) {
    const uint64_t number = number_++, now = 1'700'000'000'000'000'000ull + number * 1000;
    auto found = entries_.find(key);
    if (found != entries_.end() && found->second.deadline < now) {
        entries_.erase(found);
        found = entries_.end();
    }
    const bool is_new = found == entries_.end();
    if (is_new && port == Tally::kLook) return {0, Tally::kLooked};
    if (is_new) found = entries_.emplace(key, Entry{}).first;
    Entry& entry = found->second;
    ++entry.packets;
    if (port != Tally::kQuiet) entry.last = (entry.last * 31 + static_cast<uint16_t>(number)) & 0xffff;
    entry.deadline = now + (port == Tally::kShort ? Tally::kShortNs : timeout_ns_);
    const uint32_t detail = port == Tally::kEnd ? entry.packets : entry.last;
    if (port == Tally::kEnd) entries_.erase(found);
    return {detail, is_new ? Tally::kNew : Tally::kKnown};
}

std::map<uint32_t, uint32_t> TallyModel::kept() const {
    std::map<uint32_t, uint32_t> kept;
    for (const auto& [key, entry] : entries_) kept[key] = entry.last;
    return kept;
}

}  // namespace millrace::test
