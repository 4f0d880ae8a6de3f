#include <algorithm>

#include "millrace/nf/nids/compile/compiled_rules.hpp"

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

}  // namespace

std::string fast_pattern_of(const Rule& rule) {
    std::string longest;
    for (const Term& term : rule.terms) {
        const auto* content = std::get_if<Content>(&term.option);
        if (content == nullptr || content->negated) continue;
        std::string part = part_in_payload(term, *content, content->fast_pattern);
        if (content->fast_pattern && !part.empty()) return part;
        if (part.size() > longest.size()) longest = std::move(part);
    }
    return longest;
}

}  // namespace millrace::nf::nids
