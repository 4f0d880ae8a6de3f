// Every network function that is shipped, with nothing in its tables, with as much as it usually has, and with the
// largest inputs that are published.
#pragma once

#include <functional>
#include <optional>
#include <ostream>
#include <string>
#include <vector>

#include "support/packet_builder.hpp"

namespace millrace::test {

/// A packet that is meant for one entry of the tables, and what the network function says of it.
struct Aimed {
    Frame frame;
    std::string outcome;
    std::optional<uint32_t> detail;
};

/// A network function with tables of some size, and packets for them.
struct SizedTables {
    std::string nfs;                  ///< a YAML list with the function alone
    std::vector<Frame> filling = {};  ///< that come first, and make the entries of what the function keeps
    /// Packets for the first, the middle and the last entry. In published tables entries hide each other: one packet of
    /// each list has to meet its entry. All are empty where there are no entries.
    std::vector<Aimed> first = {}, middle = {}, last = {};
    std::vector<Frame> others = {};  ///< for entries anywhere
};

struct SizedNf {
    std::string nf;    ///< by its name
    std::string size;  ///< one of kSizes
    std::string data;  ///< the file or folder of MILLRACE_DATA that it needs; empty: none
    std::function<SizedTables()> make;
    friend std::ostream& operator<<(std::ostream& out, const SizedNf& sized) {
        return out << sized.nf << ", " << sized.size;
    }
};

inline constexpr const char* kSizes[] = {"0", "1", "usual", "1000", "largest"};

/// The table: all functions in all sizes.
const std::vector<SizedNf>& sized_nfs();
/// Why a function does not come in a size; empty where it has to.
std::string why_not_sized(const std::string& nf, const std::string& size);

/// Tables of so many entries that are made up, about networks that no golden packet has to do with.
SizedTables made_up(const std::string& nf, size_t entries);

/// Tables of the largest published inputs.
SizedTables published_firewall(const std::string& file);
SizedTables published_nids(const std::string& folder);
SizedTables published_router(const std::string& file);
SizedTables published_switch(const std::string& file);

/// A UDP packet to port 7 of an address, with bytes in it.
Frame frame_to(uint32_t address, std::string_view payload = "hello");

}  // namespace millrace::test
