// Functions of one configuration that have the same options, so that they may share what they have.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>

#include "millrace/base/text/config.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::chain {

class EqualFunctions {
public:
    /// The place of the first function of `type` with these options: null until it has been put there. Good until the
    /// next call.
    std::shared_ptr<nf::NetworkFunction>& first(const nf::Type& type, const Config& options) {
        const auto [place, is_new] = only_.try_emplace(&type);
        Only& only = place->second;
        if (is_new) {
            only.options = options;
            return only.nf;
        }
        if (only.options) by_text_[{&type, std::exchange(only.options, std::nullopt)->written()}] = std::move(only.nf);
        return by_text_[{&type, options.written()}];
    }

private:
    /// The only one of its type so far. To write large tables takes long: that waits until there are others to compare.
    struct Only {
        std::optional<Config> options;
        std::shared_ptr<nf::NetworkFunction> nf;
    };
    std::map<const nf::Type*, Only> only_;
    std::map<std::pair<const nf::Type*, std::string>, std::shared_ptr<nf::NetworkFunction>> by_text_;
};

}  // namespace millrace::chain
