// The same search on the CPU with DPDK's rte_acl: the competitor and the oracle of the device half.
#pragma once

#include <memory>
#include <span>
#include <string>
#include <vector>

#include "millrace/nf/classify/classifier.hpp"
#include "millrace/nf/classify/acl/header_classes.hpp"
#include "millrace/nf/classify/rules/rule.hpp"

struct rte_acl_ctx;

namespace millrace::nf::classify {

/// Compiled rules of both families. Constant once made: workers share it.
class Acl {
public:
    /// Starts the EAL. `max_bytes` is for each family; 0 leaves it to rte_acl, which then compiles faster
    /// and in less memory than with any bound. Neither bounds what compiling takes: for some sets of
    /// 10,000 rules that is minutes or gigabytes (README.md), and it cannot be stopped.
    /// Throws std::runtime_error with the reason when the rules cannot be compiled.
    Acl(const RuleSet& rules, size_t max_bytes);

    /// The most keys of one call.
    static constexpr size_t kMaxKeys = 256;

    /// The index of the first rule that matches each key, kNoRule where none does or the key is not of IP.
    void find(std::span<const HeaderKey> keys, uint32_t* rules) const;
    /// The same for parsed packets.
    void find(std::span<Packet* const> packets, uint32_t* rules) const;

    /// IPv4 headers as rte_acl reads them, one behind the other, for who looks the same ones up again and again.
    std::vector<uint8_t> prepare(std::span<const HeaderKey> keys) const;
    /// Looks up `count` of them, at most kMaxKeys, from number `first` on.
    void find(const std::vector<uint8_t>& prepared, size_t first, uint32_t count, uint32_t* rules) const;

    /// `scalar`, `sse`, `avx2`, `avx512x16` or `avx512x32`: what classifies, the best that the CPU has.
    const std::string& method() const { return method_; }

private:
    struct Free {
        void operator()(rte_acl_ctx* context) const;
    };
    using Context = std::unique_ptr<rte_acl_ctx, Free>;  ///< of one family: null when it has no rules
    Context compile(const RuleSet& rules, std::span<const uint32_t> order, bool ipv6, size_t max_bytes);
    template <class Key>
    void find_all(std::span<const Key> keys, uint32_t* rules) const;
    template <class Input, class Key>
    void find_family(const Context& context, std::span<const Key> keys, std::span<const uint32_t> origins,
                     uint32_t* rules) const;

    HeaderClasses classes_;
    Context ipv4_, ipv6_;
    std::string method_;
};

}  // namespace millrace::nf::classify
