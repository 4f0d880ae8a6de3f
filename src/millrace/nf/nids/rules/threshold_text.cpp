#include "millrace/nf/nids/rules/threshold_text.hpp"

#include "millrace/nf/nids/rules/rule_builder.hpp"

namespace millrace::nf::nids {
namespace {

template <class T, size_t N>
T choose(const std::pair<std::string_view, T> (&choices)[N], const Word& word) {
    std::string known;
    for (const auto& [name, value] : choices) {
        if (name == word.text) return value;
        known += (known.empty() ? "" : ", ") + std::string(name);
    }
    throw RuleError{word.at, "'" + std::string(word.text) + "' is not one of " + known};
}

}  // namespace

Threshold read_threshold(std::string_view value, size_t at, bool detection_filter) {
    Threshold threshold;
    if (detection_filter) threshold.type = Threshold::Type::detection;
    bool count = false, seconds = false, type = detection_filter;
    for (const Word& part : split_commas(value, at)) {
        const auto words = split_words(part.text, part.at);
        if (words.size() != 2) throw RuleError{part.at, "'" + std::string(part.text) + "' is not a name and a value"};
        const std::string_view name = words[0].text;
        if (name == "type") {
            static constexpr std::pair<std::string_view, Threshold::Type> kTypes[] = {
                {"limit", Threshold::Type::limit},
                {"threshold", Threshold::Type::threshold},
                {"both", Threshold::Type::both}};
            threshold.type = choose(kTypes, words[1]);
            type = true;
        } else if (name == "track") {
            static constexpr std::pair<std::string_view, Threshold::Track> kTracks[] = {
                {"by_src", Threshold::Track::by_src},
                {"by_dst", Threshold::Track::by_dst},
                {"by_both", Threshold::Track::by_both},
                {"by_rule", Threshold::Track::by_rule}};
            threshold.track = choose(kTracks, words[1]);
        } else if (name == "count") {
            threshold.count = static_cast<uint32_t>(read_integer(words[1], 1, 0xffffffff));
            count = true;
        } else if (name == "seconds") {
            threshold.seconds = static_cast<uint32_t>(read_integer(words[1], 1, 0xffffffff));
            seconds = true;
        } else {
            throw RuleError{words[0].at, "'" + std::string(name) + "' belongs to no threshold",
                            "it has type, track, count and seconds"};
        }
    }
    if (!type || !count || !seconds) throw RuleError{at, "a threshold needs type, track, count and seconds"};
    return threshold;
}

}  // namespace millrace::nf::nids
