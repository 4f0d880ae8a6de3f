#include "millrace/nf/classify/bit_vector/vector_store.hpp"

#include <algorithm>
#include <string>

namespace millrace::nf::classify {

VectorStore::VectorStore(size_t bits, uint64_t limit_bytes)
    : chunks_(static_cast<uint32_t>((bits + BitVectors::kChunkBits - 1) / BitVectors::kChunkBits)),
      limit_bytes_(limit_bytes), rows_(chunks_), blocks_(BitVectors::kChunkWords) {
    const uint32_t zeros[BitVectors::kChunkWords] = {};
    blocks_.add(zeros);  // block 0, to which the chunks of an empty row point
}

void VectorStore::assign(Row& row, std::span<const uint32_t> positions, bool value) {
    while (!positions.empty()) {
        BitVectors::Chunk& chunk = row[positions.front() / BitVectors::kChunkBits];
        const uint32_t first = positions.front() / BitVectors::kChunkBits * BitVectors::kChunkBits;
        uint32_t words[BitVectors::kChunkWords];
        std::copy_n(blocks_[chunk.block], BitVectors::kChunkWords, words);
        size_t done = 0;
        for (; done < positions.size() && positions[done] - first < BitVectors::kChunkBits; ++done) {
            const uint32_t bit = positions[done] - first;
            if (value) {
                words[bit / 32] |= 1u << (bit % 32);
            } else {
                words[bit / 32] &= ~(1u << (bit % 32));
            }
        }
        chunk.summary = 0;
        for (uint32_t i = 0; i < BitVectors::kChunkWords; ++i) chunk.summary |= (words[i] != 0 ? 1u : 0u) << i;
        chunk.block = blocks_.add(words);
        positions = positions.subspan(done);
    }
    check_limit();
}

uint32_t VectorStore::add(const Row& row) {
    const uint32_t number = rows_.add(row.data());
    check_limit();
    return number;
}

void VectorStore::check_limit() const {
    if (bytes() > limit_bytes_)
        throw TablesTooLarge("the bit vectors of these rules take more than " + std::to_string(limit_bytes_) +
                             " bytes");
}

}  // namespace millrace::nf::classify
