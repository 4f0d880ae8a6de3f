#include <algorithm>
#include <map>
#include <set>

#include "millrace/nf/nids/compile/compiled_rules.hpp"

namespace millrace::nf::nids {
namespace {

/// A rule is found by its address when that narrows down what it concerns at least this much.
constexpr uint64_t kFewAddresses = uint64_t{1} << 27;

class Compiler {
public:
    explicit Compiler(bool drops) : drops_(drops) {
        // Sets 0: any.
        out_.address_sets.emplace_back();
        out_.port_sets.emplace_back();
    }

    CompiledRules run(std::vector<Rule> rules) {
        for (Rule& rule : rules) {
            LoweredRule lowered;
            if (rule.unsupported.empty()) lowered = lower(rule, out_.regexes);
            if (rule.unsupported.empty()) {
                add(std::move(rule), lowered);
            } else {
                out_.unsupported.push_back(std::move(rule));
            }
        }
        finish_patterns();
        out_.by_source = by_source_.build();
        out_.by_destination = by_destination_.build();
        out_.by_port = by_port_.build();
        return std::move(out_);
    }

private:
    void add(Rule rule, const LoweredRule& lowered) {
        const auto index = static_cast<uint32_t>(out_.rules.size());
        CompiledRule compiled;
        compiled.first_op = static_cast<uint32_t>(out_.ops.size());
        compiled.ops = static_cast<uint16_t>(lowered.ops.size());
        compiled.header = rule.header;
        compiled.action = action_of(rule);
        compiled.application = rule.application;
        compiled.src = address_set(rule.src);
        compiled.dst = address_set(rule.dst);
        compiled.src_ports = port_set(rule.src_ports);
        compiled.dst_ports = port_set(rule.dst_ports);
        compiled.application_ports = rule.application == Application::ports ? port_set(rule.application_ports) : 0;
        const auto literals = static_cast<uint32_t>(out_.literals.size());
        for (Op op : lowered.ops) {
            if (op.kind == OpKind::content) op.data += literals;
            out_.ops.push_back(op);
        }
        out_.literals.insert(out_.literals.end(), lowered.literals.begin(), lowered.literals.end());
        if (!lowered.pattern.empty()) {
            const auto [at, added] = pattern_ids_.emplace(lowered.pattern, static_cast<uint32_t>(patterns_.size()));
            if (added) {
                patterns_.push_back(lowered.pattern);
                rules_of_pattern_.emplace_back();
            }
            rules_of_pattern_[at->second].push_back(index);
        } else {
            add_without_pattern(rule, index);
        }
        out_.headers.push_back(compiled);
        rule.terms.clear();
        out_.rules.push_back(std::move(rule));
    }

