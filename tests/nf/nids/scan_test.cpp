// What looks through a payload by all lanes of a packet, against a look at one byte after the other.
#include <gtest/gtest.h>

#include <memory>
#include <numeric>
#include <random>
#include <set>
#include <string>
#include <vector>

#include "millrace/nf/nids/evaluate.hpp"

namespace millrace::nf::nids {
namespace {

using Random = std::mt19937;

/// A text in memory of exactly its size, so that a sanitizer sees any read beyond it, `offset` bytes behind a multiple
/// of eight.
class Memory {
public:
    Memory(const std::string& text, size_t offset) : bytes_(new uint8_t[offset + text.size()]), offset_(offset) {
        std::copy(text.begin(), text.end(), bytes_.get() + offset);
    }
    const uint8_t* data() const { return bytes_.get() + offset_; }

private:
    std::unique_ptr<uint8_t[]> bytes_;
    size_t offset_;
};

std::string random_text(Random& random, size_t bytes, std::string_view letters) {
    std::string text(bytes, ' ');
    for (char& c : text) c = letters[random() % letters.size()];
    return text;
}

/// Calls `f(lanes)` with every number of lanes.
template <class F>
void with_lanes(F&& f) {
    f(Lanes<1>{}), f(Lanes<2>{}), f(Lanes<4>{}), f(Lanes<8>{}), f(Lanes<16>{}), f(Lanes<32>{});
}

TEST(FirstLiteral, IsWhereALookAtEachPlaceFindsIt) {
    Random random(1);
    size_t found = 0, missed = 0;
    for (const size_t bytes : {1, 2, 3, 4, 5, 15, 16, 17, 31, 32, 33, 127, 128, 129, 511, 512, 513, 1518})
        for (int i = 0; i < 40; ++i) {
            const std::string text = random_text(random, bytes, "aAbB\x01\x21");
            const Memory memory(text, random() % 8);
            const auto length = static_cast<uint32_t>(1 + random() % std::min<size_t>(bytes, 9));
            const bool nocase = random() % 2;
            std::string literal = random_text(random, length, nocase ? "ab\x01\x21" : "aAbB\x01\x21");
            const auto last = static_cast<uint32_t>(bytes - length + 1);
            const auto begin = static_cast<uint32_t>(random() % (last + 1));
            const auto end = begin + static_cast<uint32_t>(random() % (last - begin + 1));
            uint32_t expected = begin;
            const auto same = [&](char a, char b) {
                return nocase ? to_lower(static_cast<uint8_t>(a)) == static_cast<uint8_t>(b) : a == b;
            };
            while (expected < end &&
                   !std::equal(text.begin() + expected, text.begin() + expected + length, literal.begin(), same))
                ++expected;
            ++(expected < end ? found : missed);
            with_lanes([&](auto lanes) {
                ASSERT_EQ(first_literal(lanes, memory.data(), static_cast<uint32_t>(bytes), begin, end,
                                        reinterpret_cast<const uint8_t*>(literal.data()), length, nocase),
                          expected)
                    << lanes.count << " lanes, [" << begin << ", " << end << ") of " << bytes << " B";
            });
        }
    EXPECT_GT(std::min(found, missed), 100u);
}

/// RFC 9112, section 2: line by line. An empty line ends the head, be it that its line feed is yet to come.
HttpHead head_by_lines(const std::string& text, HttpHead head) {
    size_t at = head.headers;
    while (at < text.size()) {
        const size_t feed = std::min(text.find('\n', at), text.size());
        std::string line = text.substr(at, feed - at);
        if (line.ends_with('\r')) line.pop_back();
        if (line.empty()) {
            head.complete = feed < text.size();
            head.headers_end = static_cast<uint32_t>(at);
            head.body = static_cast<uint32_t>(std::min(feed + 1, text.size()));
            return head;
        }
        at = feed + 1;
    }
    head.headers_end = head.body = static_cast<uint32_t>(text.size());
    return head;
}

std::string value_by_lines(const std::string& text, const HttpHead& head, const std::string& name) {
    for (size_t at = head.headers; at < head.headers_end;) {
        const size_t feed = std::min<size_t>(text.find('\n', at), head.headers_end);
        std::string line = text.substr(at, feed - at);
        if (line.ends_with('\r')) line.pop_back();
        if (line.size() > name.size() && line[name.size()] == ':' &&
            std::equal(name.begin(), name.end(), line.begin(),
                       [](char a, char b) { return a == static_cast<char>(to_lower(static_cast<uint8_t>(b))); })) {
            std::string value = line.substr(name.size() + 1);
            const size_t first = value.find_first_not_of(" \t"), last = value.find_last_not_of(" \t");
            return first == std::string::npos ? "" : value.substr(first, last - first + 1);
        }
        at = feed + 1;
    }
    return "(none)";
}

TEST(HttpHead, EndsAndHasTheHeadersThatALookAtEachLineFinds) {
    Random random(2);
    const std::vector<std::string> parts = {
        "\r\n",     "\n",          "\r",     "\n\n",   "\r\n\r\n",       "Host: a.b",
        "hOST:",    "Host : x",    "\nhost", " \t",    "*host: star",    "X-Host: y",
        "Cookie:c", "Set-Cookie:", "a",      "\r\r\n", "server:\tq \r\n"};
    size_t complete = 0, values = 0;
    for (int i = 0; i < 4000; ++i) {
        std::string text = random() % 2 ? "GET / HTTP/1.1\r\n" : "POST /a?b HTTP/1.0\n";
        if (i % 50 == 0) text.pop_back();
        for (size_t n = random() % 12; n > 0; --n) text += parts[random() % parts.size()];
        const auto bytes = static_cast<uint32_t>(text.size());
        const Memory memory(text, random() % 8);
        with_lanes([&](auto lanes) {
            const HttpHead start = find_http_start(memory.data(), bytes, lanes);
            if (start.kind == HttpHead::Kind::none) return;
            const HttpHead expected = head_by_lines(text, start),
                           head = find_http_head(memory.data(), bytes, start, lanes);
            ASSERT_EQ(std::tie(head.complete, head.headers_end, head.body),
                      std::tie(expected.complete, expected.headers_end, expected.body))
                << lanes.count << " lanes: " << testing::PrintToString(text);
            complete += head.complete;
            for (const std::string name : {"host", "cookie", "set-cookie", "server"}) {
                const Part part = find_header(memory.data(), head, ("\n" + name + ":").c_str(), lanes);
                const std::string value = value_by_lines(text, head, name);
                ASSERT_EQ(part.present ? text.substr(part.at, part.bytes) : "(none)", value)
                    << lanes.count << " lanes, " << name << ": " << testing::PrintToString(text);
                values += part.present;
            }
        });
    }
    EXPECT_GT(std::min(complete, values), 1000u);
}

TEST(LaneLists, GiveEachNumberOfEachListOnce) {
    Random random(3);
    std::vector<uint32_t> numbers(2000);
    std::iota(numbers.begin(), numbers.end(), 0u);
    for (int i = 0; i < 300; ++i)
        with_lanes([&](auto lanes) {
            constexpr uint32_t kCount = decltype(lanes)::count;
            LaneLists<decltype(lanes), uint32_t> lists;
            uint32_t behind = 0;
            for (uint32_t lane = 0; lane < kCount; ++lane) {
                const uint32_t count = random() % 2 ? 0 : static_cast<uint32_t>(random() % 60);
                lists.of(lane) = {count == 0 ? nullptr : numbers.data() + behind, count};
                behind += count;
            }
            const uint32_t total = lists.join(lanes);
            ASSERT_EQ(total, behind);
            uint32_t next = 0;
            for (uint32_t base = 0; base < total; base += kCount) {
                auto given = lists.next(base, total, lanes);
                for (uint32_t lane = 0; lane < kCount; ++lane, ++next)
                    ASSERT_EQ(given.of(lane), next < total ? next : kNoNumber) << kCount << " lanes";
            }
        });
}

TEST(MatchedRules, KeepTheLowestOnceEach) {
    Random random(4);
    for (const uint32_t rules : {1u, 14u, 15u, 16u, 40u}) {
        MatchedRules matched;
        std::set<uint32_t> all;
        for (int i = 0; i < 200; ++i) {
            const uint32_t rule = static_cast<uint32_t>(random() % rules);
            matched.add(rule);
            all.insert(rule);
        }
        ASSERT_EQ(matched.count(), std::min<size_t>(all.size(), kMaxAlerts));
        EXPECT_EQ(matched.more(), all.size() > kMaxAlerts);
        uint32_t i = 0;
        for (auto rule = all.begin(); i < matched.count(); ++rule) ASSERT_EQ(matched[i++], *rule);
    }
}

}  // namespace
}  // namespace millrace::nf::nids
