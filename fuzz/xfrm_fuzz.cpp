// Any bytes as what the kernel tells of SAs and policies: what is read is sound, and the gateway's database takes it.
#include <cstdlib>

#include "fuzz/entry.hpp"
#include "millrace/nf/ipsec/kernel/database.hpp"

namespace xfrm_fuzz {

using namespace millrace;
using namespace millrace::nf::ipsec;

void require(bool holds) {
    if (!holds) std::abort();
}

/// Checks what comes, and hands it on.
class Checks : public XfrmListener {
public:
    explicit Checks(XfrmDatabase& database) : database_(database) {}
    void on_sa(const XfrmSa& sa) override {
        for (const XfrmAlgorithm* algorithm : {&sa.cipher, &sa.auth, &sa.aead})
            require(algorithm->name.size() <= 64 && algorithm->key.bytes.size() <= 512);
        database_.on_sa(sa);
    }
    void on_sa_gone(const XfrmId& id) override { database_.on_sa_gone(id); }
    void on_policy(const XfrmPolicy& policy) override {
        require(policy.direction < 3 && policy.templates.size() <= 6);
        check(policy.selector);
        database_.on_policy(policy);
    }
    void on_policy_gone(const Selector& selector, uint8_t direction) override {
        check(selector);
        database_.on_policy_gone(selector, direction);
    }
    void on_flush(bool policies) override { database_.on_flush(policies); }
    void on_hidden_change() override { database_.on_hidden_change(); }
    void on_answered(uint32_t, int error) override { require(error >= 0 && error < 4096); }
    void on_malformed() override { require(++malformed_ <= 4000); }

private:
    static void check(const Selector& selector) {
        for (unsigned i = 0; i < 4; ++i) {
            require((selector.src.words[i] & ~selector.src_mask.words[i]) == 0);
            require((selector.dst.words[i] & ~selector.dst_mask.words[i]) == 0);
            require(selector.ipv6 || i == 0 || (selector.src_mask.words[i] | selector.dst_mask.words[i]) == 0);
        }
    }
    XfrmDatabase& database_;
    int malformed_ = 0;
};

MILLRACE_FUZZER(xfrm)(const uint8_t* data, size_t size) {
    if (size > 32000) return 0;  // so that there are at most 2,000 messages in each piece
    XfrmDatabase database(4500, Config::parse("{}"), [](const std::string&, const std::string&) {});
    Checks checks(database);
    // In two pieces: the first may end within a message.
    parse_xfrm({data, size / 2}, checks);
    parse_xfrm({data, size}, checks);
    Options options;
    database.add_to(options);
    require(options.policies.size() == database.policies() && options.sas.size() <= database.sas());
    for (const PolicyOptions& policy : options.policies)
        for (const uint32_t sa : policy.sas) require(sa < options.sas.size() && !options.sas[sa].inbound);
    for (const SaOptions& sa : options.sas) {
        require(sa.sa.spi >= 256 && (sa.sa.rounds == 10 || sa.sa.rounds == 14));
        require(sa.sa.icv_bytes >= 8 && sa.sa.icv_bytes <= kMaxIcvBytes && sa.sa.replay_window <= kMaxReplayWindow);
    }
    database.begin_resync();
    database.end_resync();
    require(database.sas() == 0 && database.policies() == 0);
    return 0;
}

}  // namespace xfrm_fuzz
