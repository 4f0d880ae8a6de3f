#include "nf/ipsec/esp_oracle.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>

#include "millrace/packet/bytes.hpp"

namespace millrace::test {
namespace {

constexpr size_t kEthernet = 14, kIcv = 12;

Frame digest(const uint8_t* data, size_t count) {
    const Frame key = *parse_hex(kAuthKeyText);
    Frame result(20);
    HMAC(EVP_sha1(), key.data(), static_cast<int>(key.size()), data, count, result.data(), nullptr);
    result.resize(kIcv);
    return result;
}

void append(Frame& frame, const Frame& more) { frame.insert(frame.end(), more.begin(), more.end()); }
void append32(Frame& frame, uint32_t value) {
    frame.resize(frame.size() + 4);
    store_be32(frame.data() + frame.size() - 4, value);
}

}  // namespace

Frame inner_of(const Frame& frame, size_t vlans) {
    return Frame(frame.begin() + static_cast<long>(kEthernet + 4 * vlans), frame.end());
}

Frame EspOracle::crypt(const Frame& iv, const Frame& text, bool encrypt) const {
    if (tunnel_.cipher == "null") return text;
    const bool counting = tunnel_.cipher == "aes-128-ctr";
    Frame start = iv;
    if (counting) {
        start = *parse_hex(kNonceText);
        append(start, iv);
        append32(start, 1);
    }
    const Frame key = *parse_hex(kKeyText);
    Frame out(text.size() + 16);
    int length = 0;
    EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
    EVP_CipherInit_ex(context, counting ? EVP_aes_128_ctr() : EVP_aes_128_cbc(), nullptr, key.data(), start.data(),
                      encrypt);
    EVP_CIPHER_CTX_set_padding(context, 0);
    EVP_CipherUpdate(context, out.data(), &length, text.data(), static_cast<int>(text.size()));
    EVP_CIPHER_CTX_free(context);
    out.resize(text.size());
    return out;
}

Frame EspOracle::seal(const Frame& inner, const Outer& outer) const {
    Frame text = inner;
    append(text, outer.tfc);
    const size_t unit = tunnel_.cipher == "aes-128-cbc" ? 16 : 4;
    Frame padding;
    if (outer.padding) padding = *outer.padding;
    else
        while ((text.size() + padding.size() + 2) % unit != 0)
            padding.push_back(static_cast<uint8_t>(padding.size() + 1));
    append(text, padding);
    text.push_back(outer.pad_length.value_or(static_cast<uint8_t>(padding.size())));
    text.push_back(outer.next_header.value_or((inner[0] >> 4) == 6 ? 41 : 4));
    // Any IV will do for a receiver; this one is not the gateway's.
    Frame iv(iv_bytes());
    for (size_t i = 0; i < iv.size(); ++i) iv[i] = static_cast<uint8_t>(outer.sequence * 31 + i * 7);
    Frame esp;
    append32(esp, outer.spi);
    append32(esp, outer.sequence);
    append(esp, iv);
    append(esp, crypt(iv, text, true));
    esp.resize(esp.size() - std::min(outer.cut, esp.size()));
    if (tunnel_.extra.find("auth: none") == std::string::npos) append(esp, digest(esp.data(), esp.size()));

    PacketSpec spec;
    if (tunnel_.ipv6) {
        spec.ipv6.emplace();
        spec.ipv6->src = ipv6("2001:db8::1");
        spec.ipv6->dst = ipv6("2001:db8::2");
        spec.ipv6->next = 50;
        spec.ipv6->traffic_class = outer.traffic_class;
    } else {
        spec.ipv4.emplace();
        spec.ipv4->src = outer.ipv4_source;
        spec.ipv4->dst = ipv4("198.51.100.1");
        spec.ipv4->protocol = 50;
        spec.ipv4->tos = outer.traffic_class;
    }
    spec.payload = esp;
    return build(spec);
}

std::optional<EspOracle::Opened> EspOracle::open(const Frame& frame) const {
    const size_t at = kEthernet + (tunnel_.ipv6 ? 40 : 20);
    if (frame.size() < at + 8 + iv_bytes() + kIcv + 2) return std::nullopt;
    const uint8_t* esp = frame.data() + at;
    const size_t covered = frame.size() - at - kIcv;
    if (digest(esp, covered) != Frame(esp + covered, esp + covered + kIcv)) return std::nullopt;
    const Frame iv(esp + 8, esp + 8 + iv_bytes());
    const Frame text = crypt(iv, Frame(esp + 8 + iv_bytes(), esp + covered), false);
    Opened opened{
        .spi = load_be32(esp), .sequence = load_be32(esp + 4), .next_header = text.back(), .padding = {}, .inner = {}};
    const size_t padding = text[text.size() - 2];
    if (padding + 2 > text.size()) return std::nullopt;
    const auto inner_end = text.end() - static_cast<long>(padding + 2);
    opened.padding.assign(inner_end, text.end() - 2);
    opened.inner.assign(text.begin(), inner_end);
    return opened;
}

}  // namespace millrace::test
