#include "oracle.hpp"

#include <gtest/gtest.h>

#include <cstring>
#include <set>

namespace millrace::nf::nids::pattern::test {
namespace {

uint8_t lower(char c) { return static_cast<uint8_t>(c >= 'A' && c <= 'Z' ? c - 'A' + 'a' : c); }

bool occurs(const std::string& folded_pattern, const std::string& folded_payload) {
    return folded_payload.size() >= folded_pattern.size() &&
           memmem(folded_payload.data(), folded_payload.size(), folded_pattern.data(), folded_pattern.size()) !=
               nullptr;
}

std::string lowered(const std::string& text) {
    std::string result = text;
    for (char& c : result) c = static_cast<char>(lower(c));
    return result;
}

/// A copy in memory of exactly its size, so that a sanitizer sees any read beyond it.
std::vector<std::unique_ptr<uint8_t[]>> tight_copies(const std::vector<std::string>& payloads) {
    std::vector<std::unique_ptr<uint8_t[]>> copies;
    for (const std::string& payload : payloads) {
        copies.emplace_back(new uint8_t[payload.size()]);
        std::copy(payload.begin(), payload.end(), copies.back().get());
    }
    return copies;
}

template <unsigned Count>
Ids scan_device(const uint8_t* data, uint32_t bytes, const PatternTables& tables) {
    std::set<uint32_t> ids;
    find_patterns(data, bytes, tables, Lanes<Count>{}, [&](auto& found, uint32_t most) {
        std::set<uint32_t> more;
        for (uint32_t lane = 0; lane < Count; ++lane) {
            std::set<uint32_t> own;
            for (uint32_t id; (id = found.of(lane).take(tables, most)) != kNoPattern;) {
                EXPECT_TRUE(own.insert(id).second) << "a lane gives " << id << " twice";
                EXPECT_LE(id, most);
            }
            more.merge(own);
        }
        if (!ids.empty() && !more.empty()) {
            EXPECT_GT(*more.begin(), *ids.rbegin()) << "a search goes on behind those before";
        }
        ids.merge(more);
    });
    return {ids.begin(), ids.end()};
}

void expect_equal(const std::vector<Ids>& expected, const std::vector<Ids>& actual, const std::string& what) {
    ASSERT_EQ(expected.size(), actual.size()) << what;
    for (size_t i = 0; i < expected.size(); ++i) ASSERT_EQ(expected[i], actual[i]) << what << ", payload " << i;
}

}  // namespace

std::vector<Ids> search_naively(const std::vector<std::string>& patterns, const std::vector<std::string>& payloads) {
    std::vector<Ids> result(payloads.size());
    std::vector<std::string> folded;
    for (const std::string& pattern : patterns) folded.push_back(lowered(pattern));
    for (size_t i = 0; i < payloads.size(); ++i) {
        const std::string payload = lowered(payloads[i]);
        for (uint32_t id = 0; id < patterns.size(); ++id)
            if (occurs(folded[id], payload)) result[i].push_back(id);
    }
    return result;
}

std::vector<Ids> search_with(Matcher& matcher, const std::vector<std::string>& payloads, size_t vector) {
    const auto copies = tight_copies(payloads);
    std::vector<Ids> result;
    PatternHits hits;
    for (size_t first = 0; first < payloads.size(); first += vector) {
        std::vector<Payload> batch;
        for (size_t i = first; i < std::min(first + vector, payloads.size()); ++i)
            batch.push_back({copies[i].get(), static_cast<uint32_t>(payloads[i].size())});
        matcher.scan(batch, hits);
        EXPECT_EQ(hits.size(), batch.size());
        for (size_t i = 0; i < batch.size(); ++i) result.emplace_back(hits[i].begin(), hits[i].end());
    }
    return result;
}

std::vector<Ids> search_with_lanes(const PatternSet& set, const std::vector<std::string>& payloads, unsigned lanes) {
    nf::Image image;
    PatternTables& tables = image.start<PatternTables>();
    set.attach(image, tables);
    std::vector<Ids> result;
    for (size_t i = 0; i < payloads.size(); ++i) {
        const uint32_t bytes = static_cast<uint32_t>(payloads[i].size());
        // At every place in a word of eight bytes, in turn.
        const size_t skew = i % 8;
        const std::unique_ptr<uint8_t[]> copy(new uint8_t[skew + bytes]);
        uint8_t* const data = copy.get() + skew;
        std::copy(payloads[i].begin(), payloads[i].end(), data);
        result.push_back(lanes == 1   ? scan_device<1>(data, bytes, tables)
                         : lanes == 8 ? scan_device<8>(data, bytes, tables)
                                      : scan_device<32>(data, bytes, tables));
    }
    return result;
}

Searchers::Searchers(const std::vector<std::string>& patterns)
    : patterns_(patterns), set_(std::make_shared<const PatternSet>(patterns)) {
    for (const Engine& engine : {Engine::scalar, Engine::vector, Engine::hyperscan, Engine::automatic})
        if (is_available(engine)) matchers_.push_back(make_matcher(set_, engine));
}

void Searchers::expect_agreement(const std::vector<std::string>& payloads, const std::vector<Ids>* expected) const {
    std::vector<Ids> reference;
    if (expected == nullptr) {
        reference = search_with(*make_matcher(set_, Engine::scalar), payloads);
        expected = &reference;
    }
    for (const auto& matcher : matchers_)
        expect_equal(*expected, search_with(*matcher, payloads), std::string(matcher->name()));
    for (const unsigned lanes : {1u, 8u, 32u})
        expect_equal(*expected, search_with_lanes(*set_, payloads, lanes), std::to_string(lanes) + " lanes");
}

void Searchers::expect_right(const std::vector<std::string>& payloads) const {
    const std::vector<Ids> expected = search_naively(patterns_, payloads);
    expect_agreement(payloads, &expected);
}

void expect_all_agree(const std::vector<std::string>& patterns, const std::vector<std::string>& payloads,
                      const std::vector<Ids>* expected) {
    Searchers(patterns).expect_agreement(payloads, expected);
}

void expect_all_right(const std::vector<std::string>& patterns, const std::vector<std::string>& payloads) {
    Searchers(patterns).expect_right(payloads);
}

}  // namespace millrace::nf::nids::pattern::test
