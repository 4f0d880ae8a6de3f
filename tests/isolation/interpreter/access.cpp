// The interpreter's accesses to memory.
#include <fmt/format.h>

#include <cstring>

#include "isolation/interpreter/compute.hpp"
#include "isolation/interpreter/machine.hpp"

namespace millrace::test::ptx_machine {

using isolation::Access;
using Kind = isolation::ptx::Operand::Kind;

Region* Machine::find_region(std::vector<std::unique_ptr<Region>>& regions, uint64_t address, uint64_t bytes) {
    for (auto& region : regions)
        if (region->holds(address, bytes)) return region.get();
    return nullptr;
}

uint8_t* Machine::reach_space(Way way, uint64_t address, uint32_t bytes, bool writes, Region*& region) {
    if (way == Way::generic) {
        if (in_4_gib(address, kGenericShared))
            return reach_space(Way::shared, address - kGenericShared, bytes, writes, region);
        if (in_4_gib(address, kGenericLocal))
            return reach_space(Way::local, address - kGenericLocal, bytes, writes, region);
        if (in_4_gib(address, kGenericConstant))
            return reach_space(Way::constant, address - kGenericConstant, bytes, writes, region);
        way = Way::global;
    }
    if (way == Way::global) {
        uint8_t* const found = memory_.reach(address, bytes);
        if (found != nullptr) {
            ++outcome_.accesses;
            return found;
        }
        region = find_region(globals_, address, bytes);
    } else if (way == Way::shared) {
        region = shared_.holds(address, bytes) ? &shared_ : nullptr;
    } else if (way == Way::local) {
        region = find_region(locals_, address, bytes);
    } else {
        region = find_region(constants_, address, bytes);
    }
    if (region == nullptr) stop(Violation::Kind::outside, fmt::format("touches {} bytes at 0x{:x}", bytes, address));
    if (writes && region->constant) stop(Violation::Kind::constant, "writes what is constant");
    return region->bytes.data() + (address - region->begin);
}

uint8_t* Machine::reach(Frame& frame, const Statement& statement, const Access& access, Region*& region) {
    const Operand& operand = statement.operands[access.operand];
    const Operand& base = operand.elements.at(0);
    if (access.way == Way::param) {
        Region& parameter = frame.parameters.at(base.index);
        const auto offset = static_cast<uint64_t>(operand.offset);
        if (!parameter.holds(offset, access.bytes)) stop(Violation::Kind::outside, "touches bytes beyond a parameter");
        region = &parameter;
        return parameter.bytes.data() + offset;
    }
    const uint64_t address = value(frame, base) + static_cast<uint64_t>(operand.offset);
    if (address % access.bytes != 0)
        stop(Violation::Kind::misaligned, fmt::format("{} bytes at 0x{:x}", access.bytes, address));
    return reach_space(access.way, address, access.bytes, access.writes, region);
}

void Machine::load(Frame& frame, const Statement& statement, const Decoded& decoded) {
    const Access& access = decoded.access;
    Region* region = nullptr;
    const uint8_t* const from = reach(frame, statement, access, region);
    if (region != nullptr && options_.checks_unset)
        for (uint64_t i = 0; i < access.bytes; ++i)
            if (!region->written[static_cast<uint64_t>(from - region->bytes.data()) + i])
                stop(Violation::Kind::unset, "reads memory that nothing wrote");
    const isolation::ptx::Type type = decoded.types.at(0);
    const auto one = [&](const Operand& to, size_t i) {
        uint64_t value = 0;
        std::memcpy(&value, from + i * type.bytes(), type.bytes());
        if (type.kind == isolation::ptx::Type::Kind::signed_int)
            value = static_cast<uint64_t>(as_signed(value, type.bits));
        write(frame, to, value);
    };
    const Operand& to = statement.operands[0];
    if (!to.is(Kind::vector)) return one(to, 0);
    for (size_t i = 0; i < to.elements.size(); ++i) one(to.elements[i], i);
}

void Machine::store(Frame& frame, const Statement& statement, const Decoded& decoded) {
    const Access& access = decoded.access;
    Region* region = nullptr;
    uint8_t* const to = reach(frame, statement, access, region);
    const uint32_t bytes = decoded.types.at(0).bytes();
    const auto one = [&](const Operand& from, size_t i) {
        const uint64_t held = value(frame, from);
        std::memcpy(to + i * bytes, &held, bytes);
    };
    const Operand& from = statement.operands[1];
    if (!from.is(Kind::vector)) one(from, 0);
    else
        for (size_t i = 0; i < from.elements.size(); ++i) one(from.elements[i], i);
    if (region == nullptr) return;
    const auto begin = region->written.begin() + (to - region->bytes.data());
    std::fill(begin, begin + access.bytes, true);
}

void Machine::exchange(Frame& frame, const Statement& statement, const Decoded& decoded) {
    const Access& access = decoded.access;
    Region* region = nullptr;
    uint8_t* const at = reach(frame, statement, access, region);
    uint64_t old = 0;
    std::memcpy(&old, at, access.bytes);
    std::vector<uint64_t> values;
    for (size_t i = access.operand + 1; i < statement.operands.size(); ++i)
        values.push_back(value(frame, statement.operands[i]));
    const uint64_t made = atomic_result(statement, decoded, old, values);
    std::memcpy(at, &made, access.bytes);
    if (access.operand == 1) write(frame, statement.operands[0], old);
}

}  // namespace millrace::test::ptx_machine
