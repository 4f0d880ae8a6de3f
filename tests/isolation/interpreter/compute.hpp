// What the permitted instructions compute: PTX ISA 9.0, sections 9.7.1 to 9.7.9, written anew for tests.
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "isolation/interpreter/decoded.hpp"

namespace millrace::test::ptx_machine {

/// An instruction that is of the list and that this interpreter does not know: a mistake of the tests.
class UnknownInstruction : public std::runtime_error {
public:
    using std::runtime_error::runtime_error;
};

/// The lowest `bits` of a value.
uint64_t low_bits(uint64_t value, unsigned bits);
int64_t as_signed(uint64_t value, unsigned bits);

/// The result of an instruction with one register as result, of its sources as their registers hold them. `setp` gives
/// the comparison, before it is joined with a predicate.
uint64_t compute(const isolation::ptx::Statement& statement, const Decoded& decoded, const std::vector<uint64_t>& in);
/// The result of `atom.op` and `red.op`: what is stored.
uint64_t atomic_result(const isolation::ptx::Statement& statement, const Decoded& decoded, uint64_t old,
                       const std::vector<uint64_t>& in);
/// What `compute` does by it; null: it knows none of this name.
const Operation* operation_of(const isolation::ptx::Statement& statement);

/// Floating-point ones.
uint64_t compute_real(const isolation::ptx::Statement& statement, const std::vector<isolation::ptx::Type>& types,
                      const std::vector<uint64_t>& in);
uint64_t convert_real(const isolation::ptx::Statement& statement, const std::vector<isolation::ptx::Type>& types,
                      uint64_t in);

}  // namespace millrace::test::ptx_machine
