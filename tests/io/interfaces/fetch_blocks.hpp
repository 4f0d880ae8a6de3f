// Frames that tests fetch from ports in receive blocks.
#pragma once

#include <algorithm>

#include "io/interfaces/cable.hpp"

namespace millrace::io::test {

/// Whether a frame lies in memory that devices are told of.
inline bool is_known(const Port& port, const uint8_t* frame, size_t bytes) {
    const auto all = port.memory();
    return std::ranges::any_of(all, [&](const std::span<uint8_t>& memory) {
        return frame >= memory.data() && frame + bytes <= memory.data() + memory.size();
    });
}

/// Fetches `count` frames in receive blocks, which are given back at once or, `late`, when all are there.
inline std::vector<Bytes> fetch_blocks(Port& port, size_t count, bool late = false) {
    std::vector<Bytes> all;
    std::vector<std::pair<ReceiveBlock, size_t>> out;
    becomes([&] {
        const ReceiveBlock block = port.receive_block(0, 100);
        if (block.count != 0) out.emplace_back(block, all.size());
        for (uint32_t i = 0; i < block.count; ++i)
            all.emplace_back(block.data(i), block.data(i) + block.spots[i].length);
        if (block.count != 0 && !late) port.give_back(0, block.count);
        return all.size() >= count;
    });
    if (late)
        for (const auto& [block, first] : out) {
            for (uint32_t i = 0; i < block.count; ++i)
                EXPECT_TRUE(std::equal(block.data(i), block.data(i) + block.spots[i].length, all[first + i].begin()))
                    << "it stays as it is until it is given back";
            port.give_back(0, block.count);
        }
    return all;
}

}  // namespace millrace::io::test
