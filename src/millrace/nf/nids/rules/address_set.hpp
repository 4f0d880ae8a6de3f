// Sets of addresses and of ports as sorted ranges, and reading them from rule headers.
#pragma once

#include <array>
#include <cstdint>
#include <map>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/nf/nids/rules/range_list.hpp"

namespace millrace::nf::nids {

/// An IPv6 address as a number.
__extension__ typedef unsigned __int128 Wide;

using PortRanges = RangeList<uint16_t>;

struct AddressRanges {
    RangeList<uint32_t> v4;
    RangeList<Wide> v6;
    static AddressRanges any() { return {RangeList<uint32_t>::all(), RangeList<Wide>::all()}; }
    bool is_any() const { return v4.is_all() && v6.is_all(); }
    bool empty() const { return v4.empty() && v6.empty(); }
    friend bool operator==(const AddressRanges&, const AddressRanges&) = default;
    friend auto operator<=>(const AddressRanges& a, const AddressRanges& b) = default;
};

/// What is wrong with a part of a rule, and where in its text.
struct RuleError {
    size_t at = 0;
    std::string message;
    std::string hint{};
};

/// The variables of rule headers ($HOME_NET, $HTTP_PORTS): names without '$', values as in headers.
class Variables {
public:
    /// Those that rule sets expect: every address `any`, the usual ports of each service.
    static Variables defaults();
    void set(const std::string& name, const std::string& value) { values_[name] = value; }
    const std::map<std::string, std::string>& values() const { return values_; }

    /// Reads what stands in a rule's header. `at` is its place in the rule, for RuleError.
    AddressRanges addresses(std::string_view text, size_t at) const { return address_list(text, at, 0); }
    PortRanges ports(std::string_view text, size_t at) const { return port_list(text, at, 0); }

private:
    AddressRanges address_list(std::string_view text, size_t at, int depth) const;
    PortRanges port_list(std::string_view text, size_t at, int depth) const;
    const std::string& value_of(std::string_view name, size_t at, int depth) const;
    template <class Ranges, class ReadOne>
    Ranges list(std::string_view text, size_t at, int depth, const ReadOne& read_one) const;

    std::map<std::string, std::string> values_;
};

}  // namespace millrace::nf::nids
