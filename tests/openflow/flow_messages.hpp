// Messages that change flows, put together from parts in hex.
#pragma once

#include <iomanip>
#include <sstream>
#include <string>

#include "openflow/messages.hpp"

namespace millrace::test {

inline std::string message(const std::string& name) { return kMessages.at(name); }

/// A message in hex without blanks, its header's length made right.
inline std::string with_its_length(const std::string& hex) {
    std::string plain;
    for (const char c : hex)
        if (c != ' ') plain += c;
    std::ostringstream length;
    length << std::hex << std::setw(4) << std::setfill('0') << plain.size() / 2;
    return plain.replace(4, 4, length.str());
}

/// A flow-mod (add, priority 7) of a match and instructions in hex, with the length that they make; blanks are left
/// out.
inline std::string flow_mod(const std::string& match, const std::string& instructions = "") {
    return with_its_length(
        "040e000000000005"
        "0000000000000000"
        "0000000000000000"
        "0000"
        "0000"
        "0000"
        "0007"
        "ffffffff"
        "00000000"
        "00000000"
        "0000"
        "0000" +
        match + instructions);
}
inline const std::string kAnyMatch = "0001000400000000";

/// APPLY_ACTIONS with these actions.
inline std::string apply(const std::string& actions) {
    return with_its_length(
        "00040000"
        "00000000" +
        actions);  // the length stands where messages have theirs
}
inline const std::string kOutput2 = "00000010000000020000000000000000", kSetEthDst = "00190010800006060200000000990000";

}  // namespace millrace::test
