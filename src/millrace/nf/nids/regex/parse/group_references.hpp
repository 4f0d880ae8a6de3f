// The groups of a pattern, and what refers to them: by number or by name, also before the group.
#pragma once

#include <cstdint>
#include <map>
#include <string>
#include <utility>
#include <vector>

#include "millrace/nf/nids/regex/parse/ast.hpp"

namespace millrace::nf::nids::regex {

/// All of it throws Refusal.
class GroupReferences {
public:
    /// Another capturing group: its number, from 1.
    uint32_t add_group() { return ++groups_; }
    /// The next group gets a name, which stands at `offset`.
    void name_next(const std::string& name, size_t offset);
    uint32_t groups() const { return groups_; }

    /// What Node::group says of a group with that number, or with that name, which `resolve` puts a number for.
    uint32_t by_number(uint64_t number, size_t offset);
    uint32_t by_name(std::string name, size_t offset);

    /// The whole pattern has been read: all that is referred to is there, and names in the tree become numbers.
    void resolve(Node& root) const;

private:
    void resolve_names(Node& node) const;

    uint32_t groups_ = 0;
    std::map<std::string, uint32_t> names_;
    std::vector<std::pair<uint32_t, size_t>> numbers_used_;   // group, where
    std::vector<std::pair<std::string, size_t>> names_used_;  // name, where
};

}  // namespace millrace::nf::nids::regex
