// What a field plan saves is measured against chains that have none.
#include "millrace/chain/frames/whole_frames.hpp"

#include <gtest/gtest.h>

#include "millrace/exec/transfer/transfer.hpp"
#include "support/engine_runner.hpp"

namespace millrace::chain {
namespace {

exec::Prefixes prefixes(const Program& program) { return exec::prefixes_of(program.plan); }

TEST(WholeFrames, CrossBothWaysWhereAChainChangesAny) {
    const Configuration planned = test::make_configuration("[mirror]", "sim");
    ASSERT_LE(prefixes(*planned.chains[0]).in, exec::kMaxPrefix);
    const Configuration whole = with_whole_frames(planned);
    EXPECT_EQ(prefixes(*whole.chains[0]).in, kWholeFrame);
    EXPECT_EQ(prefixes(*whole.chains[0]).back, kWholeFrame);
    EXPECT_LE(prefixes(*planned.chains[0]).in, exec::kMaxPrefix) << "the other configuration stays as it is";
    EXPECT_EQ(whole.chains[0]->nodes.size(), planned.chains[0]->nodes.size());
}

TEST(WholeFrames, DoNotComeBackWhereAChainChangesNone) {
    const auto whole = with_whole_frames(test::make_configuration("[firewall: {default: permit, rules: []}]", "sim"));
    EXPECT_EQ(prefixes(*whole.chains[0]).in, kWholeFrame);
    EXPECT_EQ(prefixes(*whole.chains[0]).back, 0u);
}

TEST(WholeFrames, CrossForAChainWithoutFunctions) {
    const auto whole = with_whole_frames(test::make_configuration("[]", "sim"));
    EXPECT_EQ(prefixes(*whole.chains[0]).in, kWholeFrame);
    EXPECT_EQ(prefixes(*whole.chains[0]).back, 0u);
}

TEST(WholeFrames, CrossForChainsThatShareAPort) {
    const auto planned = parse_configuration(
        "version: 1\ndevice: sim\nports: {in: {source: {}}, out: {sink: {}}}\nclassify:\n"
        "  - {match: {protocol: udp}, chain: a}\n  - {match: {protocol: tcp}, chain: b}\n"
        "chains:\n  a: {output: out, nfs: [mirror: {}]}\n  b: {output: out, nfs: [mirror: {}]}\n",
        "test.yaml");
    ASSERT_NE(planned.classified, nullptr);
    const auto whole = with_whole_frames(planned);
    ASSERT_NE(whole.classified, nullptr);
    EXPECT_EQ(prefixes(*whole.classified).in, kWholeFrame);
    EXPECT_EQ(prefixes(*whole.classified).back, kWholeFrame);
    size_t own = 0;
    for (const Part& part : whole.classified->parts)
        for (const auto& chain : whole.chains) own += part.chain == chain;
    EXPECT_EQ(own, 2u) << "it is made of the chains that bring whole frames";
}

}  // namespace
}  // namespace millrace::chain
