// What the router's tests compare with: longest-prefix match by a map for each length.
#pragma once

#include <fstream>
#include <map>
#include <set>
#include <string>
#include <unordered_map>

#include "millrace/base/text/prefix.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {

/// Routes by prefix to any value.
class ReferenceTable {
public:
    void insert(const Prefix& prefix, uint32_t value) {
        tables_[prefix.ipv6][prefix.length][key(prefix.bytes.data(), prefix.length, prefix.ipv6)] = value;
    }
    void erase(const Prefix& prefix) {
        tables_[prefix.ipv6][prefix.length].erase(key(prefix.bytes.data(), prefix.length, prefix.ipv6));
    }
    /// The value of the longest prefix, or `none`. `address` has 4 or 16 bytes.
    uint32_t lookup(const uint8_t* address, bool ipv6, uint32_t none) const {
        const auto& lengths = tables_[ipv6];
        for (auto it = lengths.rbegin(); it != lengths.rend(); ++it) {
            const auto found = it->second.find(key(address, it->first, ipv6));
            if (found != it->second.end()) return found->second;
        }
        return none;
    }

private:
    static std::string key(const uint8_t* address, unsigned length, bool ipv6) {
        std::string bytes(address, address + (ipv6 ? 16 : 4));
        for (unsigned bit = length; bit < bytes.size() * 8; ++bit)
            bytes[bit / 8] = static_cast<char>(bytes[bit / 8] & ~(0x80 >> bit % 8));
        return bytes;
    }
    std::map<unsigned, std::unordered_map<std::string, uint32_t>> tables_[2];
};

/// A file in the test's temporary folder.
inline std::string temporary_file(const std::string& name, const std::string& content) {
    const std::string path = testing::TempDir() + name;
    std::ofstream(path) << content;
    return path;
}

}  // namespace millrace::test
