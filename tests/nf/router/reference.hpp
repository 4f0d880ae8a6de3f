// What the router's tests compare with: longest-prefix match by a map for each length.
#pragma once

#include <algorithm>
#include <array>
#include <fstream>
#include <map>
#include <set>
#include <string>
#include <string_view>
#include <unordered_map>

#include "millrace/base/text/prefix.hpp"
#include "support/packet_builder.hpp"

namespace millrace::test {

/// Routes by prefix to any value.
class ReferenceTable {
public:
    void insert(const Prefix& prefix, uint32_t value) {
        tables_[prefix.ipv6][prefix.length][key(prefix.bytes.data(), prefix.length)] = value;
    }
    void erase(const Prefix& prefix) {
        tables_[prefix.ipv6][prefix.length].erase(key(prefix.bytes.data(), prefix.length));
    }
    /// The value of the longest prefix, or `none`. `address` has 4 or 16 bytes.
    uint32_t lookup(const uint8_t* address, bool ipv6, uint32_t none) const {
        const auto& lengths = tables_[ipv6];
        for (auto it = lengths.rbegin(); it != lengths.rend(); ++it) {
            const auto found = it->second.find(key(address, it->first));
            if (found != it->second.end()) return found->second;
        }
        return none;
    }

private:
    using Key = std::array<uint8_t, 16>;
    struct Hash {
        size_t operator()(const Key& key) const {
            return std::hash<std::string_view>()({reinterpret_cast<const char*>(key.data()), key.size()});
        }
    };
    /// The address with zeros behind its first `length` bits.
    static Key key(const uint8_t* address, unsigned length) {
        Key key{};
        std::copy_n(address, length / 8, key.begin());
        if (length % 8 != 0) key[length / 8] = static_cast<uint8_t>(address[length / 8] & 0xff00 >> length % 8);
        return key;
    }
    std::map<unsigned, std::unordered_map<Key, uint32_t, Hash>> tables_[2];
};

/// A file in the test's temporary folder.
inline std::string temporary_file(const std::string& name, const std::string& content) {
    const std::string path = testing::TempDir() + name;
    std::ofstream(path) << content;
    return path;
}

}  // namespace millrace::test
