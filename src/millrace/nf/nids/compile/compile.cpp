#include <algorithm>
#include <array>
#include <map>
#include <set>

#include "millrace/nf/nids/compile/compiled_rules.hpp"
#include "millrace/nf/nids/compile/fast_pattern.hpp"
#include "millrace/nf/nids/compile/span.hpp"
#include "millrace/nf/nids/compile/start_checks.hpp"

namespace millrace::nf::nids {
namespace {

class Compiler {
public:
    Compiler(bool drops, const FlowNames& before, bool messages) : drops_(drops), before_(before), messages_(messages) {
        // Sets 0: any.
        out_.address_sets.emplace_back();
        out_.port_sets.emplace_back();
    }

    CompiledRules run(std::vector<Rule> rules) {
        leave_out_host_bits(rules);
        const FastPatterns fast_patterns(rules);
        for (Rule& rule : rules) {
            LoweredRule lowered;
            std::string pattern;
            refuse_host_bits(rule);
            if (state_rules_ + rule.uses_state() > kMaxStateRules) rule.refuse("too many rules with flowbits");
            if (rule.unsupported.empty()) {
                pattern = fast_patterns.of(rule);
                lowered = lower(rule, pattern, out_.regexes);
            }
            if (rule.unsupported.empty()) {
                add(std::move(rule), std::move(lowered), pattern);
            } else {
                out_.unsupported.push_back(std::move(rule));
            }
        }
        out_.state = compile_state(out_.rules, out_.compiled, before_);
        finish_patterns();
        out_.without_pattern.build();
        out_.port_classes = classify_ports(out_.headers, out_.port_sets, out_.port_ranges);
        return std::move(out_);
    }

private:
    void add(Rule rule, LoweredRule lowered, const std::string& pattern) {
        const auto index = static_cast<uint32_t>(out_.rules.size());
        CompiledRule compiled;
        compiled.first_op = static_cast<uint32_t>(out_.ops.size());
        const auto looks_at_headers = [](const Op& op) {
            return op.kind == OpKind::field_range || op.kind == OpKind::field_mask;
        };
        const auto behind = std::find_if_not(lowered.ops.begin(), lowered.ops.end(), looks_at_headers);
        const std::vector<Op> starts = start_checks(lowered);
        compiled.fields = static_cast<uint8_t>(static_cast<size_t>(behind - lowered.ops.begin()) + starts.size());
        lowered.ops.insert(behind, starts.begin(), starts.end());
        compiled.ops = static_cast<uint16_t>(lowered.ops.size());
        compiled.action = action_of(rule);
        if (messages_ && of_message(rule)) {
            const bool of_body = std::any_of(lowered.ops.begin(), lowered.ops.end(), [](const Op& op) {
                const auto buffer = static_cast<Buffer>(op.mode);
                return op.kind == OpKind::select_buffer && is_of_body(buffer);
            });
            compiled.action |= CompiledRule::kOfMessage | (of_body ? CompiledRule::kOfBody : 0);
            out_.spans = out_.of_messages = true;
        }
        if (const Spanning span = span_of(rule, messages_); span != Spanning::none) {
            compiled.action |= CompiledRule::kSpans | (span == Spanning::from_start ? CompiledRule::kAtStart : 0);
            out_.spans = true;
            out_.spans_from_start = out_.spans_from_start || span == Spanning::from_start;
        }
        compiled.header = header_of(rule);
        compiled.flags = out_.headers[compiled.header].flags;
        const auto literals = static_cast<uint32_t>(out_.literals.size());
        for (Op op : lowered.ops) {
            if (op.kind == OpKind::content) op.data += literals;
            out_.ops.push_back(op);
        }
        out_.literals.insert(out_.literals.end(), lowered.literals.begin(), lowered.literals.end());
        if (!pattern.empty()) {
            const auto [at, added] = pattern_ids_.emplace(pattern, static_cast<uint32_t>(patterns_.size()));
            if (added) {
                patterns_.push_back(pattern);
                rules_of_pattern_.emplace_back();
            }
            rules_of_pattern_[at->second].push_back(index);
        } else {
            out_.without_pattern.add(rule, index, compiled);
        }
        out_.compiled.push_back(compiled);
        state_rules_ += rule.uses_state();
        rule.terms.clear();
        out_.rules.push_back(std::move(rule));
    }

