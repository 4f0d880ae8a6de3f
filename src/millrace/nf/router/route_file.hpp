// Routing tables as text: one route a line.
#pragma once

#include <functional>
#include <string>
#include <string_view>

#include "millrace/base/text/prefix.hpp"
#include "millrace/nf/router/mistakes.hpp"

namespace millrace::nf::router {

/// One line of a route file.
struct FileRoute {
    Prefix prefix;
    std::string_view next_hop;  ///< as it stands there; empty when the line has none
    uint32_t line = 0;
    uint32_t column = 1;  ///< of the prefix
    uint32_t next_hop_column = 0;
};

/// Goes through `text`, the content of `file`: `prefix`, or `prefix next-hop`, separated by blanks or
/// tabs; empty lines and those that begin with ';' or '#' say nothing. Calls `f` for each route in the
/// order of the lines; the views it gets live as long as `text`. What is wrong goes to `mistakes`.
void read_routes(std::string_view text, const std::string& file, Mistakes& mistakes,
                 const std::function<void(const FileRoute&)>& f);

}  // namespace millrace::nf::router
