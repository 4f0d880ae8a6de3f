#include "millrace/nf/crc/tables.hpp"

namespace millrace::nf::crc {
namespace {

constexpr uint32_t kOne = 0x80000000u;  // x^0

}  // namespace

uint32_t reflected(Polynomial polynomial) { return polynomial == Polynomial::ethernet ? 0xedb88320u : 0x82f63b78u; }

std::vector<uint32_t> make_powers(uint32_t polynomial) {
    // x^32 is P without it; each further power of it is 32 times x more.
    std::vector<uint32_t> powers{kOne};
    for (uint32_t i = 1; i <= kMaxLanes; ++i) powers.push_back(multiply(powers.back(), polynomial, polynomial));
    return powers;
}

std::vector<uint32_t> make_steps(uint32_t polynomial) {
    const std::vector<uint32_t> powers = make_powers(polynomial);
    std::vector<uint32_t> steps;
    steps.reserve(kSteps * kStepWords);
    for (const unsigned lanes : kStepLanes)
        for (uint32_t place = 0; place < 4; ++place)
            for (uint32_t byte = 0; byte < 256; ++byte)
                steps.push_back(multiply(byte << 8 * place, powers[lanes], polynomial));
    return steps;
}

}  // namespace millrace::nf::crc
