#include "nf/ipsec/esp_oracle.hpp"

#include <openssl/evp.h>
#include <openssl/hmac.h>

#include <algorithm>

#include "millrace/packet/bytes.hpp"

namespace millrace::test {
namespace {

constexpr size_t kEthernet = 14;

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
    const bool counting = !tunnel_.is("cbc"), is_long = tunnel_.key_bytes() == 32;
    Frame start = iv;
    if (counting) {
        start = *parse_hex(kNonceText);
        append(start, iv);
        append32(start, tunnel_.is("gcm") ? 2 : 1);
    }
    const Frame key = *parse_hex(kKeyText);
    const EVP_CIPHER* cipher = counting ? (is_long ? EVP_aes_256_ctr() : EVP_aes_128_ctr())
                                        : (is_long ? EVP_aes_256_cbc() : EVP_aes_128_cbc());
    Frame out(text.size() + 16);
    int length = 0;
    EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
    EVP_CipherInit_ex(context, cipher, nullptr, key.data(), start.data(), encrypt);
    EVP_CIPHER_CTX_set_padding(context, 0);
    EVP_CipherUpdate(context, out.data(), &length, text.data(), static_cast<int>(text.size()));
    EVP_CIPHER_CTX_free(context);
    out.resize(text.size());
    return out;
}

Frame EspOracle::icv(const Frame& esp, const Frame& iv, const Frame& clear, uint32_t high) const {
    Frame result(EVP_MAX_MD_SIZE);
    if (tunnel_.is("gcm")) {
        const Frame key = *parse_hex(kKeyText);
        Frame nonce = *parse_hex(kNonceText), aad(esp.begin(), esp.begin() + 4), text(clear.size() + 16);
        append(nonce, iv);
        if (tunnel_.esn) append32(aad, high);
        aad.insert(aad.end(), esp.begin() + 4, esp.begin() + 8);
        int length = 0;
        EVP_CIPHER_CTX* context = EVP_CIPHER_CTX_new();
        EVP_EncryptInit_ex(context, tunnel_.key_bytes() == 32 ? EVP_aes_256_gcm() : EVP_aes_128_gcm(), nullptr,
                           key.data(), nonce.data());
        EVP_EncryptUpdate(context, nullptr, &length, aad.data(), static_cast<int>(aad.size()));
        EVP_EncryptUpdate(context, text.data(), &length, clear.data(), static_cast<int>(clear.size()));
        EVP_EncryptFinal_ex(context, text.data() + length, &length);
        EVP_CIPHER_CTX_ctrl(context, EVP_CTRL_GCM_GET_TAG, 16, result.data());
        EVP_CIPHER_CTX_free(context);
    } else {
        const bool sha1 = tunnel_.auth == "hmac-sha1-96";
        Frame covered = esp;
        if (tunnel_.esn) append32(covered, high);
        HMAC(sha1 ? EVP_sha1() : EVP_sha256(), parse_hex(kAuthKeyText)->data(), sha1 ? 20 : 32, covered.data(),
             covered.size(), result.data(), nullptr);
    }
    result.resize(tunnel_.icv_bytes());
    return result;
}

Frame EspOracle::esp(const Frame& inner, const Outer& outer) const {
    Frame text = inner;
    append(text, outer.tfc);
    Frame padding;
    if (outer.padding) padding = *outer.padding;
    else
        while ((text.size() + padding.size() + 2) % tunnel_.alignment() != 0)
            padding.push_back(static_cast<uint8_t>(padding.size() + 1));
    append(text, padding);
    text.push_back(outer.pad_length.value_or(static_cast<uint8_t>(padding.size())));
    text.push_back(*outer.next_header);
    // Any IV will do for a receiver; this one is not the gateway's.
    Frame iv(tunnel_.iv_bytes());
    for (size_t i = 0; i < iv.size(); ++i) iv[i] = static_cast<uint8_t>(outer.sequence * 31 + i * 7);
    Frame esp;
    append32(esp, outer.spi);
    append32(esp, static_cast<uint32_t>(outer.sequence));
    append(esp, iv);
    const size_t cut = std::min(outer.cut, esp.size() + text.size());
    append(esp, crypt(iv, text, true));
    esp.resize(esp.size() - cut);
    text.resize(text.size() - std::min(cut, text.size()));
    if (esp.size() >= 8) append(esp, icv(esp, iv, text, static_cast<uint32_t>(outer.sequence >> 32)));
    else append(esp, Frame(tunnel_.icv_bytes()));
    return esp;
}

Frame EspOracle::seal(const Frame& inner, const Outer& told) const {
    Outer outer = told;
    outer.next_header = told.next_header.value_or((inner[0] >> 4) == 6 ? 41 : 4);
    PacketSpec spec;
    if (tunnel_.ipv6) {
        spec.ipv6.emplace();
        spec.ipv6->src = ipv6("2001:db8::1");
        spec.ipv6->dst = ipv6("2001:db8::2");
        if (!tunnel_.udp) spec.ipv6->next = 50;
        spec.ipv6->traffic_class = outer.traffic_class;
    } else {
        spec.ipv4.emplace();
        spec.ipv4->src = outer.ipv4_source;
        spec.ipv4->dst = ipv4("198.51.100.1");
        if (!tunnel_.udp) spec.ipv4->protocol = 50;
        spec.ipv4->tos = outer.traffic_class;
    }
    if (tunnel_.udp) {
        spec.udp.emplace();
        spec.udp->src = spec.udp->dst = 4500;
    }
    spec.payload = esp(inner, outer);
    return build(spec);
}

std::optional<EspOracle::Opened> EspOracle::open(const Frame& frame, uint32_t high) const {
    const size_t at = kEthernet + (tunnel_.ipv6 ? 40 : 20) + (tunnel_.udp ? 8 : 0);
    if (frame.size() < at) return std::nullopt;
    return open_esp(Frame(frame.begin() + static_cast<long>(at), frame.end()), high);
}

std::optional<EspOracle::Opened> EspOracle::open_esp(const Frame& esp, uint32_t high) const {
    const size_t head = 8 + tunnel_.iv_bytes();
    if (esp.size() < head + tunnel_.icv_bytes() + 2) return std::nullopt;
    const auto icv_at = esp.end() - static_cast<long>(tunnel_.icv_bytes());
    const Frame covered(esp.begin(), icv_at), sent(icv_at, esp.end());
    const Frame iv(esp.begin() + 8, esp.begin() + static_cast<long>(head));
    const Frame text = crypt(iv, Frame(esp.begin() + static_cast<long>(head), icv_at), false);
    if (icv(covered, iv, text, high) != sent) return std::nullopt;
    Opened opened{.spi = load_be32(esp.data()),
                  .sequence = load_be32(esp.data() + 4),
                  .next_header = text.back(),
                  .padding = {},
                  .inner = {}};
    const size_t padding = text[text.size() - 2];
    if (padding + 2 > text.size()) return std::nullopt;
    const auto inner_end = text.end() - static_cast<long>(padding + 2);
    opened.padding.assign(inner_end, text.end() - 2);
    opened.inner.assign(text.begin(), inner_end);
    return opened;
}

}  // namespace millrace::test