    /// The number of the rule's header, which other rules may have, too.
    uint32_t header_of(const Rule& rule) {
        RuleHeader header;
        header.src = address_set(rule.src);
        header.dst = address_set(rule.dst);
        header.src_ports = port_set(rule.src_ports);
        header.dst_ports = port_set(rule.dst_ports);
        header.application_ports = rule.application == Application::ports ? port_set(rule.application_ports) : 0;
        const bool endpoints = header.src != 0 || header.dst != 0 || header.src_ports != 0 || header.dst_ports != 0 ||
                               header.application_ports != 0;
        header.flags = static_cast<uint16_t>(
            rule.header | (rule.application == Application::http ? RuleHeader::kHttp : 0) |
            (rule.application == Application::tls ? RuleHeader::kTls : 0) | (endpoints ? RuleHeader::kEndpoints : 0));
        const HeaderKey key{header.flags,     header.src,       header.dst,
                            header.src_ports, header.dst_ports, header.application_ports};
        const auto [at, added] = header_ids_.emplace(key, static_cast<uint32_t>(out_.headers.size()));
        if (added) out_.headers.push_back(header);
        return at->second;
    }

    /// Bits of hosts that rules set and no rule asks for.
    static void leave_out_host_bits(std::vector<Rule>& rules) {
        std::set<std::string> asked;
        for (const Rule& rule : rules)
            for (const HostBit& bit : rule.host_bits)
                if (bit.asks() && rule.unsupported.empty()) asked.insert(bit.name);
        for (Rule& rule : rules)
            std::erase_if(rule.host_bits, [&](const HostBit& bit) { return !asked.contains(bit.name); });
    }
    /// Bits of hosts are known where alerts are told, and nowhere else.
    void refuse_host_bits(Rule& rule) const {
        if (rule.host_bits.empty()) return;
        const bool decides = rule.action != Action::alert && rule.action != Action::log;
        if (rule.action == Action::pass) rule.refuse("xbits of a pass rule");
        if (rule.action == Action::silent_drop && drops_) rule.refuse("xbits of a rule that drops without an alert");
        if (decides && drops_ && rule.asks_host_bits()) rule.refuse("xbits that say what is dropped");
        if (rule.asks_host_bits() && rule.sets_flow_state()) rule.refuse("xbits that say what is left with a flow");
    }
    uint8_t action_of(const Rule& rule) const {
        // Whoever tells alerts looks after the bits of hosts: that a rule sets some must be told there.
        uint8_t action = rule.silent && rule.host_bits.empty() ? CompiledRule::kSilent : 0;
        if (rule.action == Action::pass) action |= CompiledRule::kPass;
        if (!drops_) return action;
        if (rule.action == Action::drop || rule.action == Action::reject) action |= CompiledRule::kDrop;
        if (rule.action == Action::silent_drop) action |= CompiledRule::kDrop | CompiledRule::kSilent;
        return action;
    }

    uint32_t address_set(const AddressRanges& ranges) {
        if (ranges.is_any()) return 0;
        const auto [at, added] = address_ids_.emplace(ranges, static_cast<uint32_t>(out_.address_sets.size()));
        if (!added) return at->second;
        AddressSet set{static_cast<uint32_t>(out_.ranges4.size()), static_cast<uint32_t>(ranges.v4.ranges().size()),
                       static_cast<uint32_t>(out_.ranges6.size()), static_cast<uint32_t>(ranges.v6.ranges().size())};
        for (const auto& range : ranges.v4.ranges()) out_.ranges4.push_back({range.low, range.high});
        for (const auto& range : ranges.v6.ranges()) {
            out_.ranges6.push_back({{static_cast<uint64_t>(range.low >> 64), static_cast<uint64_t>(range.low)},
                                    {static_cast<uint64_t>(range.high >> 64), static_cast<uint64_t>(range.high)}});
        }
        out_.address_sets.push_back(set);
        return at->second;
    }

    uint32_t port_set(const PortRanges& ranges) {
        if (ranges.is_all()) return 0;
        const auto [at, added] = port_ids_.emplace(ranges, static_cast<uint32_t>(out_.port_sets.size()));
        if (!added) return at->second;
        out_.port_sets.push_back(
            {static_cast<uint32_t>(out_.port_ranges.size()), static_cast<uint32_t>(ranges.ranges().size())});
        for (const auto& range : ranges.ranges()) out_.port_ranges.push_back({range.low, range.high});
        return at->second;
    }

    /// Whether every IP packet that has the rule's pattern meets it.
    static bool asks_for_nothing_more(const CompiledRule& rule) {
        return rule.ops == 0 && rule.flags == RuleHeader::kAnyProtocol && rule.state_rule == 0;
    }

