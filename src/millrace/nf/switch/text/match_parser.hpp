// The match of a flow, word by word.
#pragma once

#include "millrace/nf/switch/text/match_field.hpp"
#include "millrace/nf/switch/text/words.hpp"

namespace millrace::nf::flow_switch {

/// Adds what `name=value`, or a word alone (`value` is then what follows it, empty), asks for. False when there is no
/// such field or word. Throws WordMistake, also where the flow does not ask for what the field needs (a port without
/// TCP or UDP).
bool read_match(Word name, Word value, const PortNumbers& ports, FlowMatch& match);

/// A value of a field, as people write it; without a mask. Throws WordMistake.
FieldValue read_value(const MatchField& field, Word word);

}  // namespace millrace::nf::flow_switch
