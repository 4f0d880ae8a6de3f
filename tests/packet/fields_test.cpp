#include "millrace/packet/fields.hpp"

#include <gtest/gtest.h>

#include <bit>
#include <set>
#include <string>

namespace millrace {
namespace {

TEST(Fields, AreOneBitEachWithANameOfItsOwn) {
    EXPECT_EQ((field::everything | field::length).bits, (uint64_t{1} << kFieldCount) - 1);
    std::set<std::string> names(std::begin(kFieldNames), std::end(kFieldNames));
    EXPECT_EQ(names.size(), kFieldCount);
    EXPECT_STREQ(kFieldNames[std::countr_zero(field::ip_ttl.bits)], "ip.ttl");
    EXPECT_STREQ(kFieldNames[std::countr_zero(field::l4_checksum.bits)], "l4.checksum");
    EXPECT_STREQ(kFieldNames[std::countr_zero(field::length.bits)], "length");
}

TEST(Fields, BehaveAsASet) {
    using namespace field;
    EXPECT_TRUE(none.empty());
    EXPECT_TRUE((ip_src | ip_dst).contains(ip_src));
    EXPECT_FALSE(ip_src.contains(ip_src | ip_dst));
    EXPECT_TRUE(five_tuple.overlaps(l4_ports));
    EXPECT_FALSE(ethernet.overlaps(field::ip));
    EXPECT_EQ((five_tuple - l4_ports), ip_src | ip_dst | ip_protocol);
    EXPECT_EQ((headers & payload), none);
    Fields some = ip_src;
    some |= ip_dst;
    EXPECT_EQ(some, ip_src | ip_dst);
    EXPECT_TRUE(everything.contains(parsed));
    EXPECT_FALSE(headers.contains(length));
}

}  // namespace
}  // namespace millrace
