#include "millrace/nf/ipsec/sa/sa_options.hpp"

#include <sys/stat.h>

#include <algorithm>
#include <cstring>
#include <limits>

#include "millrace/nf/classify/rules/five_tuple.hpp"
#include "millrace/nf/crypto/keys.hpp"

namespace millrace::nf::ipsec {
namespace {

/// Reads a host address of the tunnel.
Prefix read_host(const Config& value) {
    const Prefix prefix = value.prefix();
    if (!prefix.is_host())
        value.fail("'" + value.text() + "' is not a single address", "a tunnel ends at one address, such as 192.0.2.1");
    return prefix;
}

/// The bytes of a key that must be there and have the right length.
Secret need_key(const KeyFile& keys, const Config& sa, const std::string& name, const std::string& field, size_t bytes,
                const std::string& wanted_by) {
    const auto key = keys.find(sa, name, field);
    if (!key)
        sa.fail("SA '" + name + "' has no '" + field + "'",
                wanted_by + " wants " + std::to_string(2 * bytes) + " hexadecimal digits");
    if (key->bytes.size() != bytes)
        fail_secretly(
            sa.find(field).value_or(sa),
            "'" + field + "' of SA '" + name + "' has " + std::to_string(2 * key->bytes.size()) + " hexadecimal digits",
            wanted_by + " wants " + std::to_string(2 * bytes));
    return *key;
}
void refuse_key(const KeyFile& keys, const Config& sa, const std::string& name, const std::string& field,
                const std::string& user) {
    if (keys.find(sa, name, field))
        fail_secretly(sa.find(field).value_or(sa),
                      "SA '" + name + "' has a '" + field + "', which " + user + " does not use", "take it out");
}

bool is_weak(const Secret& key) {
    return std::all_of(key.bytes.begin(), key.bytes.end(), [&](uint8_t byte) { return byte == key.bytes[0]; });
}

/// A cipher by its name.
struct CipherChoice {
    const char* name;
    Cipher cipher;
    size_t key_bytes;
};
constexpr CipherChoice kCiphers[] = {
    {"aes-128-ctr", Cipher::aes_ctr, 16},
    {"aes-256-ctr", Cipher::aes_ctr, 32},
    {"aes-128-cbc", Cipher::aes_cbc, 16},
    {"aes-256-cbc", Cipher::aes_cbc, 32},
    {"aes-128-gcm", Cipher::aes_gcm, 16},
    {"aes-256-gcm", Cipher::aes_gcm, 32},
    {"null", Cipher::null, 0},
};

CipherChoice read_cipher(const Config& word) {
    if (word.is_null()) return std::end(kCiphers)[-1];  // in YAML a bare null is no text
    std::vector<std::string> names;
    for (const CipherChoice& choice : kCiphers) names.emplace_back(choice.name);
    return kCiphers[word.choice(names)];
}

void set_cipher(SaOptions& options, const Config& map, const KeyFile& keys) {
    const CipherChoice choice = read_cipher(map.at("cipher"));
    const std::string cipher = choice.cipher == Cipher::null ? "null encryption" : choice.name;
    options.sa.cipher = choice.cipher;
    if (options.has_key_stream())
        options.sa.nonce = load_be32(need_key(keys, map, options.name, "nonce", 4, cipher).bytes.data());
    else refuse_key(keys, map, options.name, "nonce", cipher);
    if (choice.cipher == Cipher::null) return refuse_key(keys, map, options.name, "key", cipher);
    options.key = need_key(keys, map, options.name, "key", choice.key_bytes, cipher);
    options.expand_key();
}

void set_auth(SaOptions& options, const Config& map, const KeyFile& keys) {
    const auto word = map.find("auth");
    Sa& sa = options.sa;
    if (sa.cipher == Cipher::aes_gcm) {
        if (word) word->fail("AES-GCM authenticates by itself", "take 'auth' out; 'icv' says how long the ICV is");
        refuse_key(keys, map, options.name, "auth-key", "AES-GCM");
        const auto icv = map.find("icv");
        const size_t choice = icv ? icv->choice({"16", "12", "8"}) : 0;
        sa.icv_bytes = static_cast<uint8_t>(16 - 4 * choice);
        return;
    }
    if (const auto icv = map.find("icv")) icv->fail("only AES-GCM has ICVs of several lengths", "take 'icv' out");
    const size_t choice = word ? word->choice({"hmac-sha1-96", "hmac-sha256-128", "none"}) : 0;
    if (choice < 2) {
        sa.auth = choice == 0 ? Auth::hmac_sha1_96 : Auth::hmac_sha256_128;
        options.auth_key = choice == 0 ? need_key(keys, map, options.name, "auth-key", 20, "hmac-sha1-96")
                                       : need_key(keys, map, options.name, "auth-key", 32, "hmac-sha256-128");
        options.expand_auth_key();
        return;
    }
    refuse_key(keys, map, options.name, "auth-key", "'auth: none'");
    if (sa.cipher == Cipher::aes_ctr)
        word->fail("counter mode without authentication can be forged at will",
                   "RFC 3686, section 2.2, demands it: use hmac-sha256-128 or hmac-sha1-96");
    if (sa.cipher == Cipher::null) word->fail("an SA with neither encryption nor authentication protects nothing");
}

/// `mode`, `esn` and `encapsulation`.
void set_form(SaOptions& options, const Config& map) {
    Sa& sa = options.sa;
    if (const auto mode = map.find("mode")) sa.transport = mode->choice({"tunnel", "transport"}) == 1;
    if (sa.transport && sa.any_remote)
        map.at("mode").fail("transport mode is between two addresses", "name the other one: 'remote: …'");
    sa.extended = map.boolean_or("esn", false);
    if (sa.extended && !options.is_authentic())
        map.at("esn").fail("without authentication nobody can tell the upper half of a sequence number",
                           "set an 'auth', or take 'esn' out");
    const auto encapsulation = map.find("encapsulation");
    sa.in_udp = encapsulation && encapsulation->choice({"none", "udp"}) == 1;
    if (sa.in_udp && sa.transport)
        encapsulation->fail("ESP in UDP goes with tunnel mode only",
                            "behind a NAT the checksums inside would be those of other addresses");
    if (const auto port = map.find("remote-port")) {
        if (!sa.in_udp) port->fail("only ESP in UDP has ports", "set 'encapsulation: udp'");
        sa.remote_port = static_cast<uint16_t>(port->integer(1, 65535));
    } else if (sa.in_udp) {
        sa.remote_port = 4500;
    }
}

void set_ends(SaOptions& options, const Config& map) {
    Sa& sa = options.sa;
    const Prefix local = read_host(map.at("local"));
    sa.ipv6 = local.ipv6;
    sa.local = address_of(local);
    const auto remote = map.find("remote");
    sa.any_remote = !remote;
    if (!remote) {
        if (!options.inbound)
            map.fail("SA '" + options.name + "' has no 'remote'",
                     "an outbound tunnel needs the address of its other end");
        return;
    }
    const Prefix other = read_host(*remote);
    if (other.ipv6 != local.ipv6) remote->fail("'local' and 'remote' are not of the same IP version");
    sa.remote = address_of(other);
}

void set_inbound(SaOptions& options, const Config& map, const Environment& environment) {
    const bool verified = options.is_authentic();
    const auto window = map.find("replay-window");
    options.sa.replay_window = window ? static_cast<uint32_t>(window->integer(0, kMaxReplayWindow)) : verified ? 64 : 0;
    if (!verified && options.sa.replay_window != 0)
        window->fail("replays cannot be told without authentication", "set 'replay-window: 0' or 'auth: hmac-sha1-96'");
    if (options.sa.extended && options.sa.replay_window == 0)
        window->fail("extended sequence numbers are told by the anti-replay window",
                     "RFC 4303, section 3.4.3: set a window, or take 'esn' out");
    if (const auto allow = map.find("allow")) {
        for (const Config& item : allow->items()) {
            item.only(classify::FiveTupleMatch::keys());
            for (const Selector& selector : read_selectors(item)) options.allow.push_back(selector);
        }
    } else {
        options.allow.resize(2);
        options.allow[1].ipv6 = true;
        Diagnostic warning = map.diagnostic(
            "SA '" + options.name + "' lets packets between any two addresses out of its tunnel",
            "name the addresses behind its other end: 'allow: [{src: …, dst: …}]'");
        warning.severity = Diagnostic::Severity::warning;
        warning.secret = true;
        environment.warn(std::move(warning));
    }
}

void set_outbound(SaOptions& options, const Config& map) {
    options.sa.ttl = static_cast<uint8_t>(map.integer_or("ttl", 64, 1, 255));
    options.sa.copy_dscp = map.boolean_or("copy-dscp", true);
    if (const auto df = map.find("df"))
        options.sa.dont_fragment = static_cast<DontFragment>(df->choice({"copy", "set", "clear"}));
}

Lifetime read_lifetime(const Config& map) {
    map.only({"packets", "bytes", "time"});
    Lifetime lifetime;
    const auto count = [&](const char* key, uint64_t& to) {
        if (const auto value = map.find(key))
            to = static_cast<uint64_t>(value->integer(1, std::numeric_limits<int64_t>::max()));
    };
    count("packets", lifetime.packets);
    count("bytes", lifetime.bytes);
    if (const auto time = map.find("time")) lifetime.time = time->duration();
    if (!lifetime.ends()) map.fail("a lifetime without an end", "name 'packets', 'bytes' or 'time'");
    return lifetime;
}

/// The soft lifetime is nine tenths of the hard one unless it is given.
void set_lifetimes(SaOptions& options, const Config& map) {
    const Lifetime endless;
    if (const auto hard = map.find("lifetime")) {
        options.hard = options.soft = read_lifetime(*hard);
        if (options.hard.packets != endless.packets) options.soft.packets -= options.hard.packets / 10;
        if (options.hard.bytes != endless.bytes) options.soft.bytes -= options.hard.bytes / 10;
        if (options.hard.time != endless.time) options.soft.time -= options.hard.time / 10;
    }
    if (const auto soft = map.find("soft-lifetime")) {
        options.soft = read_lifetime(*soft);
        const auto later = [](auto soft_end, auto hard_end, auto none) {
            return soft_end != none && soft_end > hard_end;
        };
        if (later(options.soft.packets, options.hard.packets, endless.packets) ||
            later(options.soft.bytes, options.hard.bytes, endless.bytes) ||
            later(options.soft.time, options.hard.time, endless.time))
            soft->fail("longer than the lifetime", "the soft lifetime ends first");
    }
    options.sa.counts_bytes = options.hard.bytes != endless.bytes || options.soft.bytes != endless.bytes;
}

SaOptions read_sa(const Config& map, const KeyFile& keys, const Environment& environment) {
    const bool inbound = map.at("direction").choice({"in", "out"}) == 0;
    std::vector<std::string> known = {"name", "direction",     "spi",      "local",        "remote", "cipher",
                                      "key",  "nonce",         "auth",     "auth-key",     "icv",    "mode",
                                      "esn",  "encapsulation", "lifetime", "soft-lifetime"};
    for (const char* key : {"replay-window", "allow"})
        if (inbound) known.push_back(key);
    for (const char* key : {"ttl", "df", "copy-dscp", "remote-port"})
        if (!inbound) known.push_back(key);
    map.only(known);
    SaOptions options = SaOptions::at(map);
    options.name = map.at("name").text();
    options.inbound = inbound;
    // SPIs below 256 are not for use (RFC 4303, section 2.1).
    options.sa.spi = static_cast<uint32_t>(map.at("spi").integer(256, 0xffffffff));
    set_ends(options, map);
    set_cipher(options, map, keys);
    set_auth(options, map, keys);
    set_form(options, map);
    if (inbound) set_inbound(options, map, environment);
    else set_outbound(options, map);
    set_lifetimes(options, map);
    for (const auto* key : {&options.key, &options.auth_key}) {
        if (key->bytes.empty() || !is_weak(*key)) continue;
        Diagnostic warning = map.diagnostic("a key of SA '" + options.name + "' is one byte repeated",
                                            "make one with: openssl rand -hex 20");
        warning.severity = Diagnostic::Severity::warning;
        warning.secret = true;
        environment.warn(std::move(warning));
    }
    return options;
}

/// Whether anyone may read the file that the options came from.
void warn_of_inline_keys(const Config& sas, const Environment& environment) {
    struct stat status{};
    if (stat(sas.where().file.c_str(), &status) != 0 || (status.st_mode & S_IROTH) == 0) return;
    Diagnostic warning = sas.diagnostic(
        "keys stand in a file that everyone on this machine may read",
        "put them into a file of their own ('keys: …', mode 600), or run: chmod o-r " + sas.where().file);
    warning.severity = Diagnostic::Severity::warning;
    warning.secret = true;
    environment.warn(std::move(warning));
}

}  // namespace

void read_sas(Options& result, KnownSas& known, const Config& options, const Environment& environment) {
    const auto sas = options.find("sas");
    const auto file = options.find("keys");
    const KeyFile keys = file ? KeyFile(*file) : KeyFile();
    if (!sas) return keys.only_of(result.sas);
    bool inline_keys = false;
    for (const Config& map : sas->items()) {
        inline_keys = inline_keys || map.has("key") || map.has("auth-key");
        result.sas.push_back(read_sa(map, keys, environment));
        known.add(result.sas);
    }
    keys.only_of(result.sas);
    if (inline_keys) warn_of_inline_keys(*sas, environment);
}

void SaOptions::expand_key() {
    auto schedule = crypto::aes_key_schedule(key.bytes);
    sa.rounds = static_cast<uint8_t>(schedule.size() / 4 - 1);
    auto inverse = crypto::aes_inverse_schedule(schedule);
    std::copy(schedule.begin(), schedule.end(), sa.keys);
    std::copy(inverse.begin(), inverse.end(), sa.inverse_keys);
    // The key of the IVs of CBC is made of blocks that no counter and no packet leads to but by chance.
    Secret iv_key{std::vector<uint8_t>(key.bytes.size())};
    crypto::AesBlock label{{0x6d696c6c, 0x72616365, 0x20657370, 0x20697620}};
    for (size_t at = 0; at < iv_key.bytes.size(); at += crypto::kAesBlockBytes, ++label.words[3])
        crypto::store_block(iv_key.bytes.data() + at,
                            crypto::aes_encrypt(crypto::host_aes_tables(), sa.keys, sa.rounds, label));
    auto iv_schedule = crypto::aes_key_schedule(iv_key.bytes);
    std::copy(iv_schedule.begin(), iv_schedule.end(), sa.iv_keys);
    for (auto* words : {&schedule, &inverse, &iv_schedule})
        explicit_bzero(words->data(), words->size() * sizeof(uint32_t));
}

void SaOptions::expand_auth_key() {
    if (sa.auth == Auth::hmac_sha1_96) sa.hmac_sha1 = crypto::hmac_key<crypto::Sha1>(auth_key.bytes);
    if (sa.auth == Auth::hmac_sha256_128) sa.hmac_sha256 = crypto::hmac_key<crypto::Sha256>(auth_key.bytes);
    const uint32_t bytes = sa.auth == Auth::none ? 0 : sa.auth == Auth::hmac_sha1_96 ? kSha1IcvBytes : kMaxIcvBytes;
    sa.icv_bytes = static_cast<uint8_t>(bytes);
}

std::string SaOptions::identity() const {
    const auto text = [](const auto& bytes) { return std::string(bytes.begin(), bytes.end()) + '\0'; };
    std::string id = inbound ? "in" : "out";
    // CTR and GCM are one: under one key their key streams are.
    const Cipher family = has_key_stream() ? Cipher::aes_ctr : sa.cipher;
    id += static_cast<char>('0' + static_cast<int>(family));
    id += text(key.bytes);
    // Whoever keeps the key and nonce of a counter mode must go on counting, whatever else changes.
    if (!inbound && has_key_stream()) return id + std::to_string(sa.nonce);
    return id + text(auth_key.bytes) + std::to_string(sa.nonce) + '/' + std::to_string(sa.spi);
}

}  // namespace millrace::nf::ipsec
