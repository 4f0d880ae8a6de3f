// What tests of NAT44 and of NAT64 ask of external endpoints.
#pragma once

#include <gtest/gtest.h>

#include <set>
#include <vector>

namespace millrace::test {

/// By packet: those of endpoints that were there before, of as many new ones, and of these again. None of the new ones
/// has what another has, and each keeps its own.
template <class End>
void expect_given_once_and_kept(const std::vector<End>& external, size_t endpoints) {
    std::set<End> taken;
    for (size_t i = endpoints; i < 2 * endpoints; ++i) {
        EXPECT_TRUE(taken.insert(external[i]).second) << "given away twice";
        EXPECT_EQ(external[i], external[i + endpoints]);
    }
}

}  // namespace millrace::test
