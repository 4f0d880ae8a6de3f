// Whether segments of a TCP stream may meet a rule together which each alone does not.
#pragma once

#include "millrace/nf/nids/rules/rule.hpp"

namespace millrace::nf::nids {

enum class Spanning {
    none,        ///< it is of one packet
    anywhere,    ///< in any bytes that follow each other
    from_start,  ///< it says of bytes where in the stream they stand: those from its first one on tell
};

/// `messages`: HTTP messages are followed, which tell more of rules that are of_message.
Spanning span_of(const Rule& rule, bool messages);
/// Whether a rule asks of HTTP messages, and of nothing that one packet alone has.
bool of_message(const Rule& rule);

}  // namespace millrace::nf::nids