    /// The rule as the list of its pattern names it.
    Listed named(uint32_t index) {
        const CompiledRule& rule = out_.compiled[index];
        const bool always = asks_for_nothing_more(rule);
        out_.asks_more = out_.asks_more || !always;
        const uint32_t action = rule.action & CompiledRule::kActions;
        const RuleHeader& header = out_.headers[rule.header];
        return listed(always ? named_rule::kAlways | action << named_rule::kActionShift | index : index, rule.header,
                      rule.flags, header.src != 0 || header.dst != 0);
    }

    /// Of the rules of one pattern, ascending, keeps those that can matter in a packet that has the pattern: behind a
    /// pass rule that all such packets meet, none does, and before it only pass rules do; behind such a drop rule no
    /// silent one does. What sets flowbits always can.
    void leave_out_what_others_decide(std::vector<uint32_t>& rules) const {
        const auto always = [&](uint8_t action) {
            return std::find_if(rules.begin(), rules.end(), [&](uint32_t i) {
                return (out_.compiled[i].action & action) && asks_for_nothing_more(out_.compiled[i]);
            });
        };
        if (const auto pass = always(CompiledRule::kPass); pass != rules.end()) {
            const uint32_t last = *pass;
            std::erase_if(rules, [&](uint32_t i) {
                return out_.compiled[i].state_rule == 0 &&
                       (i > last || !(out_.compiled[i].action & CompiledRule::kPass));
            });
        } else if (const auto drop = always(CompiledRule::kDrop); drop != rules.end()) {
            const uint32_t first = *drop;
            std::erase_if(rules, [&](uint32_t i) {
                return i > first && out_.compiled[i].state_rule == 0 &&
                       (out_.compiled[i].action & CompiledRule::kActions & ~CompiledRule::kDrop) ==
                           CompiledRule::kSilent;
            });
        }
    }

    void finish_patterns() {
        for (std::vector<uint32_t>& rules : rules_of_pattern_) {
            leave_out_what_others_decide(rules);
            out_.by_pattern.push_back({.first = static_cast<uint32_t>(out_.pattern_rules.size()),
                                       .count = static_cast<uint32_t>(rules.size())});
            if (rules.size() == 1) {
                out_.by_pattern.back().only = named(rules.front());
                continue;
            }
            for (const uint32_t rule : rules) out_.pattern_rules.push_back(named(rule));
        }
        out_.patterns = std::make_shared<const pattern::PatternSet>(std::move(patterns_));
    }

    /// CompiledRule::state_rule has room for so many.
    static constexpr size_t kMaxStateRules = 0xfffe;

    bool drops_;
    const FlowNames& before_;
    const bool messages_;
    size_t state_rules_ = 0;
    CompiledRules out_;
    std::map<AddressRanges, uint32_t> address_ids_;
    std::map<PortRanges, uint32_t> port_ids_;
    using HeaderKey = std::array<uint32_t, 6>;
    std::map<HeaderKey, uint32_t> header_ids_;
    std::map<std::string, uint32_t> pattern_ids_;
    std::vector<std::string> patterns_;
    std::vector<std::vector<uint32_t>> rules_of_pattern_;
};

}  // namespace

CompiledRules compile(std::vector<Rule> rules, bool drops, const FlowNames& before, bool messages) {
    return Compiler(drops, before, messages).run(std::move(rules));
}

size_t CompiledRules::of_flows() const {
    return static_cast<size_t>(
        std::count_if(compiled.begin(), compiled.end(), [](const CompiledRule& rule) { return rule.asks_flow(); }));
}

void CompiledRules::attach(nf::Image& image, NidsTables& tables) const {
    image.attach(tables.rules, compiled);
    image.attach(tables.header.headers, headers);
    image.attach(tables.header.address_sets, address_sets);
    image.attach(tables.header.ranges4, ranges4);
    image.attach(tables.header.ranges6, ranges6);
    image.attach(tables.header.port_sets, port_sets);
    image.attach(tables.header.port_ranges, port_ranges);
    image.attach(tables.header.port_classes, port_classes.of_port);
    image.attach(tables.header.class_bits, port_classes.bits);
    tables.header.class_words = port_classes.words;
    tables.header.classed_headers = port_classes.headers;
    image.attach(tables.options.ops, ops);
    image.attach(tables.options.literals, literals);
    regexes.attach(image, tables.options.regex);
    patterns->attach(image, tables.patterns);
    image.attach(tables.by_pattern, by_pattern);
    image.attach(tables.pattern_rules, pattern_rules);
    tables.asks_more = asks_more;
    tables.spans_from_start = spans_from_start;
    tables.follows_messages = of_messages;
    without_pattern.attach(image, tables);
}

}  // namespace millrace::nf::nids
