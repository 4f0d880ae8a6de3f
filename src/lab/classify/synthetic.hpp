// Made-up rule sets with the properties that tuple and Bloom search depend on (Varvello et al., CoNEXT 2014, section
// 6).
#pragma once

#include <stdexcept>
#include <string>
#include <vector>

#include "millrace/nf/classify/flow_fields.hpp"

namespace millrace::nf::classify {

/// What a set shall be like; the names in the paper stand behind.
struct SyntheticSpec {
    uint32_t rules = 1024;      ///< N
    uint32_t classes = 128;     ///< C: different masks
    uint32_t full_classes = 0;  ///< F: classes that share all rules but the single ones of the others; 0 is all
    uint32_t overlap = 1;       ///< C_m: classes that a packet of the trace matches
    unsigned fields = 12;       ///< 12 (OpenFlow) or 5 (IPv4's 5-tuple)
    uint32_t packets = 0;       ///< of the trace
    uint64_t seed = 1;
};

/// One rule: the fields that it asks for, and which of their bits. Of 5 fields, only the five are set.
struct SyntheticRule {
    FlowFields value, mask;
};

/// A header of the trace, and the rule that it was made from, from 0.
struct SyntheticPacket {
    FlowFields fields;
    uint32_t rule = 0;
};

struct SyntheticSet {
    std::vector<SyntheticRule> rules;  ///< in order of match
    std::vector<SyntheticPacket> packets;
};

/// Masks come from the fields in every combination that OpenFlow allows: whole or left out, addresses in prefixes of 2
/// to 32 bits. Rules that overlap are made from one header under `overlap` masks. The same spec gives the same set.
/// Throws std::invalid_argument with what would mend it when the numbers do not fit each other.
SyntheticSet make_synthetic(const SyntheticSpec& spec);

/// The rules of a set of 12 fields as ternary rules, by position.
std::vector<TernaryRule<9>> ternary_rules(const SyntheticSet& set);

/// The 5-tuple of a header made up.
HeaderKey five_tuple(const FlowFields& fields);
/// A rule as a line of ClassBench (without line end), of a set of 5 fields.
std::string classbench_text(const SyntheticRule& rule);
/// The match of a rule as `ovs-ofctl` writes it: `in_port=1,dl_type=0x0800,nw_dst=10.0.0.0/8`. Empty for a rule that
/// matches all.
std::string flow_text(const SyntheticRule& rule);
/// A header as traces hold it: of 5 fields as ClassBench writes it, of 12 like a flow; then a blank and the rule's
/// number.
std::string trace_text(const SyntheticPacket& packet, unsigned fields);

}  // namespace millrace::nf::classify