    uint8_t action_of(const Rule& rule) const {
        uint8_t action = rule.silent ? CompiledRule::kSilent : 0;
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

    static bool is_few(const RangeList<uint32_t>& ranges) {
        uint64_t count = 0;
        for (const auto& range : ranges.ranges()) count += uint64_t{range.high} - range.low + 1;
        return count <= kFewAddresses;
    }

    void add_without_pattern(const Rule& rule, uint32_t index) {
        ++out_.without_pattern;
        if (!rule.both_ways && (is_few(rule.src.v4) || is_few(rule.dst.v4))) {
            const bool source = is_few(rule.src.v4);
            const AddressRanges& addresses = source ? rule.src : rule.dst;
            for (const auto& range : addresses.v4.ranges())
                (source ? by_source_ : by_destination_).add(range.low, range.high, index);
            if (!addresses.v6.empty()) out_.only_ipv6.push_back(index);
            return;
        }
        static constexpr std::pair<uint16_t, PortKey> kKeys[] = {{CompiledRule::kTcp, PortKey::tcp},
                                                                 {CompiledRule::kUdp, PortKey::udp},
                                                                 {CompiledRule::kIcmp, PortKey::icmp},
                                                                 {CompiledRule::kOther, PortKey::other}};
        const PortRanges ports = rule.both_ways ? PortRanges::all() : rule.dst_ports;
        for (const auto& [protocol, key] : kKeys) {
            if (!(rule.header & protocol)) continue;
            const uint32_t high_bits = static_cast<uint32_t>(key) << 16;
            for (const auto& range : ports.ranges()) by_port_.add(high_bits | range.low, high_bits | range.high, index);
        }
    }

    /// Whether every IP packet that has the rule's pattern meets it.
    static bool asks_for_nothing_more(const CompiledRule& rule) {
        return rule.ops == 0 && rule.header == CompiledRule::kAnyProtocol && rule.application == Application::none &&
               rule.src == 0 && rule.dst == 0 && rule.src_ports == 0 && rule.dst_ports == 0;
    }

    /// The rule as the list of its pattern names it.
    uint32_t named(uint32_t index) const {
        const CompiledRule& rule = out_.headers[index];
        if (!asks_for_nothing_more(rule)) return index;
        return named_rule::kAlways | static_cast<uint32_t>(rule.action) << named_rule::kActionShift | index;
    }

    /// Of the rules of one pattern, ascending, keeps those that can matter in a packet that has the pattern: behind a
    /// pass rule that all such packets meet, none does, and before it only pass rules do; behind such a drop rule no
    /// silent one does.
    void leave_out_what_others_decide(std::vector<uint32_t>& rules) const {
        const auto always = [&](uint8_t action) {
            return std::find_if(rules.begin(), rules.end(), [&](uint32_t i) {
                return (out_.headers[i].action & action) && asks_for_nothing_more(out_.headers[i]);
            });
        };
        if (const auto pass = always(CompiledRule::kPass); pass != rules.end()) {
            rules.erase(pass + 1, rules.end());
            std::erase_if(rules, [&](uint32_t i) { return !(out_.headers[i].action & CompiledRule::kPass); });
        } else if (const auto drop = always(CompiledRule::kDrop); drop != rules.end()) {
            const uint32_t first = *drop;
            std::erase_if(rules, [&](uint32_t i) {
                return i > first && (out_.headers[i].action & ~CompiledRule::kDrop) == CompiledRule::kSilent;
            });
        }
    }

    void finish_patterns() {
        for (std::vector<uint32_t>& rules : rules_of_pattern_) {
            leave_out_what_others_decide(rules);
            const auto first = static_cast<uint32_t>(out_.pattern_rules.size());
            if (rules.size() == 1) {
                out_.by_pattern.push_back({named(rules.front()), 1});
                continue;
            }
            out_.by_pattern.push_back({first, static_cast<uint32_t>(rules.size())});
            for (const uint32_t rule : rules) out_.pattern_rules.push_back(named(rule));
        }
        out_.patterns = std::make_shared<const pattern::PatternSet>(std::move(patterns_));
    }

    bool drops_;
    CompiledRules out_;
    std::map<AddressRanges, uint32_t> address_ids_;
    std::map<PortRanges, uint32_t> port_ids_;
    std::map<std::string, uint32_t> pattern_ids_;
    std::vector<std::string> patterns_;
    std::vector<std::vector<uint32_t>> rules_of_pattern_;
    RangeIndexBuilder by_source_, by_destination_, by_port_;
};

void attach_index(nf::Image& image, RangeIndex& view, const CompiledRules::Index& index) {
    image.attach(view.starts, index.starts);
    image.attach(view.begin, index.begin);
    image.attach(view.rules, index.rules);
}

}  // namespace

CompiledRules::Index RangeIndexBuilder::build() const {
    std::set<uint32_t> starts{0};
    for (const Entry& entry : entries_) {
        starts.insert(entry.low);
        if (entry.high != 0xffffffff) starts.insert(entry.high + 1);
    }
    CompiledRules::Index index;
    index.starts.assign(starts.begin(), starts.end());
    std::vector<std::vector<uint32_t>> rules(index.starts.size());
    for (const Entry& entry : entries_) {
        const auto first = std::lower_bound(index.starts.begin(), index.starts.end(), entry.low);
        for (auto at = first; at != index.starts.end() && *at <= entry.high; ++at)
            rules[static_cast<size_t>(at - index.starts.begin())].push_back(entry.rule);
    }
    for (const auto& list : rules) {
        index.begin.push_back(static_cast<uint32_t>(index.rules.size()));
        index.rules.insert(index.rules.end(), list.begin(), list.end());
    }
    index.begin.push_back(static_cast<uint32_t>(index.rules.size()));
    return index;
}

CompiledRules compile(std::vector<Rule> rules, bool drops) { return Compiler(drops).run(std::move(rules)); }

void CompiledRules::attach(nf::Image& image) const {
    NidsTables& tables = image.start<NidsTables>();
    image.attach(tables.rules, headers);
    image.attach(tables.header.address_sets, address_sets);
    image.attach(tables.header.ranges4, ranges4);
    image.attach(tables.header.ranges6, ranges6);
    image.attach(tables.header.port_sets, port_sets);
    image.attach(tables.header.port_ranges, port_ranges);
    image.attach(tables.options.ops, ops);
    image.attach(tables.options.literals, literals);
    regexes.attach(image, tables.options.regex);
    patterns->attach(image, tables.patterns);
    image.attach(tables.by_pattern, by_pattern);
    image.attach(tables.pattern_rules, pattern_rules);
    attach_index(image, tables.by_source, by_source);
    attach_index(image, tables.by_destination, by_destination);
    attach_index(image, tables.by_port, by_port);
    image.attach(tables.only_ipv6, only_ipv6);
    tables.without_pattern = without_pattern > 0;
}

}  // namespace millrace::nf::nids
