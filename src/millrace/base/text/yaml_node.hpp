// What a YAML text holds: values with their places. The YAML library's own tree takes longer to make than its parser
// takes to read, takes several times the memory, and may not be read by two threads at the same time.
#pragma once

#include <cstdint>
#include <deque>
#include <memory>
#include <string>
#include <vector>

namespace millrace {

/// From 0, as the YAML library counts; -1 for what was not read from a text.
struct YamlPlace {
    int32_t line = -1, column = -1;
    bool is_known() const { return line >= 0; }
};

/// One value. What an alias refers to is the same value in two places.
struct YamlNode {
    enum class Kind : uint8_t { null, scalar, list, map };
    enum class Style : uint8_t { any, block, flow };
    Kind kind = Kind::null;
    Style style = Style::any;
    YamlPlace place;
    std::string tag;     ///< "!" of a quoted scalar, "?" of what has none
    std::string scalar;  ///< the text of a scalar
    /// The elements of a list; a map's keys, each with its value behind it, in their order.
    std::vector<const YamlNode*> children;
};

/// Owns values. They stay where they are.
struct YamlTree {
    std::deque<YamlNode> nodes;
    std::vector<std::shared_ptr<const YamlNode>> others;  ///< of other trees, that values here refer to
};

/// A value that keeps its tree.
inline std::shared_ptr<const YamlNode> owned(std::shared_ptr<const YamlTree> tree, const YamlNode* node) {
    return {std::move(tree), node};
}

/// The value as YAML again, without comments. What is in it twice is written once, and referred to.
std::string written(const YamlNode& node);

}  // namespace millrace
