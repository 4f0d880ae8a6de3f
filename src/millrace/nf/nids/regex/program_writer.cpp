#include "millrace/nf/nids/regex/program_writer.hpp"

#include <algorithm>

namespace millrace::nf::nids::regex {
namespace {

constexpr uint32_t kMaxProgramWords = 1u << 16;

}  // namespace

void ProgramWriter::put(uint32_t word) {
    if (code_.size() >= kMaxProgramWords) throw Refusal{"the program gets too long", 0};
    code_.push_back(word);
}

uint32_t ProgramWriter::put_choice(bool lazy, uint32_t set_here, uint32_t set_there) {
    put(lazy ? kChoiceLazy : kChoice, 0);
    const uint32_t target = put_later();
    put(set_here);
    put(set_there);
    return target;
}

void ProgramWriter::put_literal(Op op, const std::vector<uint8_t>& bytes) {
    put(op, static_cast<uint32_t>(bytes.size()));
    for (size_t i = 0; i < bytes.size(); i += 4) {
        uint32_t word = 0;
        for (size_t j = i; j < std::min(i + 4, bytes.size()); ++j) word |= uint32_t{bytes[j]} << (8 * (j - i));
        put(word);
    }
}

uint32_t ProgramWriter::reserve(uint32_t count, size_t offset) {
    if (registers_ + count > kRegisters) throw Refusal{"too many groups, counts and lookarounds", offset};
    registers_ += count;
    return registers_ - count;
}

}  // namespace millrace::nf::nids::regex
