// From rules as they were read to the tables that devices hold.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/nf/image.hpp"
#include "millrace/nf/nids/compile/flow_state.hpp"
#include "millrace/nf/nids/compile/port_classes.hpp"
#include "millrace/nf/nids/compile/rule_index.hpp"
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

    std::vector<CompiledRule> compiled;  ///< by rule
    std::vector<RuleHeader> headers;     ///< that rules refer to
    std::vector<Op> ops;
    std::vector<uint8_t> literals;
    std::vector<AddressSet> address_sets;
    std::vector<Range4> ranges4;
    std::vector<Range6> ranges6;
    std::vector<PortSet> port_sets;
    std::vector<PortRange> port_ranges;
    PortClasses port_classes;  ///< of both
    std::vector<PatternRules> by_pattern;
    std::vector<Listed> pattern_rules;
    bool asks_more = false;         ///< as of NidsTables
    bool spans = false;             ///< whether any rule may be met across segments of a TCP stream
    bool spans_from_start = false;  ///< as of NidsTables
    bool of_messages = false;       ///< whether any rule is CompiledRule::kOfMessage
    HeaderIndex without_pattern;    ///< the rules that no pattern leads to
    CompiledState state;

    /// How many rules ask for the state of their flow, or change it.
    size_t of_flows() const;
    /// Fills tables, which are the image's or part of them; the arrays are copied.
    void attach(nf::Image& image, NidsTables& tables) const;
    void attach(nf::Image& image) const { attach(image, image.start<NidsTables>()); }
};

/// Compiles all rules that are supported, in their order. `drops`: drop and reject rules drop (ips). `before`: numbers
/// that names of flowbits and flowint have already. `messages`: HTTP messages are followed, if flows are. Throws
/// ConfigError as compile_state.
CompiledRules compile(std::vector<Rule> rules, bool drops, const FlowNames& before = {}, bool messages = true);

/// The options of a rule as operations, or the reason why it cannot be (`rule.unsupported`). `pattern`: what is
/// searched for before the rule is looked at.
struct LoweredRule {
    std::vector<Op> ops;
    std::vector<uint8_t> literals;  ///< that Op::data counts in
};
LoweredRule lower(Rule& rule, const std::string& pattern, regex::RegexSet& regexes);

}  // namespace millrace::nf::nids
