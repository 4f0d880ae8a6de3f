// What is known of a rule while its options are read one after the other.
#pragma once

#include <limits>
#include <string>
#include <vector>

#include "millrace/nf/nids/rules/rule.hpp"
#include "millrace/nf/nids/rules/rule_text.hpp"

namespace millrace::nf::nids {

/// Of offsets, depths and distances: no packet is longer.
inline constexpr int64_t kMaxOffset = 65535;

struct RuleBuilder {
    Rule rule;
    bool snort3 = false;              ///< `http_uri;` selects a buffer, and does not modify the content before
    Buffer buffer = Buffer::payload;  ///< selected for the options that follow
    bool dot_prefix = false;
    int last_content = -1;           ///< in rule.terms; -1: none yet
    std::vector<std::string> slots;  ///< names of the variables
    bool sets_other_state = false;   ///< of hosts, which no rule that is applied asks for

    /// Appends a term at the selected buffer.
    template <class T>
    Term& add(T option, const Option& at) {
        Term term;
        term.option = std::move(option);
        term.buffer = buffer;
        term.dot_prefix = dot_prefix;
        term.at = static_cast<uint32_t>(at.at);
        rule.terms.push_back(std::move(term));
        return rule.terms.back();
    }
    /// The content that a modifier belongs to. Throws RuleError when there is none.
    Term& modified(const Option& option);
    /// A number or the name of a variable; one that no byte_extract fills makes the rule unsupported.
    Number number(const Word& word, int64_t least, int64_t most);
};

/// Reads an integer, decimal or 0x hexadecimal. Throws RuleError.
int64_t read_integer(const Word& word, int64_t least = std::numeric_limits<int64_t>::min(),
                     int64_t most = std::numeric_limits<int64_t>::max());

/// A number with a comparison: `5`, `!5`, `<5`, `>=5`, `2<>8` (2 and 8 excluded), `2<=>8`, `2-8`.
struct NumberRange {
    uint32_t low = 0, high = 0xffffffff;
    bool negated = false;
};
NumberRange read_range(const Word& word);

// Each reads the option if its keyword is one of its own, and says whether it was.
bool read_description(RuleBuilder& builder, const Option& option);     ///< msg, sid, threshold, …
bool read_state_option(RuleBuilder& builder, const Option& option);    ///< flowbits, stream_size, flowint, …
bool read_header_option(RuleBuilder& builder, const Option& option);   ///< flow, flags, ttl, …
bool read_content_option(RuleBuilder& builder, const Option& option);  ///< content, its modifiers, pcre
bool read_byte_option(RuleBuilder& builder, const Option& option);     ///< isdataat, byte_test, bsize, …
bool read_buffer_option(RuleBuilder& builder, const Option& option);   ///< http_uri, file_data, tls.sni, …

/// The buffer called `name` in any of the languages; nothing when there is none. `modifier`: the name
/// follows a content in Snort 2 and old Suricata rules.
struct BufferName {
    Buffer buffer;
    bool modifier;
};
std::optional<BufferName> find_buffer(std::string_view name);

}  // namespace millrace::nf::nids
