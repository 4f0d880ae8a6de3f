// The tables of the bare loop, built with the libraries' own calls.
#include <rte_errno.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <stdexcept>

#include "bare_loop.hpp"
#include "millrace/base/files/file.hpp"
#include "millrace/nf/classify/rules/classbench.hpp"
#include "millrace/nf/classify/rules/text_rules.hpp"
#include "millrace/packet/bytes.hpp"

namespace millrace::lab {
namespace {

// Offsets from the IPv4 header on, which is 20 bytes long in all of this traffic.
constexpr uint32_t kFields = 6;
RTE_ACL_RULE_DEF(AclRule, kFields);

std::string unique(const char* name) {
    static std::atomic<unsigned> number{0};
    return std::string("bare-") + name + std::to_string(number++);
}

void require(int result, const char* what) {
    if (result != 0) throw std::runtime_error(std::string("bare loop: ") + what + ": " + std::strerror(-result));
}

rte_acl_config acl_config() {
    rte_acl_config config{};
    config.num_categories = 1;
    config.num_fields = kFields;
    config.defs[0] = {RTE_ACL_FIELD_TYPE_BITMASK, 1, 0, 0, 9};  // protocol
    config.defs[1] = {RTE_ACL_FIELD_TYPE_MASK, 4, 1, 1, 12};    // source
    config.defs[2] = {RTE_ACL_FIELD_TYPE_MASK, 4, 2, 2, 16};    // destination
    config.defs[3] = {RTE_ACL_FIELD_TYPE_RANGE, 2, 3, 3, 20};   // ports
    config.defs[4] = {RTE_ACL_FIELD_TYPE_RANGE, 2, 4, 3, 22};
    config.defs[5] = {RTE_ACL_FIELD_TYPE_BITMASK, 4, 5, 4, 32};  // TCP: offset, flags, window
    return config;
}

AclRule acl_rule(const nf::classify::Box& box, nf::classify::Action action, int32_t priority) {
    AclRule rule{};
    rule.data.category_mask = 1;
    rule.data.priority = priority;
    rule.data.userdata = action == nf::classify::Action::deny ? 2 : 1;
    rule.field[0].value.u8 = box.protocol.value;
    rule.field[0].mask_range.u8 = box.protocol.mask;
    rule.field[1].value.u32 = load_be32(box.src.bytes.data());
    rule.field[1].mask_range.u32 = box.src.length;
    rule.field[2].value.u32 = load_be32(box.dst.bytes.data());
    rule.field[2].mask_range.u32 = box.dst.length;
    rule.field[3].value.u16 = box.src_port.low;
    rule.field[3].mask_range.u16 = box.src_port.high;
    rule.field[4].value.u16 = box.dst_port.low;
    rule.field[4].mask_range.u16 = box.dst_port.high;
    rule.field[5].value.u32 = static_cast<uint32_t>(box.tcp_flags.value) << 16;
    rule.field[5].mask_range.u32 = static_cast<uint32_t>(box.tcp_flags.mask) << 16;
    if (box.tcp_flags.mask != 0) {
        rule.field[0].value.u8 = 6;
        rule.field[0].mask_range.u8 = 0xff;
    }
    return rule;
}

}  // namespace

BareTables::BareTables(const Workload& workload)
    : patterns(std::make_shared<const nf::nids::pattern::PatternSet>(workload.patterns)),
      pattern_drops(workload.pattern_drops) {
    build_acl(workload);
    build_fib(workload);
}

BareTables::~BareTables() {
    rte_acl_free(acl);
    rte_fib_free(fib);
}

void BareTables::build_acl(const Workload& workload) {
    nf::classify::RuleSet rules;
    const std::string text = read_file(workload.rules_file);
    if (workload.classbench) nf::classify::load_classbench(text, workload.rules_file, {}, rules);
    else nf::classify::load_text_rules(text, workload.rules_file, rules);
    std::vector<AclRule> acl_rules;
    const std::vector<uint32_t> order = rules.in_order();
    for (size_t i = 0; i < order.size(); ++i) {
        const nf::classify::Box& box = rules.boxes[order[i]];
        if (box.ipv4)
            acl_rules.push_back(acl_rule(box, rules.rules[box.rule].action, static_cast<int32_t>(order.size() - i)));
    }
    const std::string name = unique("acl");
    rte_acl_param param{};
    param.name = name.c_str();
    param.socket_id = SOCKET_ID_ANY;
    param.rule_size = static_cast<uint32_t>(RTE_ACL_RULE_SZ(kFields));
    param.max_rule_num = static_cast<uint32_t>(acl_rules.size());
    acl = rte_acl_create(&param);
    if (acl == nullptr) throw std::runtime_error("bare loop: rte_acl cannot hold the rules");
    require(rte_acl_add_rules(acl, reinterpret_cast<const rte_acl_rule*>(acl_rules.data()),
                              static_cast<uint32_t>(acl_rules.size())),
            "rules are refused");
    const rte_acl_config config = acl_config();
    require(rte_acl_build(acl, &config), "rules do not compile");
    for (const auto method : {RTE_ACL_CLASSIFY_AVX512X32, RTE_ACL_CLASSIFY_AVX512X16, RTE_ACL_CLASSIFY_AVX2})
        if (rte_acl_set_ctx_classify(acl, method) == 0) break;
}

void BareTables::add_route(const Prefix& prefix, uint64_t next_hop) {
    require(rte_fib_add(fib, prefix.ipv4(), prefix.length, next_hop), "a route is refused");
}

void BareTables::build_fib(const Workload& workload) {
    std::vector<std::pair<Prefix, uint64_t>> table;
    const auto hop_number = [&](std::string_view name) {
        for (size_t i = 0; i < workload.hops.size(); ++i)
            if (name == workload.hops[i].name) return i + 1;
        throw std::runtime_error("bare loop: no next hop " + std::string(name));
    };
    table.push_back({*parse_prefix("0.0.0.0/0"), hop_number(workload.default_hop)});
    for_each_line(read_file(workload.route_file), [&](std::string_view line, uint32_t) {
        const size_t blank = line.find(' ');
        if (line.empty() || line[0] == ';') return;
        const auto prefix = parse_prefix(line.substr(0, blank));
        if (!prefix || prefix->ipv6) return;
        // The router chooses by a hash of its own where a file names no hop; for speed any will do.
        table.push_back({*prefix, blank == std::string_view::npos ? 1 + table.size() % workload.hops.size()
                                                                  : hop_number(line.substr(blank + 1))});
    });
    std::stable_sort(table.begin(), table.end(),
                     [](const auto& a, const auto& b) { return a.first.length < b.first.length; });
    rte_fib_conf conf{};
    conf.type = RTE_FIB_DIR24_8;
    conf.default_nh = 0;
    conf.max_routes = static_cast<int>(table.size() + 16);
    conf.dir24_8.nh_sz = RTE_FIB_DIR24_8_2B;
    conf.dir24_8.num_tbl8 = 32767;
    fib = rte_fib_create(unique("fib").c_str(), -1, &conf);
    if (fib == nullptr) throw std::runtime_error("bare loop: rte_fib cannot hold the routes");
    for (const auto& [prefix, next_hop] : table) add_route(prefix, next_hop);
    rte_fib_select_lookup(fib, RTE_FIB_LOOKUP_DIR24_8_VECTOR_AVX512);
    for (const Hop& hop : workload.hops) {
        Route& route = routes.emplace_back();
        std::copy(hop.mac.begin(), hop.mac.end(), route.macs);
        std::copy(hop.src_mac.begin(), hop.src_mac.end(), route.macs + 6);
    }
}

void BareLoop::build_crypto(const Workload& workload) {
    crypto_ = alloc_mb_mgr(0);
    if (crypto_ == nullptr) throw std::bad_alloc();
    init_mb_mgr_auto(crypto_, nullptr);
    keys_ = std::make_unique<CryptoKeys>();
    IMB_AES_KEYEXP_128(crypto_, workload.key.data(), keys_->encrypt, keys_->decrypt);
    uint8_t block[64];
    const auto pad = [&](uint8_t byte, uint8_t* state) {
        std::memset(block, byte, sizeof block);
        for (size_t i = 0; i < workload.auth_key.size(); ++i)
            block[i] = static_cast<uint8_t>(block[i] ^ workload.auth_key[i]);
        IMB_SHA1_ONE_BLOCK(crypto_, block, state);
    };
    pad(0x36, keys_->inner);
    pad(0x5c, keys_->outer);

    std::memset(outer_, 0, sizeof outer_);
    outer_[0] = 0x45;
    outer_[8] = 64;
    outer_[9] = 50;
    std::copy(workload.local.begin(), workload.local.end(), outer_ + 12);
    std::copy(workload.remote.begin(), workload.remote.end(), outer_ + 16);
    store_be32(outer_ + 20, workload.spi);
    std::memset(cipher_jobs_, 0, sizeof cipher_jobs_);
    std::memset(hash_jobs_, 0, sizeof hash_jobs_);
    for (unsigned i = 0; i < kBatch; ++i) {
        std::copy(workload.nonce.begin(), workload.nonce.end(), counters_[i]);
        store_be32(counters_[i] + 12, 1);
        cipher_jobs_[i].enc_keys = keys_->encrypt;
        cipher_jobs_[i].dec_keys = keys_->decrypt;
        cipher_jobs_[i].key_len_in_bytes = IMB_KEY_128_BYTES;
        cipher_jobs_[i].iv = counters_[i];
        cipher_jobs_[i].iv_len_in_bytes = 16;
        cipher_jobs_[i].cipher_mode = IMB_CIPHER_CNTR;
        hash_jobs_[i].auth_tag_output_len_in_bytes = 12;
        hash_jobs_[i].u.HMAC._hashed_auth_key_xor_ipad = keys_->inner;
        hash_jobs_[i].u.HMAC._hashed_auth_key_xor_opad = keys_->outer;
        hash_jobs_[i].hash_alg = IMB_AUTH_HMAC_SHA_1;
    }
}

}  // namespace millrace::lab
