// Reading the known answers of NIST, the RFCs and Wycheproof.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <vector>

namespace millrace::test {

using Bytes = std::vector<uint8_t>;

Bytes from_hex(const std::string& text);

/// One case of a .rsp file: its fields by name, and the section that it stands in ("ENCRYPT").
struct KnownAnswer {
    std::string section;
    std::map<std::string, std::string> fields;
    Bytes bytes(const std::string& name) const { return from_hex(fields.at(name)); }
};

/// The cases of a response file of NIST's CAVP (`NAME = value` lines, an empty line after each case).
/// Fails the test when the file holds none.
std::vector<KnownAnswer> read_known_answers(const std::string& path);

}  // namespace millrace::test
