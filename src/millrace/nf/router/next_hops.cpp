#include "millrace/nf/router/next_hops.hpp"

#include <algorithm>

#include "millrace/packet/packet.hpp"

namespace millrace::nf::router {
namespace {

/// FNV-1a (draft-eastlake-fnv), so that the choice of a next hop is the same everywhere and for ever.
uint64_t stable_hash(std::string_view bytes) {
    uint64_t h = 0xcbf29ce484222325ull;
    for (const char byte : bytes) h = (h ^ static_cast<uint8_t>(byte)) * 0x100000001b3ull;
    return h ^ (h >> 32);
}

}  // namespace

NextHops::NextHops(const Config& options, const std::vector<std::string>& ports) {
    Mistakes mistakes;
    if (const auto all = options.find("next-hops")) {
        for (const auto& [name, value] : all->entries()) {
            try {
                add(name, value, ports);
            } catch (const ConfigError& error) {
                mistakes.add(error);
            }
        }
        if (names_.size() >= kMaxTargets - 2)
            all->fail("there are more than " + std::to_string(kMaxTargets - 3) + " next hops");
    }
    mistakes.check();
    for (size_t i = 0; i < names_.size(); ++i) target_by_text_[names_[i]] = target_of({static_cast<uint16_t>(i)});
    if (const auto map = options.find("next-hop-map")) {
        for (const auto& [text, name] : map->entries()) {
            try {
                target_by_text_[text.text()] = target_via(name);
            } catch (const ConfigError& error) {
                mistakes.add(error);
            }
        }
    }
    mistakes.check();
}

void NextHops::add(const Config& name, const Config& value, const std::vector<std::string>& ports) {
    value.only({"port", "mac", "src-mac", "mtu"});
    NextHop next{};
    next.port = kNoPort;
    if (const auto port = value.find("port")) next.port = static_cast<uint16_t>(port->choice(ports));
    if (const auto mac = value.find("mac")) {
        next.flags |= NextHop::kSetDst;
        const auto bytes = mac->mac();
        std::copy(bytes.begin(), bytes.end(), next.dst);
    }
    if (const auto mac = value.find("src-mac")) {
        next.flags |= NextHop::kSetSrc;
        const auto bytes = mac->mac();
        std::copy(bytes.begin(), bytes.end(), next.src);
    }
    if (const auto mtu = value.find("mtu")) next.mtu = static_cast<uint16_t>(mtu->integer(68, UINT16_MAX));
    names_.push_back(name.text());
    next_hops_.push_back(next);
}

uint16_t NextHops::number_of(const Config& name) const {
    if (names_.empty()) name.fail("there is no next hop", "name one under 'next-hops:'");
    return static_cast<uint16_t>(name.choice(names_));
}

uint16_t NextHops::target_via(const Config& via) {
    std::vector<uint16_t> numbers;
    for (const Config& name : via.items()) numbers.push_back(number_of(name));
    if (numbers.empty()) via.fail("a next hop is missing here");
    if (numbers.size() > 0xffff) via.fail("these are too many next hops for one route");
    try {
        return target_of(numbers);
    } catch (const std::length_error& error) {
        via.fail(error.what());
    }
}

uint16_t NextHops::target_of(const std::vector<uint16_t>& next_hops) {
    const auto known = target_by_members_.find(next_hops);
    if (known != target_by_members_.end()) return known->second;
    if (targets_.size() >= kMaxTargets)
        throw std::length_error("there are more than " + std::to_string(kMaxTargets - 2) +
                                " different next hops and groups of them");
    const auto target = static_cast<uint16_t>(targets_.size());
    if (next_hops.size() == 1) {
        targets_.push_back({next_hops[0], 1});
    } else {
        targets_.push_back({static_cast<uint32_t>(members_.size()), static_cast<uint32_t>(next_hops.size())});
        members_.insert(members_.end(), next_hops.begin(), next_hops.end());
    }
    target_by_members_[next_hops] = target;
    return target;
}

uint16_t NextHops::target_for_text(std::string_view text) {
    const auto known = target_by_text_.find(text);
    if (known != target_by_text_.end()) return known->second;
    const uint16_t target = target_of({static_cast<uint16_t>(stable_hash(text) % names_.size())});
    target_by_text_.emplace(text, target);
    return target;
}

uint16_t NextHops::target_for_prefix(const Prefix& prefix) {
    char key[17];
    std::copy(prefix.bytes.begin(), prefix.bytes.end(), key);
    key[16] = static_cast<char>(prefix.length);
    // Single next hops were made first, one after the other.
    return static_cast<uint16_t>(kTargetLocal + 1 + stable_hash({key, sizeof key}) % names_.size());
}

}  // namespace millrace::nf::router
