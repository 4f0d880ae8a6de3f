#include "millrace/nf/ipsec/sa/known_sas.hpp"

#include <algorithm>
#include <cstring>

#include "millrace/nf/crypto/keys.hpp"

namespace millrace::nf::ipsec {
namespace {

bool same_address(const Address& a, const Address& b) { return std::equal(a.words, a.words + 4, b.words); }

/// Refuses two SAs that a packet, or a keystream, could not tell apart.
void check_pair(const SaOptions& a, const SaOptions& b) {
    if (a.name == b.name) fail_secretly(b.where.at("name"), "two SAs are named '" + b.name + "'");
    const bool same_end = a.sa.ipv6 == b.sa.ipv6 &&
                          (a.inbound ? same_address(a.sa.local, b.sa.local) : same_address(a.sa.remote, b.sa.remote));
    if (a.inbound == b.inbound && a.sa.spi == b.sa.spi && same_end)
        fail_secretly(b.where.at("spi"),
                      "the SPI of SA '" + b.name + "' is that of SA '" + a.name + "', to the same address",
                      "give each SA towards an address an SPI of its own");
    const bool same_stream = a.has_key_stream() && b.has_key_stream() && a.key.bytes == b.key.bytes &&
                             a.sa.nonce == b.sa.nonce;
    if (same_stream)
        fail_secretly(b.where, "SAs '" + a.name + "' and '" + b.name + "' encrypt with the same key and nonce",
                      "in counter mode that gives both away (RFC 3686, section 4): make a key of its own for each");
    if (a.inbound == b.inbound && a.identity() == b.identity())
        fail_secretly(b.where, "SAs '" + a.name + "' and '" + b.name + "' have the same SPI and keys",
                      "make keys of its own for each");
}

}  // namespace

void KnownSas::add(const std::vector<SaOptions>& sas) {
    const SaOptions& sa = sas.back();
    const auto index = static_cast<uint32_t>(sas.size() - 1);
    const Address& end = sa.inbound ? sa.sa.local : sa.sa.remote;
    const std::string way = sa.inbound ? "in " : "out ";
    by_name_.try_emplace(sa.name, index);
    std::vector<std::string> marks = {"name " + sa.name, "identity " + way + sa.identity(),
                                      "spi " + way + std::to_string(sa.sa.spi) + (sa.sa.ipv6 ? " 6 " : " 4 ") +
                                          std::string(reinterpret_cast<const char*>(end.words), sizeof end.words)};
    if (sa.has_key_stream())
        marks.push_back("stream " + std::to_string(sa.sa.nonce) + " " +
                        std::string(sa.key.bytes.begin(), sa.key.bytes.end()));
    for (std::string& mark : marks)
        if (const auto [known, fresh] = marks_.try_emplace(std::move(mark), index); !fresh)
            check_pair(sas[known->second], sa);
}

KnownSas::~KnownSas() {
    while (!marks_.empty()) {  // some of them hold keys
        auto node = marks_.extract(marks_.begin());
        explicit_bzero(node.key().data(), node.key().size());
    }
}

}  // namespace millrace::nf::ipsec
