// What ports say about the offloads of their interfaces.
#include "millrace/io/offload_notes.hpp"

#include "io/interfaces/network.hpp"

namespace millrace::io {
namespace {

using namespace test;

bool is_on(const std::vector<Offload>& offloads, const std::string& name) {
    for (const Offload& offload : offloads)
        if (offload.name == name) return offload.on;
    ADD_FAILURE() << "nothing is said of " << name;
    return false;
}

constexpr const char* kNames[] = {"GRO",          "LRO",           "receive checksums", "send checksums",
                                  "segmentation", "VLAN stripping"};

TEST(OffloadNotes, SayWhichAreOnAsTheyAreSetNow) {
    if (!have("ethtool")) GTEST_SKIP() << "needs ethtool";
    IN_OWN_NETWORK([] {
        ASSERT_EQ(run("ip link add left type veth peer name right"), "");
        for (const char* const kind : {"af_packet", "af_xdp"}) {
            for (const char* const to : {"on", "off"}) {
                const std::string all = std::string(" gro ") + to + " rx " + to + " tx " + to + " tso " + to + " gso " +
                                        to + " rxvlan " + to;
                run("ethtool -K left" + all + " > /dev/null 2>&1");
                const auto offloads = offloads_of(kind, "left");
                ASSERT_EQ(offloads.size(), std::size(kNames));
                for (const char* const name : kNames) {
                    const bool wanted = std::string(to) == "on" && std::string(name) != "LRO";  // a veth has none
                    EXPECT_EQ(is_on(offloads, name), wanted) << kind << " " << name << " " << to;
                }
                for (const Offload& offload : offloads) EXPECT_GT(offload.note.size(), 20u) << offload.name;
            }
        }
    });
}

TEST(OffloadNotes, AreNoneOfOtherPortsAndInterfaces) {
    EXPECT_TRUE(offloads_of("af_packet", "no-such-one").empty());
    EXPECT_TRUE(offloads_of("tap", "lo").empty());
    EXPECT_TRUE(offloads_of("pcap", "lo").empty());
    EXPECT_FALSE(offloads_of("af_packet", "lo").empty());
}

TEST(OffloadNotes, AreSummedUpByName) {
    EXPECT_EQ(offload_summary({{"GRO", true, ""}, {"LRO", false, ""}, {"TSO", true, ""}}), "on: GRO, TSO; off: LRO");
    EXPECT_EQ(offload_summary({{"GRO", true, ""}}), "on: GRO");
    EXPECT_EQ(offload_summary({{"GRO", false, ""}}), "none on; off: GRO");
    EXPECT_EQ(offload_summary({}), "none on");
}

}  // namespace
}  // namespace millrace::io
