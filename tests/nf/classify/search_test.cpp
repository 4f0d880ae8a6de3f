// The parts of the bit-vector search, and every engine on made-up rules.
#include <gtest/gtest.h>

#include <random>

#include "nf/classify/engines.hpp"

namespace millrace::nf::classify {
namespace {

using namespace test;
using Random = std::mt19937_64;

uint64_t mask_of(unsigned length) { return length == 0 ? 0 : ~uint64_t{0} << (64 - std::min(length, 64u)); }

TriePrefix random_prefix(Random& random, unsigned most_bits) {
    TriePrefix prefix;
    prefix.length = static_cast<uint32_t>(random() % (most_bits + 1));
    // Few different bits, so that prefixes nest.
    prefix.high = (random() & random() & random()) & mask_of(prefix.length);
    prefix.low = prefix.length > 64 ? (random() & random()) & mask_of(prefix.length - 64) : 0;
    return prefix;
}

bool holds(const TriePrefix& prefix, uint64_t high, uint64_t low) {
    return (high & mask_of(prefix.length)) == prefix.high &&
           (prefix.length <= 64 || (low & mask_of(prefix.length - 64)) == prefix.low);
}

TEST(PrefixTrie, FindsTheLongestPrefixAroundEveryCorner) {
    Random random(1);
    for (const unsigned bits : {16u, 32u, 64u, 128u})
        for (const size_t count : {0, 1, 2, 63, 64, 300}) {
            std::vector<TriePrefix> prefixes;
            for (size_t i = 0; i < count; ++i) prefixes.push_back(random_prefix(random, bits));
            const auto place = [](const TriePrefix& p) { return std::tie(p.high, p.low, p.length); };
            std::sort(prefixes.begin(), prefixes.end(),
                      [&](const auto& a, const auto& b) { return place(a) < place(b); });
            prefixes.erase(std::unique(prefixes.begin(), prefixes.end(),
                                       [&](const auto& a, const auto& b) { return place(a) == place(b); }),
                           prefixes.end());
            for (size_t i = 0; i < prefixes.size(); ++i) prefixes[i].value = static_cast<uint32_t>(100 + i);
            const TrieArrays arrays = build_trie(prefixes, 7);
            const PrefixTrie::Tables tables{{arrays.top.data(), arrays.top.size()},
                                            {arrays.nodes.data(), arrays.nodes.size()},
                                            {arrays.leaves.data(), arrays.leaves.size()},
                                            arrays.top_bits};
            for (int probe = 0; probe < 2000; ++probe) {
                uint64_t high = random(), low = random();
                if (!prefixes.empty() && probe % 4 != 0) {
                    const TriePrefix& near = prefixes[random() % prefixes.size()];
                    const unsigned __int128 first = static_cast<unsigned __int128>(near.high) << 64 | near.low;
                    const unsigned __int128 size = near.length == 0
                                                       ? 0
                                                       : static_cast<unsigned __int128>(1) << (128 - near.length);
                    const unsigned __int128 corners[] = {first, first - 1, first + size, first + size - 1,
                                                         first + size / 2};
                    const unsigned __int128 corner = corners[random() % 5];
                    high = static_cast<uint64_t>(corner >> 64);
                    low = static_cast<uint64_t>(corner);
                }
                uint32_t wanted = 7, longest = 0;
                for (const TriePrefix& prefix : prefixes)
                    if (holds(prefix, high, low) && prefix.length >= longest) {
                        wanted = prefix.value;
                        longest = prefix.length;
                    }
                ASSERT_EQ(PrefixTrie::find(tables, high, low), wanted) << bits << " bits, " << count << " prefixes";
            }
        }
}

TEST(VectorStore, StoresEqualBlocksAndRowsOnce) {
    VectorStore store(5000, 1 << 20);
    EXPECT_EQ(store.chunks(), 5u);
    VectorStore::Row row = store.empty_row();
    const uint32_t empty = store.add(row);
    const std::vector<uint32_t> positions = {0, 31, 1023, 1024, 4999};
    store.assign(row, positions, true);
    const uint32_t full = store.add(row);
    EXPECT_NE(full, empty);
    const uint64_t bytes = store.bytes();
    store.assign(row, positions, false);
    EXPECT_EQ(store.add(row), empty);
    store.assign(row, positions, true);
    EXPECT_EQ(store.add(row), full);
    EXPECT_EQ(store.bytes(), bytes);
}

TEST(VectorStore, StopsAtItsLimit) {
    VectorStore store(1 << 16, 10000);
    VectorStore::Row row = store.empty_row();
    const auto fill = [&] {
        for (uint32_t i = 0; i < 1 << 16; i += 7) {
            const uint32_t position[] = {i};
            store.assign(row, position, true);
        }
    };
    EXPECT_THROW(fill(), TablesTooLarge);
}

/// A header whose fields come from few values, those of the rules below and their neighbours.
HeaderKey random_key(Random& random) {
    HeaderKey key;
    key.ip_version = random() % 3 == 0 ? 6 : 4;
    const auto address = [&](uint64_t& high, uint64_t& low) {
        high = uint64_t{0x0a000000} << 32 | (random() % 20) << 32;
        if (key.ip_version == 6) low = random() % 20;
    };
    address(key.src_high, key.src_low);
    address(key.dst_high, key.dst_low);
    const uint16_t ports[] = {0, 1, 21, 22, 23, 24, 255, 256, 257, 1023, 1024, 65534, 65535};
    key.src_port = ports[random() % std::size(ports)];
    key.dst_port = ports[random() % std::size(ports)];
    const uint8_t protocols[] = {0, 1, 6, 6, 6, 17, 17, 58, 255};
    key.protocol = protocols[random() % std::size(protocols)];
    if (random() % 6 != 0) key.has = HeaderKey::kPorts;
    if (key.protocol == 6 && key.has != 0) {
        key.has |= HeaderKey::kFlags;
        key.tcp_flags = static_cast<uint8_t>(random());
    }
    key.connection = static_cast<Connection>(random() % kConnections);
    return key;
}

/// Rules whose TCP flags are some of `flags`; with `states`, some of them ask for those of connections.
RuleSet random_rules(Random& random, size_t count, uint8_t flags, bool states) {
    RuleSet rules;
    rules.files.push_back("random");
    for (size_t i = 0; i < count; ++i) {
        Box box;
        const int family = static_cast<int>(random() % 3);
        box.ipv4 = family != 1;
        box.ipv6 = family != 0;
        if (family != 2) {
            for (Prefix* prefix : {&box.src, &box.dst}) {
                prefix->ipv6 = family == 1;
                prefix->bytes = {0x0a, 0, 0, static_cast<uint8_t>(random() % 20)};
                if (family == 1) prefix->bytes[15] = static_cast<uint8_t>(random() % 20);
                prefix->length = static_cast<uint8_t>(random() % (prefix->address_bits() + 1));
                *prefix = *parse_prefix(prefix->text(), true);
            }
        }
        for (PortRange* range : {&box.src_port, &box.dst_port}) {
            const uint16_t ports[] = {0, 1, 22, 23, 255, 256, 1023, 1024, 65534, 65535};
            if (random() % 2) continue;
            range->low = ports[random() % std::size(ports)];
            range->high = ports[random() % std::size(ports)];
            if (range->low > range->high) std::swap(range->low, range->high);
        }
        if (random() % 3 != 0) box.protocol = {static_cast<uint8_t>(random() % 2 ? 6 : 17), 0xff};
        if (random() % 8 == 0) box.protocol = {static_cast<uint8_t>(random() & 0x10), 0x10};
        if (random() % 5 == 0) {
            box.tcp_flags.mask = static_cast<uint8_t>(random() & flags);
            box.tcp_flags.value = static_cast<uint8_t>(random() & box.tcp_flags.mask);
        }
        if (states && random() % 2 == 0)
            box.connections.bits = static_cast<uint8_t>(1 + random() % ConnectionSet::kAll);
        Rule rule;
        rule.priority = static_cast<int32_t>(random() % 3);
        rules.add(rule, box);
    }
    return rules;
}

void expect_the_first(const std::vector<size_t>& counts, unsigned seed, bool states) {
    Random random(seed);
    for (const size_t count : counts) {
        // Such dense rules take rte_acl long, and all flags are more than it is given.
        const bool for_acl = count <= 200;
        const uint8_t few_flags = states ? 0x02 : 0x17;
        const RuleSet rules = random_rules(random, count, for_acl ? few_flags : 0xff, states);
        const Linear linear(rules);
        const std::vector<Searched> engines = every_engine(rules);
        const Acl acl(for_acl ? rules : RuleSet{}, 0);
        std::vector<HeaderKey> keys;
        for (int i = 0; i < 2000; ++i) keys.push_back(random_key(random));
        const auto by_acl = acl_find(acl, keys);
        for (size_t i = 0; i < keys.size(); ++i) {
            const uint32_t wanted = linear.find(keys[i]);
            ASSERT_NO_FATAL_FAILURE(expect_found(engines, keys[i], wanted)) << count << " rules";
            if (for_acl) {
                ASSERT_EQ(by_acl[i], wanted) << count << " rules, " << text_of(keys[i]);
            }
        }
    }
}

TEST(EveryEngine, FindsTheFirstOfManyOverlappingRules) {
    expect_the_first({0, 1, 31, 32, 33, 200, 1023, 1024, 1025, 3000}, 2, false);
}

TEST(EveryEngine, FindsTheFirstOfRulesThatAskForStates) { expect_the_first({1, 33, 200, 1025}, 3, true); }

/// Every port where something changes, and its neighbours, against every one of many ranges.
TEST(PortIntervals, HoldEveryPortOfEveryRange) {
    Random random(3);
    RuleSet rules;
    rules.files.push_back("ports");
    for (int i = 0; i < 3000; ++i) {
        Box box;
        box.dst_port.low = static_cast<uint16_t>(random());
        box.dst_port.high = static_cast<uint16_t>(std::min<uint64_t>(65535, box.dst_port.low + random() % 300));
        rules.add(Rule{}, box);
    }
    const Linear linear(rules);
    const std::vector<Searched> engines = every_engine(rules);
    HeaderKey key;
    key.ip_version = 4;
    key.has = HeaderKey::kPorts;
    for (uint32_t port = 0; port < 65536; port += 1 + static_cast<uint32_t>(random() % 20)) {
        key.dst_port = static_cast<uint16_t>(port);
        ASSERT_NO_FATAL_FAILURE(expect_found(engines, key, linear.find(key)));
    }
}

TEST(EveryEngine, FindsEveryRuleOfASetWhoseRulesDoNotOverlap) {
    RuleSet rules;
    rules.files.push_back("hosts");
    for (uint32_t i = 0; i < 5000; ++i) {
        Box box;
        box.src = *parse_prefix("10." + std::to_string(i >> 8) + "." + std::to_string(i & 255) + ".1");
        box.ipv6 = false;
        rules.add(Rule{}, box);
    }
    const std::vector<Searched> engines = every_engine(rules);
    HeaderKey key;
    key.ip_version = 4;
    for (uint32_t i = 0; i < 5000; ++i) {
        key.src_high = uint64_t{0x0a000001u + (i << 8)} << 32;
        ASSERT_NO_FATAL_FAILURE(expect_found(engines, key, i));
        key.src_high += uint64_t{1} << 32;
        ASSERT_NO_FATAL_FAILURE(expect_found(engines, key, kNoRule));
    }
}

}  // namespace
}  // namespace millrace::nf::classify
