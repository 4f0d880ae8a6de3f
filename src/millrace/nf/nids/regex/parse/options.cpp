#include "millrace/nf/nids/regex/parse/options.hpp"

namespace millrace::nf::nids::regex {

Options options_of(std::string_view flags, size_t offset, bool& anchored) {
    Options options;
    anchored = false;
    for (const char flag : flags) {
        switch (flag) {
            case 'i': options.caseless = true; break;
            case 'm': options.lines = true; break;
            case 's': options.dot_all = true; break;
            case 'x': options.extended = true; break;
            case 'E': options.end_only = true; break;
            case 'G': options.lazy = true; break;
            case 'A': anchored = true; break;
            default: throw Refusal{"flag " + std::string(1, flag) + " is not one of imsxAEG", offset};
        }
    }
    return options;
}

std::optional<size_t> end_of_options(std::string_view text, size_t at) {
    const size_t end = text.find_first_not_of("imsxU-", at);
    if (end == std::string_view::npos || (text[end] != ')' && text[end] != ':')) return std::nullopt;
    return end;
}

void take_options(std::string_view text, size_t& at, size_t end, Options& options) {
    bool on = true;
    for (; at < end; ++at) {
        switch (text[at]) {
            case '-':
                if (!on) throw Refusal{"a second - among options", at};
                on = false;
                break;
            case 'i': options.caseless = on; break;
            case 'm': options.lines = on; break;
            case 's': options.dot_all = on; break;
            case 'x': options.extended = on; break;
            default: options.lazy = on; break;  // U
        }
    }
}

}  // namespace millrace::nf::nids::regex
