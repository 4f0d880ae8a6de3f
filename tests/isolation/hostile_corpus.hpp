// Functions that try to read, change or stop what is not their own: hostile/*.ptx.
#pragma once

#include <ostream>
#include <string>
#include <vector>

namespace millrace::test {

/// A file makes a case for each combination of the values of its lines `// vary NAME: a | b`, which stand where it says
/// @NAME@. What has no `.func` is the body of one; what has no `.version` gets one.
struct HostileCase {
    std::string name;      ///< "wild_load.3"
    std::string text;      ///< PTX
    std::string refused;   ///< a part of the refusal's words; empty: it is fenced, and harmless then
    std::string unfenced;  ///< what it does without a fence, by name_of(Violation::Kind); "any" or "none"
    bool spent = false;    ///< its budget ends it
    unsigned shared_bytes = 0;
    /// It writes to an address made of one that each machine gives a variable as it likes.
    bool at_own_addresses = false;

    friend void PrintTo(const HostileCase& one, std::ostream* out) { *out << one.name; }
};

std::vector<HostileCase> hostile_cases();
/// A module with one function `hostile(packet, tables)` that gives eight bytes, which does this.
std::string function_around(const std::string& body);

/// With `kernel(packet, tables, out)`, which calls a function of a module in every thread and writes the first four or
/// eight bytes of its result. A linker drops functions that nothing calls.
std::string with_kernel(const std::string& text, const std::string& function);

}  // namespace millrace::test
