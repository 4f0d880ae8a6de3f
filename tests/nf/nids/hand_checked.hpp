// Captures, rules for them, and the packets that every rule must alert on, found with another program (tshark) and by
// hand. A new recording of the example's traffic wants its list made anew.
#pragma once

#include <vector>

namespace millrace::nf::nids {

/// One rule, and what another program says of the capture.
struct HandCheckedRule {
    const char* rule;  ///< and lines that hold back its alerts
    /// The display filter that found the packets, for `tshark -r CAPTURE -Y FILTER` with the preferences
    /// `-o ip.defragment:FALSE -o ipv6.defragment:FALSE -o tcp.desegment_tcp_streams:FALSE`; behind a ';' what was
    /// counted out of its packets by hand.
    const char* filter;
    const char* packets;  ///< frame numbers from 1, with ranges: "1 4-7"
};

struct HandCheckedCapture {
    const char* name;
    const char* capture;  ///< `examples:FILE`, `ids-cases:MEMBER` of suricata-verify.tar.xz, or a file of the data
    const char* options;  ///< of the NF, besides `rule` and `engine`
    const char* blocked;  ///< packets whose outcome is `block`
    std::vector<HandCheckedRule> rules;
};

/// Of the example's recording.
const std::vector<HandCheckedCapture>& hand_checked_example();
/// Of published captures.
const std::vector<HandCheckedCapture>& hand_checked_published();
/// All of them.
const std::vector<HandCheckedCapture>& hand_checked_captures();

}  // namespace millrace::nf::nids
