// The next hops of a router, and the targets (one next hop or several) that routes lead to.
#pragma once

#include <map>
#include <string>
#include <string_view>
#include <unordered_map>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/nf/router/mistakes.hpp"
#include "millrace/nf/router/tables.hpp"

namespace millrace::nf::router {

/// The configured next hops by number, and targets made of them on demand.
class NextHops {
public:
    /// Reads `next-hops:` (name → {port, mac, src-mac}) and `next-hop-map:` (text in route files →
    /// name) of the router's options. `ports` are the port names by number.
    NextHops(const Config& options, const std::vector<std::string>& ports);

    /// The target for `via:`, a name or a list of names, of a route.
    uint16_t target_via(const Config& via);
    /// The target for what a route file has behind a prefix: the name of a next hop, or what
    /// `next-hop-map` translates; else one of the next hops, chosen by a hash of the text. There must
    /// be a next hop.
    uint16_t target_for_text(std::string_view text);
    /// The target for a route without a next hop: one of the next hops, chosen by a hash of the prefix.
    uint16_t target_for_prefix(const Prefix& prefix);

    bool empty() const { return names_.empty(); }
    const std::vector<std::string>& names() const { return names_; }
    const std::vector<NextHop>& next_hops() const { return next_hops_; }
    const std::vector<Target>& targets() const { return targets_; }
    const std::vector<uint16_t>& members() const { return members_; }

private:
    struct Hash {
        using is_transparent = void;
        size_t operator()(std::string_view text) const { return std::hash<std::string_view>{}(text); }
    };
    void add(const Config& name, const Config& value, const std::vector<std::string>& ports);
    uint16_t number_of(const Config& name) const;
    uint16_t target_of(const std::vector<uint16_t>& next_hops);

    std::vector<std::string> names_;
    std::vector<NextHop> next_hops_;
    std::vector<Target> targets_{{0, 0}, {0, 0}};  // kTargetNone, kTargetLocal
    std::vector<uint16_t> members_;
    std::map<std::vector<uint16_t>, uint16_t> target_by_members_;
    std::unordered_map<std::string, uint16_t, Hash, std::equal_to<>> target_by_text_;
};

}  // namespace millrace::nf::router
