// Functions at the same place of chains that are written alike: the same kinds of functions in the same order, and
// outcomes that lead to the same places.
#pragma once

#include <map>
#include <string>
#include <utility>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::chain {

/// Of one configuration, and of the generations behind it. One thread at a time.
class SiblingPlaces {
public:
    /// By the function's place in it, and its kind: one that was built anew is another.
    using Chain = std::map<std::pair<size_t, const nf::Type*>, nf::Siblings>;

    /// Those of a chain with these `nfs:`. Good for as long as this is there.
    Chain& of(const std::vector<Config>& nfs) { return chains_[shape_of(nfs)]; }

private:
    /// How a chain is written, but for options and names.
    static std::string shape_of(const std::vector<Config>& nfs) {
        std::string shape;
        for (const Config& entry : nfs) {
            if (entry.is_scalar()) shape += entry.text();
            if (entry.is_map())
                for (const auto& [key, value] : entry.entries()) {
                    const std::string& name = key.text();
                    if (name == "name") continue;
                    shape += name;
                    if (name == "on" || name == "lanes") shape += ' ' + value.written();
                    shape += ',';
                }
            shape += '\n';
        }
        return shape;
    }

    std::map<std::string, Chain> chains_;  // by shape
};

}  // namespace millrace::chain
