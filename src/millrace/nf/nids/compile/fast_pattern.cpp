#include "millrace/nf/nids/compile/fast_pattern.hpp"

#include <algorithm>
#include <set>

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
/// Patterns of three bytes that a filter can have: each passes with any fourth byte.
constexpr size_t kFewOfThreeBytes = 16;
/// Rules that may be looked at for most packets in place of a search.
constexpr size_t kFewBroadRules = 4;
/// More ports than this are many.
constexpr uint64_t kFewPorts = 4096;
/// A content within so many bytes of its buffer's beginning is looked at quickly.
constexpr int64_t kNear = 64;

/// Whether few packets have such headers, or the rule is done with others after a look at their first bytes.
bool is_narrow(const Rule& rule) {
    if (rule.application != Application::none) return true;
    if (!rule.both_ways && std::min(size_of(rule.src_ports), size_of(rule.dst_ports)) <= kFewPorts) return true;
    return std::any_of(rule.terms.begin(), rule.terms.end(), [](const Term& term) {
        const auto* content = std::get_if<Content>(&term.option);
        return content != nullptr && !content->negated && content->depth && content->depth->slot < 0 &&
               content->depth->value <= kNear;
    });
}

}  // namespace

FastPatterns::FastPatterns(const std::vector<Rule>& rules) {
    for (const Rule& rule : rules) {
        if (!rule.unsupported.empty()) continue;
        std::set<std::string> own;
        for (Candidate& candidate : candidates_of(rule)) own.insert(std::move(candidate.bytes));
        for (const std::string& bytes : own)
            ++uses_[bytes];
    }
    std::set<std::string> of_three;
    size_t broad = 0;
    for (const Rule& rule : rules) {
        if (!rule.unsupported.empty()) continue;
        const std::string pattern = best_of(rule);
        if (pattern.empty() || pattern.size() >= kFilterable) continue;
        if (pattern.size() + 1 == kFilterable) of_three.insert(pattern);
        else broad += !is_narrow(rule);
    }
    short_ones_by_header_ = broad <= kFewBroadRules;
    three_bytes_by_header_ = short_ones_by_header_ && of_three.size() > kFewOfThreeBytes;
}

std::string FastPatterns::best_of(const Rule& rule) const {
    std::vector<Candidate> candidates = candidates_of(rule);
    const auto is_short = [](const Candidate& candidate) { return candidate.bytes.size() < kFilterable; };
    if (!std::all_of(candidates.begin(), candidates.end(), is_short)) std::erase_if(candidates, is_short);
    const auto uses = [&](const Candidate& candidate) { return uses_.at(candidate.bytes); };
    // Whoever wrote the rule knows more of traffic than counts do.
    for (Candidate& candidate : candidates)
        if (candidate.marked && uses(candidate) <= kFewUses) return std::move(candidate.bytes);
    const auto best = std::min_element(candidates.begin(), candidates.end(),
                                       [&](const Candidate& a, const Candidate& b) {
                                           return uses(a) != uses(b) ? uses(a) < uses(b)
                                                                     : a.bytes.size() > b.bytes.size();
                                       });
    return best == candidates.end() ? std::string() : std::move(best->bytes);
}

std::string FastPatterns::of(const Rule& rule) const {
    std::string pattern = best_of(rule);
    const bool by_header = pattern.size() + 1 == kFilterable  ? three_bytes_by_header_
                           : pattern.size() + 1 < kFilterable ? short_ones_by_header_
                                                              : false;
    return by_header ? std::string() : pattern;
}

}  // namespace millrace::nf::nids
