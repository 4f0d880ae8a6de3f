// What the IPsec gateway shows of its security associations. Keys are no part of it.
#include <cstdio>
#include <cstring>

#include "millrace/base/text/prefix.hpp"
#include "millrace/nf/ipsec/host.hpp"

namespace millrace::nf::ipsec {
namespace {

std::string text_of(const Address& address, bool ipv6) {
    Prefix host;
    host.ipv6 = ipv6;
    host.length = static_cast<uint8_t>(host.address_bits());
    std::memcpy(host.bytes.data(), address.words, host.address_bits() / 8);
    const std::string text = host.text();
    return text.substr(0, text.find('/'));
}

std::string text_of(Age age) {
    switch (age) {
        case Age::young: return "serves";
        case Age::soft: return "near its end";
        default: return "ended";
    }
}

}  // namespace

std::optional<ShownTable> IpsecHost::show(std::string_view topic, size_t most) const {
    if (topic != "sas") return {};
    ShownTable shown{
        .columns = {"name", "direction", "spi", "local", "remote", "sequence", "packets", "bytes", "state"},
        .rows = {},
        .total = options_->sas.size()};
    for (size_t i = 0; i < sas_->size() && shown.rows.size() < most; ++i) {
        const SaOptions& configured = options_->sas[i];
        const Sa& sa = (*sas_)[i];
        // Of an outbound SA both are the numbers given out; inbound, the highest accepted, and the packets for it.
        const uint64_t sequence = configured.inbound ? state_->highest(sa.slot) : state_->given_out(sa.slot);
        const uint64_t packets = configured.inbound ? state_->received(sa.slot) : sequence;
        char spi[16];
        std::snprintf(spi, sizeof spi, "0x%x", sa.spi);
        shown.rows.push_back({configured.name, std::string(configured.inbound ? "in" : "out"), std::string(spi),
                              text_of(sa.local, sa.ipv6),
                              sa.any_remote ? std::string("any") : text_of(sa.remote, sa.ipv6), sequence, packets,
                              sa.counts_bytes ? ShownTable::Value(state_->used_bytes(sa.slot)) : std::string("-"),
                              text_of(state_->ages[sa.slot])});
    }
    return shown;
}

}  // namespace millrace::nf::ipsec
