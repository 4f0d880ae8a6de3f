// The options of the IPsec gateway, read from YAML and checked.
#pragma once

#include <chrono>
#include <optional>
#include <string>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/nf/ipsec/model.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::nf::ipsec {

/// Key material, wiped when it goes.
struct Secret {
    std::vector<uint8_t> bytes;
    Secret() = default;
    explicit Secret(std::vector<uint8_t> b) : bytes(std::move(b)) {}
    Secret(const Secret&) = default;
    Secret(Secret&&) = default;
    Secret& operator=(const Secret&) = default;
    Secret& operator=(Secret&&) = default;
    ~Secret();
};

/// How long an SA serves; what is not limited has the largest value.
struct Lifetime {
    uint64_t packets = ~uint64_t{0}, bytes = ~uint64_t{0};
    std::chrono::nanoseconds time = std::chrono::nanoseconds::max();
    friend bool operator==(const Lifetime&, const Lifetime&) = default;
    bool ends() const {
        return packets != ~uint64_t{0} || bytes != ~uint64_t{0} || time != std::chrono::nanoseconds::max();
    }
};

/// What the Linux kernel has counted of an SA of its own; times in seconds by its clock, 0: never.
struct KernelUse {
    uint64_t added = 0, first_used = 0, bytes = 0, packets = 0;
};

/// One SA as it was configured.
struct SaOptions {
    std::string name;
    bool inbound = false;
    Sa sa;  ///< without slot and selectors, which come with the tables
    Secret key, auth_key;
    std::vector<Selector> allow;
    Lifetime hard, soft;  ///< behind the first it ends, behind the second another one is preferred
    Config where;
    std::optional<KernelUse> kernel;  ///< of the kernel's SAs: as it was told

    /// One of which nothing is known but where it was configured.
    static SaOptions at(const Config& where) { return {{}, false, {}, {}, {}, {}, {}, {}, where, {}}; }

    /// Fill `sa` with what is worked out of `key`, of `auth_key` once.
    void expand_key();
    void expand_auth_key();
    bool is_authentic() const { return sa.auth != Auth::none || sa.cipher == Cipher::aes_gcm; }
    /// Whether it encrypts with a key stream, no block of which may be used twice: CTR and GCM alike make it of key,
    /// nonce and count.
    bool has_key_stream() const { return sa.cipher == Cipher::aes_ctr || sa.cipher == Cipher::aes_gcm; }
    /// What its sequence numbers belong to. Two SAs with the same identity must never both count from 1.
    std::string identity() const;
};

struct PolicyOptions {
    std::vector<Selector> selectors;
    Action action = Action::discard;
    std::vector<uint32_t> sas;  ///< of `protect`: the first that has not come near its end serves
    Location where;
};

struct Options {
    std::vector<SaOptions> sas;
    std::vector<PolicyOptions> policies;
    uint32_t mtu = 1500;
    bool mtu_spares_fragmentable = false;
    std::optional<Address> icmp_ipv4, icmp_ipv6;  ///< where errors about too long packets come from
    Action default_action = Action::discard;
    uint16_t udp_port = 4500;  ///< of ESP in UDP
    size_t slots = 4096;
    std::string sequence_file;  ///< empty: sequence numbers begin anew with each process
    Location sequence_file_at;
    bool kernel = false;  ///< SAs and policies of the Linux kernel come behind these
};

/// Throws ConfigError; no error shows key material.
Options read_options(const Config& options, const Environment& environment);

/// The selectors of `src`, `dst`, `protocol`, `src-port`, `dst-port` of a map; other keys are left to the caller.
std::vector<Selector> read_selectors(const Config& map);
/// The same flow as seen from the other end.
Selector reversed(const Selector& selector);

/// The keys of `keys:` files: of each SA's name, its `key`, `nonce` and `auth-key`.
class KeyFile {
public:
    KeyFile() = default;
    /// `named` holds the file's name. Throws ConfigError when others than its owner can read it.
    explicit KeyFile(const Config& named);
    /// The hexadecimal digits of `field` of an SA: from its own map or from the file, not from both.
    std::optional<Secret> find(const Config& sa, const std::string& sa_name, const std::string& field) const;
    /// Refuses keys of SAs that do not exist.
    void only_of(const std::vector<SaOptions>& sas) const;

private:
    std::optional<Config> keys_;
};

/// Throws an error that points at `place` without showing its line.
[[noreturn]] void fail_secretly(const Config& place, const std::string& message, const std::string& hint = {});

}  // namespace millrace::nf::ipsec
