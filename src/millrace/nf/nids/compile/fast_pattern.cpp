#include "millrace/nf/nids/compile/fast_pattern.hpp"

#include <algorithm>
#include <map>

#include "millrace/nf/nids/compile/rule_index.hpp"

namespace millrace::nf::nids {
namespace {

/// More of a content than this tells little, and costs states of the automaton.
constexpr size_t kMaxBytes = 24;

/// The longest part that stands in the payload as it is: the buffer's joints do not.
std::string longest_part(const std::string& bytes, std::string_view joint) {
    std::string longest;
    size_t start = 0;
    while (start <= bytes.size()) {
        const size_t end = std::min(bytes.find(joint, start), bytes.size());
        if (end - start > longest.size()) longest = bytes.substr(start, end - start);
        start = end + joint.size();
    }
    return longest;
}

std::string part_in_payload(const Term& term, const Content& content, bool cut) {
    std::string bytes = content.bytes;
    if (cut && content.fast_part && content.fast_part->first < bytes.size())
        bytes = bytes.substr(content.fast_part->first, content.fast_part->second);
    if (term.buffer == Buffer::dns_query) bytes = longest_part(bytes, ".");
    if (term.buffer == Buffer::http_header_names) {
        bytes = longest_part(bytes, "\r\n");
        // The joint itself may be cut in half at either end.
        while (!bytes.empty() && (bytes.front() == '\r' || bytes.front() == '\n')) bytes.erase(0, 1);
        while (!bytes.empty() && (bytes.back() == '\r' || bytes.back() == '\n')) bytes.pop_back();
    }
    if (term.dot_prefix && bytes.starts_with('.')) bytes.erase(0, 1);
    if (bytes.size() > kMaxBytes) bytes.resize(kMaxBytes);
    std::transform(bytes.begin(), bytes.end(), bytes.begin(),
                   [](char c) { return static_cast<char>(to_lower(static_cast<uint8_t>(c))); });
    return bytes;
}

/// A content that leads to its rule.
struct Candidate {
    std::string bytes;
    bool marked = false;
};

/// In the order of the rule.
std::vector<Candidate> candidates_of(const Rule& rule) {
    std::vector<Candidate> all;
    for (const Term& term : rule.terms) {
        const auto* content = std::get_if<Content>(&term.option);
        if (content == nullptr || content->negated) continue;
        std::string part = part_in_payload(term, *content, content->fast_pattern);
        if (!part.empty()) all.push_back({std::move(part), content->fast_pattern});
    }
    return all;
}

/// Rules that may have a content which one of them has marked, before another content is taken for it.
constexpr uint32_t kFewUses = 4;
/// The same, where most of the rules that have it have marked it: what stands in ordinary traffic is seldom marked.
constexpr uint32_t kSomeUses = 64;
/// Patterns of three bytes that are searched for: each passes a filter with any fourth byte.
constexpr size_t kFewOfThreeBytes = 8;
/// Rules that may be looked at for most packets in place of a search.
constexpr size_t kFewBroadRules = 4;
/// More ports than this are many.
constexpr uint64_t kFewPorts = 4096;
/// A content within so many bytes of its buffer's beginning is looked at quickly.
constexpr int64_t kNear = 64;

/// Whether a look at a payload's first bytes is enough to be done with the rule, mostly.
bool is_near(const Rule& rule) {
    return std::any_of(rule.terms.begin(), rule.terms.end(), [](const Term& term) {
        const auto* content = std::get_if<Content>(&term.option);
        return content != nullptr && !content->negated && content->depth && content->depth->slot < 0 &&
               content->depth->value <= kNear;
    });
}
/// Whether few packets have such headers, or the rule is done with others after a look at their first bytes.
bool is_narrow(const Rule& rule) {
    if (rule.application != Application::none) return true;
    if (!rule.both_ways && std::min(size_of(rule.src_ports), size_of(rule.dst_ports)) <= kFewPorts) return true;
    return is_near(rule);
}

/// A rule whose contents are all too short for a filter.
struct ShortRule {
    std::set<std::string> of_three;  ///< those of three bytes
    bool is_searched = false;        ///< it would be looked for in whole payloads
};

/// Contents that spare most searches of whole payloads, and then most looks at rules; one after the other, as what a
/// rule has besides a chosen one spares nothing.
std::set<std::string> sparing_most(std::vector<ShortRule> rules) {
    std::set<std::string> chosen;
    while (chosen.size() < kFewOfThreeBytes) {
        std::map<std::string, std::pair<size_t, size_t>> spared;
        for (const ShortRule& rule : rules)
            for (const std::string& bytes : rule.of_three) {
                spared[bytes].first += rule.is_searched;
                ++spared[bytes].second;
            }
        const auto most = std::ranges::max_element(spared, {}, [](const auto& one) { return one.second; });
        if (most == spared.end()) break;
        std::erase_if(rules, [&](const ShortRule& rule) { return rule.of_three.contains(most->first); });
        chosen.insert(most->first);
    }
    return chosen;
}

}  // namespace

FastPatterns::FastPatterns(const std::vector<Rule>& rules) {
    for (const Rule& rule : rules) {
        if (!rule.unsupported.empty()) continue;
        std::map<std::string, bool> own;  // whether it is marked
        for (Candidate& candidate : candidates_of(rule)) own[std::move(candidate.bytes)] |= candidate.marked;
        for (const auto& [bytes, marked] : own) {
            ++uses_[bytes].rules;
            uses_[bytes].marked += marked;
            windows_.learn(bytes);
        }
    }
    std::vector<ShortRule> short_ones;
    size_t broad = 0;
    for (const Rule& rule : rules) {
        if (!rule.unsupported.empty()) continue;
        const std::string pattern = best_of(rule);
        if (pattern.empty() || pattern.size() >= kFilterable) continue;
        if (pattern.size() + 1 < kFilterable) broad += !is_narrow(rule);
        ShortRule& own = short_ones.emplace_back();
        own.is_searched = rule.application == Application::none && !is_near(rule);
        for (Candidate& candidate : candidates_of(rule))
            if (candidate.bytes.size() + 1 == kFilterable) own.of_three.insert(std::move(candidate.bytes));
    }
    short_ones_by_header_ = broad <= kFewBroadRules;
    of_three_bytes_ = sparing_most(std::move(short_ones));
}

std::string FastPatterns::best_of(const Rule& rule) const {
    std::vector<Candidate> candidates = candidates_of(rule);
    const auto is_short = [](const Candidate& candidate) { return candidate.bytes.size() < kFilterable; };
    if (!std::all_of(candidates.begin(), candidates.end(), is_short)) std::erase_if(candidates, is_short);
    const auto uses = [&](const Candidate& candidate) { return uses_.at(candidate.bytes).rules; };
    // Whoever wrote the rule knows more of traffic than counts do.
    const auto trusted = [&](const Uses& of) {
        return of.rules <= kFewUses || (of.rules <= kSomeUses && of.rules <= 2 * of.marked);
    };
    for (Candidate& candidate : candidates)
        if (candidate.marked && trusted(uses_.at(candidate.bytes))) return std::move(candidate.bytes);
    const auto best = std::min_element(
        candidates.begin(), candidates.end(), [&](const Candidate& a, const Candidate& b) {
            return uses(a) != uses(b) ? uses(a) < uses(b) : a.bytes.size() > b.bytes.size();
        });
    return best == candidates.end() ? std::string() : std::move(best->bytes);
}

std::string FastPatterns::filterable_of(const Rule& rule) const {
    std::string best = best_of(rule);
    if (best.empty() || best.size() >= kFilterable || of_three_bytes_.contains(best)) return best;
    for (Candidate& candidate : candidates_of(rule))
        if (of_three_bytes_.contains(candidate.bytes)) return std::move(candidate.bytes);
    return best;
}

std::string FastPatterns::of(const Rule& rule) const {
    std::string pattern = filterable_of(rule);
    // A rule that is one content and no more need not be looked at where all of it was found.
    if (rule.terms.size() > 1) pattern = std::string(windows_.from_the_rarest(pattern));
    pattern = std::string(RareWindows::without_a_run(pattern));
    const bool by_header = pattern.size() < kFilterable && short_ones_by_header_ && !of_three_bytes_.contains(pattern);
    return by_header ? std::string() : pattern;
}

}  // namespace millrace::nf::nids
