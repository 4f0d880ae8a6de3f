// Intrusion detection by Snort and Suricata rules: the device half.
#pragma once

#include "millrace/nf/nids/evaluate.hpp"

namespace millrace::nf::nids {

struct Nids {
    static constexpr Fields reads = field::headers | field::payload;
    static constexpr Fields writes = field::none;
    static constexpr unsigned lanes = 8;

    static constexpr uint32_t block_bytes = pattern::kFilterBlockBytes;

    using Tables = NidsTables;

#if MILLRACE_GPU
    MILLRACE_DEVICE static void stage(const Tables& tables, uint32_t* block) {
        pattern::stage_filter(tables.patterns, block);
    }
#endif

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        return search<MatchedRules>(packet, tables, lanes, 0);
    }

    /// Looks for every rule's pattern in the payload at once, then confirms the rules whose pattern is there. `flow`:
    /// as of header_flags.
    template <class Alerts, class Lanes>
    MILLRACE_DEVICE static Decision search(Packet& packet, const Tables& tables, Lanes lanes, uint16_t flow) {
        using Rules = Evaluation<Lanes, Alerts>;
        if (!Rules::concerns(packet)) return {kNoDetail, kClean};
        typename Rules::Buffers buffers = Rules::buffers_of(packet, lanes);
        Alerts alerts;
        Rules evaluation(packet, tables, buffers, alerts, lanes, flow);
        pattern::find_patterns(
            packet.payload(), packet.payload_bytes(), tables.patterns, lanes, [&](auto& found, uint32_t most) {
                evaluation.patterns([&](uint32_t lane) { return found.of(lane).take(tables.patterns, most); });
            });
        return evaluation.finish();
    }
};

}  // namespace millrace::nf::nids
