// What the start of a payload tells of a rule before its options are looked at one by one.
#pragma once

#include "millrace/nf/nids/compile/compiled_rules.hpp"

namespace millrace::nf::nids {

/// Operations of kind field_mask which hold for whatever meets the rule, and cost less to ask: that the payload begins
/// with the first bytes of a content that must stand there, and that an HTTP message begins where parts of one are
/// asked for. As many as the rule has room for.
std::vector<Op> start_checks(const LoweredRule& rule);

}  // namespace millrace::nf::nids
