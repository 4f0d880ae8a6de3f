#include "millrace/nf/ipsec/host.hpp"

#include <fmt/format.h>

#include <bit>
#include <set>

#include "millrace/nf/crypto/keys.hpp"
#include "millrace/nf/ipsec/cpu/policy_search.hpp"

namespace millrace::nf::ipsec {
namespace {

void add_once(std::vector<Address>& addresses, const Address& address) {
    for (const Address& known : addresses)
        if (equal(known.words, address.words, true)) return;
    addresses.push_back(address);
}

}  // namespace

IpsecHost::IpsecHost(const Config& options, const Environment& environment)
    : configured_(std::make_shared<const Options>(read_options(options, environment))), options_(configured_),
      warn_(environment.warn), searcher_(environment.on_device ? classify::Searcher::gpu : classify::Searcher::core) {
    take_state(options, environment);
    if (configured_->kernel && environment.live) follow_kernel(options, environment);
    if (const auto* before = dynamic_cast<const IpsecHost*>(environment.previous)) retire_gone(*before);
    build(options.where());
}

IpsecHost::IpsecHost(const IpsecHost& previous, Standing standing)
    : configured_(previous.configured_), options_(previous.options_), state_(previous.state_),
      lifetimes_(previous.lifetimes_), sas_(previous.sas_), base_(previous.base_), standing_(std::move(standing)),
      commits_(previous.commits_), watch_(previous.watch_), kernel_version_(previous.kernel_version_),
      next_kernel_(previous.next_kernel_), warn_(previous.warn_), searcher_(previous.searcher_) {
    attach_standing();
}

IpsecHost::IpsecHost(const IpsecHost& previous, Options options, uint64_t kernel_version)
    : configured_(previous.configured_), options_(std::make_shared<const Options>(std::move(options))),
      state_(previous.state_), watch_(previous.watch_), kernel_version_(kernel_version), warn_(previous.warn_),
      searcher_(previous.searcher_) {
    retire_gone(previous);
    build({});
}

/// The kernel's SAs that `previous` has, and this generation has not.
void IpsecHost::retire_gone(const IpsecHost& previous) {
    std::set<std::string> still;
    for (const SaOptions& sa : options_->sas) still.insert(sa.identity());
    for (size_t i = previous.configured_->sas.size(); i < previous.options_->sas.size(); ++i)
        if (const std::string identity = previous.options_->sas[i].identity(); !still.contains(identity))
            state_->retire(identity);
}

/// Anti-replay does, and lifetimes by bytes.
bool IpsecHost::asks_for_commit() const {
    return configured_->kernel || std::ranges::any_of(options_->sas, [](const SaOptions& configured) {
               return configured.sa.counts_bytes || (configured.inbound && configured.sa.replay_window > 0);
           });
}

/// Slots, lifetimes and tables of `options_`. `where`: what errors point at.
void IpsecHost::build(Location where) {
    commits_ = asks_for_commit();
    const std::vector<uint32_t> slots = take_slots(where);
    const auto on_end = [watch = watch_](const SaOptions& sa, Age age) {
        if (sa.kernel && watch != nullptr) watch->tell_end(id_of(sa), age == Age::hard);
    };
    lifetimes_ = std::make_shared<Lifetimes>(options_, state_, slots, on_end, warn_);
    standing_ = lifetimes_->look(Lifetimes::Clock::now());
    attach_base(where, slots);
    attach_standing();
}

/// Only where packets will flow sequence numbers are used, and reserved.
void IpsecHost::take_state(const Config& options, const Environment& environment) {
    const std::string& file = options_->sequence_file;
    if (auto* before = dynamic_cast<IpsecHost*>(environment.previous)) {
        state_ = before->state_;
        const std::string known = state_->file() != nullptr ? state_->file()->path() : "";
        if (environment.live && known != file)
            options.fail("'sequence-file' can't change while packets flow", "restart the program");
        return;
    }
    // Who asks for something of its own gets it, and the kernel's SAs come and go.
    const bool has_own = options.has("sa-slots") || !file.empty() || configured_->kernel;
    state_ = has_own || environment.siblings == nullptr ? std::make_shared<SaState>(options_->slots)
                                                        : take_common(*environment.siblings);
    if (environment.live && !file.empty())
        state_->keep_in(std::make_unique<SequenceFile>(file, options_->sequence_file_at));
}

/// The state of other chains' gateways at this place that have the same device half: a device numbers the packets of
/// all of them at once. Half of it stays free for SAs that come later.
std::shared_ptr<SaState> IpsecHost::take_common(Siblings& siblings) const {
    constexpr size_t kMany = 65536;
    for (size_t k = 0;; ++k) {
        std::weak_ptr<void>& place = siblings.state[fmt::format("{}/{}/{}", variant(), asks_for_commit(), k)];
        auto common = std::static_pointer_cast<SaState>(place.lock());
        if (common != nullptr && common->given_out_slots() + options_->sas.size() > common->slots() / 2) continue;
        if (common == nullptr) {
            common = std::make_shared<SaState>(k == 0 ? options_->slots : kMany);
            place = common;
        }
        return common;
    }
}

std::vector<uint32_t> IpsecHost::take_slots(const Location& where) {
    std::vector<uint32_t> slots;
    for (const SaOptions& configured : options_->sas) {
        const auto slot = state_->slot_of(configured.identity(), configured.inbound,
                                          configured.kernel ? configured.kernel->bytes : 0);
        if (!slot)
            throw ConfigError({where,
                               "there is no room for the state of SA '" + configured.name + "': " +
                                   std::to_string(state_->slots()) + " SAs have been known since this node started",
                               "restart the node with a larger 'sa-slots' and fresh keys"});
        slots.push_back(*slot);
    }
    return slots;
}

void IpsecHost::attach_base(const Location& where, const std::vector<uint32_t>& slots) {
    const auto base = std::make_shared<Image>();
    Tables& tables = base->start<Tables>();
    std::vector<Sa> sas;
    std::vector<Selector> selectors;
    std::vector<Address> local[2];
    std::vector<crypto::GhashKey> ghash;
    uint64_t used = 0;
    for (const SaOptions& configured : options_->sas) {
        Sa sa = configured.sa;
        sa.slot = slots[sas.size()];
        sa.before = state_->record(sa.slot).before;
        if (sa.cipher == Cipher::aes_gcm) {
            sa.ghash = static_cast<uint32_t>(ghash.size());
            ghash.push_back(crypto::ghash_key(std::span(configured.sa.keys, 4u * (sa.rounds + 1u))));
        }
        if (sa.in_udp) tables.udp_port = options_->udp_port;
        sa.first_selector = static_cast<uint32_t>(selectors.size());
        sa.selector_count = static_cast<uint32_t>(configured.allow.size());
        selectors.insert(selectors.end(), configured.allow.begin(), configured.allow.end());
        add_once(local[sa.ipv6], sa.local);
        used = std::max<uint64_t>(used, sa.slot + 1);
        sas.push_back(sa);
    }
    tables.mtu = options_->mtu;
    tables.mtu_spares_fragmentable = options_->mtu_spares_fragmentable;
    tables.tells_ipv4 = options_->icmp_ipv4.has_value();
    tables.tells_ipv6 = options_->icmp_ipv6.has_value();
    tables.icmp_ipv4 = options_->icmp_ipv4.value_or(Address{});
    tables.icmp_ipv6 = options_->icmp_ipv6.value_or(Address{});
    tables.default_action = options_->default_action;
    base->attach(tables.aes_encrypt, crypto::aes_encrypt_table());
    base->attach(tables.aes_decrypt, crypto::aes_decrypt_table());
    const std::vector<Policy> policies = make_policies();
    try {
        if (policies.size() > kFewPolicies) attach_policy_search(policies, searcher_, *base, tables.search);
    } catch (const classify::TablesTooLarge&) {
        throw ConfigError(
            {where,
             "the tables of these " + std::to_string(options_->policies.size()) + " policies take more than 1 GiB",
             "use fewer of them, or wider prefixes"});
    }
    sas_ = std::make_shared<const std::vector<Sa>>(std::move(sas));
    base->attach(tables.sas, sas_);
    base->attach_some(tables.ghash, std::move(ghash));
    base->attach(tables.selectors, std::move(selectors));
    base->attach(tables.local_ipv4, std::move(local[0]));
    base->attach(tables.local_ipv6, std::move(local[1]));
    base->attach_state(tables.tickets, state_->tickets, "sequence-numbers", used);
    base->attach_state(tables.windows, state_->windows, "replay-windows", commits() ? used * kWindowWords : 0);
    const bool counts = std::any_of(sas_->begin(), sas_->end(), [](const Sa& sa) { return sa.counts_bytes; });
    base->attach_state(tables.bytes, state_->bytes, "bytes", counts ? used : 0);
    base_ = base;
}

void IpsecHost::attach_standing() {
    Tables& tables = image_.start_from<Tables>(*base_);
    image_.attach(tables.policies, make_policies());
    image_.attach(tables.inbound, make_inbound_index());
    image_.attach_some(tables.limits, standing_.limits);
}

std::shared_ptr<NetworkFunction> IpsecHost::next() {
    tell_use();
    if (auto made = next_of_kernel()) return made;
    if (!lifetimes_->followed()) return nullptr;
    Standing now = lifetimes_->look(Lifetimes::Clock::now());
    return now == standing_ ? nullptr : std::make_shared<IpsecHost>(*this, std::move(now));
}

std::vector<Policy> IpsecHost::make_policies() const {
    std::vector<Policy> policies;
    for (uint32_t i = 0; i < options_->policies.size(); ++i) {
        const PolicyOptions& policy = options_->policies[i];
        for (const Selector& selector : policy.selectors)
            policies.push_back({selector, standing_.protects[i], i, policy.action});
        if (policy.action != Action::protect) continue;
        // A flow that must be protected one way must not come in clear the other way (RFC 4301, section 5.2, step 3a).
        for (const Selector& selector : policy.selectors)
            policies.push_back({reversed(selector), 0, i | kReversed, Action::discard});
    }
    return policies;
}

std::vector<uint32_t> IpsecHost::make_inbound_index() const {
    std::vector<uint32_t> index(std::bit_ceil(2 * sas_->size() + 2));
    for (uint32_t i = 0; i < sas_->size(); ++i) {
        if (!options_->sas[i].inbound || standing_.dead[i]) continue;
        uint64_t at = spi_bucket((*sas_)[i].spi, index.size());
        while (index[at] != 0) at = (at + 1) & (index.size() - 1);
        index[at] = i + 1;
    }
    return index;
}

Growth IpsecHost::growth(const Growth& of_type) const {
    if (configured_->kernel) return {kKernelHeadGrowth, of_type.tail};  // its SAs come and go
    Growth growth;
    if (configured_->icmp_ipv4) growth.head = icmp::error_head_bytes(false);
    if (configured_->icmp_ipv6) growth.head = icmp::error_head_bytes(true);
    for (const SaOptions& configured : options_->sas) {
        if (configured.inbound) continue;
        const Sa& sa = configured.sa;
        growth.head = std::max(growth.head, head_bytes_of<Complete>(sa));
        growth.tail = std::max(growth.tail, alignment_of<Complete>(sa) - 1 + kEspTrailerBytes + sa.icv_bytes);
    }
    return growth;
}

/// The smallest device half that does what the SAs ask for.
std::string_view IpsecHost::variant() const {
    if (configured_->kernel || configured_->icmp_ipv4 || configured_->icmp_ipv6) return "complete";
    const auto all = [&](auto&& is) {
        return std::all_of(options_->sas.begin(), options_->sas.end(), [&](const SaOptions& sa) { return is(sa.sa); });
    };
    const auto is_plain = [](const Sa& sa) { return !sa.transport && !sa.in_udp && !sa.counts_bytes; };
    if (all([&](const Sa& sa) {
            return is_plain(sa) && !sa.extended && sa.rounds == crypto::kAes128Rounds && sa.cipher != Cipher::aes_gcm &&
                   sa.auth != Auth::hmac_sha256_128;
        }))
        return "";
    return all([&](const Sa& sa) { return is_plain(sa) && sa.cipher == Cipher::aes_gcm; }) ? "gcm" : "complete";
}

std::unique_ptr<CpuHalf> IpsecHost::make_cpu_half() {
    return make_ipsec_cpu_half(*static_cast<const Tables*>(image_.tables()), *options_, state_);
}

std::string IpsecHost::explain(const Decision& decision) const {
    if (decision.outcome == kBypass || decision.outcome == kDiscardedByPolicy) {
        if (decision.detail == kDefaultPolicy) return "no policy matches";
        const uint32_t number = decision.detail & ~kReversed;
        if (number >= options_->policies.size()) return {};
        const Location& where = options_->policies[number].where;
        return "policy " + std::to_string(number + 1) + " (" + where.file + ":" + std::to_string(where.line) + ")" +
               ((decision.detail & kReversed) != 0 ? ", in clear from where it must come protected" : "");
    }
    if (decision.detail >= options_->sas.size()) return {};
    const SaOptions& sa = options_->sas[decision.detail];
    return "sa " + sa.name + " spi " + fmt::format("{:#x}", sa.sa.spi);
}

std::vector<Statistic> IpsecHost::statistics() const {
    std::vector<Statistic> result;
    for (size_t i = 0; i < sas_->size(); ++i) {
        const SaOptions& configured = options_->sas[i];
        const uint32_t slot = (*sas_)[i].slot;
        if (configured.inbound)
            result.push_back({"sa-" + configured.name + "-highest-sequence", state_->highest(slot),
                              "highest sequence number that was accepted"});
        result.push_back({"sa-" + configured.name + (configured.inbound ? "-received" : "-sequence"),
                          configured.inbound ? state_->received(slot) : state_->given_out(slot),
                          configured.inbound ? "ESP packets that named this SA" : "sequence numbers given out"});
    }
    if (lifetimes_->followed()) {
        result.push_back({"soft-ends", state_->soft_ends, "times that an SA came near the end of its lifetime"});
        result.push_back({"hard-ends", state_->hard_ends, "times that an SA came to the end of its lifetime"});
    }
    if (watch_ == nullptr) return result;
    const XfrmWatch::Counts counts = watch_->counts();
    result.push_back({"kernel-sas", counts.sas, "SAs of the kernel that can be served"});
    result.push_back({"kernel-policies", counts.policies, "policies of the kernel"});
    result.push_back({"kernel-resyncs", counts.resyncs, "times that the kernel was asked for everything again"});
    result.push_back({"kernel-malformed", counts.malformed, "messages of the kernel that could not be read"});
    return result;
}

std::string IpsecHost::summary() const {
    size_t inbound = 0;
    for (const SaOptions& sa : options_->sas) inbound += sa.inbound;
    return std::string(configured_->kernel ? "follows the kernel: " : "") +
           std::to_string(options_->sas.size() - inbound) + " outbound and " + std::to_string(inbound) +
           " inbound SAs, " + std::to_string(options_->policies.size()) + " policies, " +
           std::to_string(image_.array_bytes() / 1024) + " KiB";
}

namespace {

std::vector<nf::Outcome> outcomes() {
    using enum Disposition;
    // In the order of ipsec::Outcome.
    return {{"protected", next, "encrypted, authenticated and put into its tunnel"},
            {"unprotected", next, "verified, decrypted and taken out of its tunnel"},
            {"bypass", next, "a policy lets it pass as it is"},
            {"not-ip", next, "not IP: IPsec has no say"},
            {"discarded-by-policy", drop, "a policy discards it, or none matches"},
            {"no-sa", drop, "ESP for this gateway with an SPI or source that no inbound SA has"},
            {"fragment", drop, "a fragment of an ESP packet: reassemble before this NF"},
            {"malformed", drop, "the parser cannot read its headers"},
            {"malformed-esp", drop, "too short for its SA, or not a whole number of blocks"},
            {"bad-icv", drop, "the integrity check failed: forged, damaged, or another key"},
            {"replayed", drop, "its sequence number came before, or lies behind the anti-replay window"},
            {"bad-padding", drop, "decrypted, but its padding is not 1, 2, 3, …"},
            {"dummy", drop, "a dummy packet that hides traffic (RFC 4303, section 2.6)"},
            {"bad-next-header", drop, "decrypted, but neither IPv4 nor IPv6 is inside"},
            {"malformed-inner", drop, "decrypted, but the inner headers cannot be read"},
            {"selector-mismatch", drop, "decrypted, but its SA may not carry these addresses, protocol or ports"},
            {"bad-ecn", drop, "congestion experienced outside, not ECN-capable inside (RFC 6040, section 4.2)"},
            {"mtu-exceeded", drop, "would be longer than the MTU in its tunnel"},
            {"no-room", drop, "the packet buffer has no room for the tunnel's headers"},
            {"sequence-exhausted", drop, "its SA has used up all sequence numbers: it needs a new key"},
            {"nat-keepalive", drop, "keeps a NAT's binding (RFC 3948, section 2.3), and says nothing"},
            {"sequence-unreserved", drop, "the next sequence numbers of its SA are not yet reserved on disk"},
            {"expired", drop, "its SA has come to the end of its lifetime"},
            {"too-big-answered", next, "too long for its tunnel: now the ICMP error for its sender ('icmp-from')"}};
}

Declaration declaration() {
    return {.name = "ipsec",
            .summary = "IPsec gateway: ESP with AES-CTR, AES-CBC or AES-GCM, HMAC-SHA1-96 or HMAC-SHA-256-128",
            .outcomes = outcomes(),
            .device_header = "millrace/nf/ipsec/device.hpp",
            .device_struct = "millrace::nf::ipsec::Ipsec",
            .head_growth = kHeadGrowth,
            .tail_growth = kTailGrowth<Complete>,
            .has_cpu_half = true};
}
Declaration variant(const char* name, const char* device_struct) {
    Declaration made = declaration();
    made.name += std::string(":") + name;
    made.device_struct = device_struct;
    return made;
}

const Register<Ipsec, IpsecHost> registration{declaration()};
const Register<GcmIpsec, IpsecHost> gcm_registration{variant("gcm", "millrace::nf::ipsec::GcmIpsec")};
const Register<CompleteIpsec, IpsecHost> complete_registration{
    variant("complete", "millrace::nf::ipsec::CompleteIpsec")};

}  // namespace
}  // namespace millrace::nf::ipsec
