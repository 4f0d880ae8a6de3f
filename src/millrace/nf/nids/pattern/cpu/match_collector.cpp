#include "millrace/nf/nids/pattern/cpu/engines.hpp"

namespace millrace::nf::nids::pattern {

void MatchCollector::expand(NumberSet& matches, size_t payload, PatternHits& hits) {
    const uint32_t* begin = automaton_.output_begin->data();
    const uint32_t* ids = automaton_.output_ids->data();
    const uint32_t* link = automaton_.output_link.data();
    // The list grows underway by the links that are not in it yet, and each is followed once.
    for (size_t i = 0; i < matches.list().size(); ++i) {
        const uint32_t match = matches.list()[i];
        for (uint32_t k = begin[match]; k < begin[match + 1]; ++k) ids_.insert(ids[k]);
        if (link[match] != kNoPattern) matches.insert(link[match]);
    }
    matches.clear();
    ids_.sort();
    hits.set(payload, ids_.list());
    ids_.clear();
}

}  // namespace millrace::nf::nids::pattern
