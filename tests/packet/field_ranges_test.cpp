#include "millrace/packet/field_ranges.hpp"

#include <gtest/gtest.h>

#include <random>
#include <vector>

namespace millrace {
namespace {

/// Who sees a field sees no more than its header has, whatever a packet claims of itself.
TEST(FieldRanges, EndWhereTheNextHeaderBeginsAlsoWhereThatIsTooEarly) {
    std::mt19937 random(1);
    size_t cut = 0;
    for (int i = 0; i < 20000; ++i) {
        Layers layers{};
        layers.flags = static_cast<uint8_t>((random() % 2 ? Layers::kIpv4 : Layers::kIpv6) |
                                            (random() % 2 ? Layers::kTcp : Layers::kUdp));
        layers.l3_offset = 14;
        layers.l4_offset = static_cast<uint16_t>(random() % 3 == 0 ? 0 : 14 + random() % 80);
        layers.payload_offset = static_cast<uint16_t>(14 + random() % 120);
        const auto length = static_cast<uint32_t>(14 + random() % 300);
        std::vector<Fields> of(length);
        for_each_field(length, layers, [&](uint32_t at, uint32_t bytes, Fields fields) {
            ASSERT_LE(at + bytes, length);
            for (uint32_t k = 0; k < bytes; ++k) of[at + k] = of[at + k] | fields;
        });
        const uint32_t fixed = layers.is_ipv4() ? 20 : 40,
                       l3_end = layers.l4_offset != 0 ? layers.l4_offset : layers.payload_offset;
        cut += l3_end < layers.l3_offset + fixed;
        for (uint32_t at = std::max<uint32_t>(l3_end, 14); at < length; ++at)
            ASSERT_FALSE(of[at].overlaps(field::ip_options)) << at << " of " << length;
        for (uint32_t at = layers.payload_offset; at < length; ++at)
            ASSERT_FALSE(of[at].overlaps(field::tcp_options)) << at << " of " << length;
    }
    EXPECT_GT(cut, 1000u);
}

}  // namespace
}  // namespace millrace
