// Intrusion detection by Snort and Suricata rules: the device half.
#pragma once

#include "millrace/nf/nids/evaluate.hpp"
#include "millrace/nf/nids/rules_in_parts.hpp"

namespace millrace::nf::nids {

struct Nids {
    static constexpr Fields reads = field::headers | field::payload;
    static constexpr Fields writes = field::none;
    static constexpr unsigned lanes = 8;

    static constexpr uint32_t block_bytes = pattern::kFilterBlockBytes;

    using Tables = NidsTables;
    using InParts = RulesInParts<MatchedRules>;

#if MILLRACE_GPU
    MILLRACE_DEVICE static void stage(const Tables& tables, uint32_t* block) {
        pattern::stage_filter(tables.patterns, block);
    }
#endif

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        return search<MatchedRules>(packet, tables, lanes, 0);
    }

    // The same in parts (nf::Parts): `find` looks for the patterns, `sift` leaves out of the rules that they lead to,
    // and of those without a pattern, what flags and ports refuse, `check` what the rest of the headers does, and
    // `judge` looks at what else the few ask for that are left.
    template <class Lanes>
    MILLRACE_DEVICE static void find(const Packet& packet, const Tables& tables, uint32_t* words, Lanes lanes) {
        InParts::find(packet, tables, words, lanes, 0);
    }
    MILLRACE_DEVICE static uint32_t candidates(const Packet&, const Tables& tables, uint32_t* words) {
        return InParts::candidates(tables, words);
    }
    MILLRACE_DEVICE static void sift(Packet& packet, const Tables& tables, uint32_t* words, uint32_t candidate) {
        InParts::sift(packet, tables, words, candidate);
    }
    MILLRACE_DEVICE static uint32_t sifted(const Packet&, const Tables& tables, uint32_t* words) {
        return InParts::sifted(tables, words);
    }
    MILLRACE_DEVICE static void check(Packet& packet, const Tables& tables, uint32_t* words, uint32_t noted) {
        InParts::check(packet, tables, words, noted);
    }
    MILLRACE_DEVICE static uint32_t checked(const Packet&, const Tables& tables, uint32_t* words) {
        return InParts::checked(tables, words);
    }
    template <class Lanes>
    MILLRACE_DEVICE static void judge(Packet& packet, const Tables& tables, uint32_t* words, uint32_t piece,
                                      Lanes lanes) {
        InParts::judge(packet, tables, words, piece, lanes);
    }
    MILLRACE_DEVICE static Decision conclude(Packet& packet, const Tables& tables, uint32_t* words) {
        return InParts::conclude(packet, tables, words);
    }

    /// Looks for every rule's pattern in the payload at once, then confirms the rules whose pattern is there. `flow`:
    /// as of header_flags.
    template <class Alerts, class Lanes>
    MILLRACE_DEVICE static Decision search(Packet& packet, const Tables& tables, Lanes lanes, uint16_t flow) {
        using Rules = Evaluation<Lanes, Alerts>;
        if (!concerns(packet)) return {kNoDetail, kClean};
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
