// The frames that a traffic source makes.
#include "millrace/io/source/traffic.hpp"

#include <algorithm>
#include <functional>
#include <map>

#include "io/support.hpp"
#include "millrace/packet/bytes.hpp"

namespace millrace::io {
namespace {

/// How many frames of each source address there are, the most first.
std::vector<size_t> popularity_of(const TrafficFrames& frames) {
    std::map<uint32_t, size_t> of_source;
    for (const FrameTemplate& made : frames.templates) ++of_source[load_be32(made.head + 14 + 12)];
    std::vector<size_t> counts;
    for (const auto& [source, count] : of_source) counts.push_back(count);
    std::ranges::sort(counts, std::greater{});
    return counts;
}

TrafficFrames made_frames(const std::string& options, unsigned queue = 0, unsigned queues = 1) {
    return make_frames(TrafficSpec::read(Config::parse(options, "test")), queue, queues, false);
}

TEST(Traffic, IsOfEachFlowInTurn) {
    for (const unsigned flows : {1u, 1000u, 5000u}) {
        const TrafficFrames frames = made_frames("{flows: " + std::to_string(flows) + "}");
        const std::vector<size_t> counts = popularity_of(frames);
        ASSERT_EQ(counts.size(), flows);
        EXPECT_EQ(counts.front(), counts.back());
    }
}

TEST(Traffic, IsOfSomeFlowsMoreOftenByZipfsLaw) {
    const TrafficFrames frames = made_frames("{flows: 1000, popularity: zipf}");
    const auto all = static_cast<double>(frames.templates.size());
    const std::vector<size_t> counts = popularity_of(frames);
    EXPECT_GT(counts.size(), 950u) << "seldom ones are there, too";
    // ln 2 / ln 1001 of all are the first one's, ln 1.5 / ln 1001 the second one's.
    EXPECT_NEAR(static_cast<double>(counts[0]), all * 0.1003, all / 100);
    EXPECT_NEAR(static_cast<double>(counts[1]), all * 0.0587, all / 100);
    const TrafficFrames same = made_frames("{flows: 1000, popularity: zipf}");
    for (size_t i = 0; i < same.templates.size(); ++i)
        ASSERT_TRUE(std::ranges::equal(same.templates[i].head, frames.templates[i].head)) << i;
}

/// A queue has flows of its own, the most popular of which is as popular as the other queues'.
TEST(Traffic, IsByZipfsLawOnEachQueue) {
    const std::vector<size_t> first = popularity_of(made_frames("{flows: 1000, popularity: zipf}", 0, 2)),
                              second = popularity_of(made_frames("{flows: 1000, popularity: zipf}", 1, 2));
    EXPECT_LE(first.size(), 500u);
    EXPECT_NEAR(static_cast<double>(first[0]), static_cast<double>(second[0]), static_cast<double>(first[0]) / 10);
    EXPECT_EQ(popularity_of(made_frames("{flows: 1, popularity: zipf}")).size(), 1u);
    EXPECT_TRUE(made_frames("{flows: 1, popularity: zipf}", 1, 2).templates.empty());
}

}  // namespace
}  // namespace millrace::io
