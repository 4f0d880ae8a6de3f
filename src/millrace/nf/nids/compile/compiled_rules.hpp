// From rules as they were read to the tables that devices hold.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/nf/image.hpp"
#include "millrace/nf/nids/evaluate.hpp"
#include "millrace/nf/nids/pattern/pattern_set.hpp"
#include "millrace/nf/nids/regex/compiler.hpp"
#include "millrace/nf/nids/rules/rule.hpp"

namespace millrace::nf::nids {

/// The rules that are applied, by index, and everything that their device tables are made of.
struct CompiledRules {
    std::vector<Rule> rules;        ///< those that are applied; the index is the device's
    std::vector<Rule> unsupported;  ///< those that are not, each with its reason
    std::shared_ptr<const pattern::PatternSet> patterns;
    regex::RegexSet regexes;

    std::vector<CompiledRule> headers;
    std::vector<Op> ops;
    std::vector<uint8_t> literals;
    std::vector<AddressSet> address_sets;
    std::vector<Range4> ranges4;
    std::vector<Range6> ranges6;
    std::vector<PortSet> port_sets;
    std::vector<PortRange> port_ranges;
    std::vector<PatternRules> by_pattern;
    std::vector<uint32_t> pattern_rules;
    struct Index {
        std::vector<uint32_t> starts, begin, rules;
    };
    Index by_source, by_destination, by_port;
    std::vector<uint32_t> only_ipv6;
    size_t without_pattern = 0;  ///< rules that no pattern leads to

    /// Fills the image with tables; the arrays are copied.
    void attach(nf::Image& image) const;
};

/// Compiles all rules that are supported, in their order. `drops`: drop and reject rules drop (ips).
CompiledRules compile(std::vector<Rule> rules, bool drops);

/// The options of a rule as operations, or the reason why it cannot be (`rule.unsupported`).
struct LoweredRule {
    std::vector<Op> ops;
    std::vector<uint8_t> literals;  ///< that Op::data counts in
    std::string pattern;            ///< to look for first, lower case; empty when there is none
};
LoweredRule lower(Rule& rule, regex::RegexSet& regexes);

/// The bytes that every packet has in which the rule can match, lower case: of the content marked
/// fast_pattern, else of the longest. Empty when no content tells.
std::string fast_pattern_of(const Rule& rule);

/// Rules by ranges of a number.
class RangeIndexBuilder {
public:
    void add(uint32_t low, uint32_t high, uint32_t rule) { entries_.push_back({low, high, rule}); }
    CompiledRules::Index build() const;

private:
    struct Entry {
        uint32_t low, high, rule;
    };
    std::vector<Entry> entries_;
};

}  // namespace millrace::nf::nids
