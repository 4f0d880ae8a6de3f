// All rules against one packet, by many small pieces of work (nf::Parts).
#pragma once

#include "millrace/nf/nids/evaluate.hpp"

namespace millrace::nf::nids {

/// What comes behind the search for patterns, whose ids it has left in a packet's kKeptWords words. `Alerts`: as of
/// Evaluation.
template <class Alerts>
struct RulesInParts {
    using One = Lanes<1>;
    /// Rules that are looked at together: what one of them wants to know of an HTTP head the next one finds.
    static constexpr uint32_t kRulesOfPiece = 4;

    /// `flow`: as of header_flags.
    template <class Lanes>
    MILLRACE_DEVICE static void find(const Packet& packet, const NidsTables& tables, uint32_t* words, Lanes lanes,
                                     uint16_t flow) {
        KeptOfPacket kept(words, tables.by_pattern);
        if (!concerns(packet)) return lanes.once([&] { kept.decide({kNoDetail, kClean}); });
        const uint32_t room = kept.room();
        uint32_t count = 0;
        pattern::find_patterns(packet.payload(), packet.payload_bytes(), tables.patterns, lanes,
                               [&](auto& found, uint32_t most) {
                                   for (uint32_t more = 1; more != 0; count += more) {
                                       PerLane<uint32_t, Lanes> id;
                                       more = lanes.number(
                                           [&](uint32_t lane) {
                                               id.of(lane) = found.of(lane).take(tables.patterns, most);
                                               return id.of(lane) != pattern::kNoPattern;
                                           },
                                           [&](uint32_t lane, uint32_t place) {
                                               if (count + place < room) kept.set_id(count + place, id.of(lane));
                                           });
                                   }
                               });
        uint16_t flags = 0;
        PortPair ports;
        if (count != 0 || tables.without_pattern) {
            auto buffers = Rules<Lanes>::buffers_of(packet, lanes);
            flags = header_flags(packet, buffers, flow);
            ports = ports_of(tables.header, packet);
        }
        lanes.once([&] { kept.start(count, flags, ports); });
    }
    /// The patterns that were found, and the indexes of rules that have none.
    MILLRACE_DEVICE static uint32_t candidates(const NidsTables& tables, uint32_t* words) {
        const KeptOfPacket kept(words, tables.by_pattern);
        if (kept.decided() || !kept.ids_known()) return 0;
        return kept.ids() + (tables.without_pattern ? detail::kIndexes : 0);
    }
    MILLRACE_DEVICE static void sift(Packet& packet, const NidsTables& tables, uint32_t* words, uint32_t candidate) {
        KeptOfPacket kept(words, tables.by_pattern);
        with_rules<One>(packet, tables, kept, {}, [&](auto& rules) { rules.note(candidate, kept); });
    }
    MILLRACE_DEVICE static uint32_t sifted(const NidsTables& tables, uint32_t* words) {
        const KeptOfPacket kept(words, tables.by_pattern);
        return !kept.decided() && kept.noted_known() ? kept.count_noted() : 0;
    }
    MILLRACE_DEVICE static void check(Packet& packet, const NidsTables& tables, uint32_t* words, uint32_t noted) {
        KeptOfPacket kept(words, tables.by_pattern);
        if (kept.is_repeated(noted)) return;
        with_rules<One>(packet, tables, kept, {}, [&](auto& rules) { rules.add_noted(noted, kept); });
    }
    MILLRACE_DEVICE static uint32_t checked(const NidsTables& tables, uint32_t* words) {
        const KeptOfPacket kept(words, tables.by_pattern);
        if (kept.decided()) return 0;
        return kept.rules_known() ? (kept.rules() + kRulesOfPiece - 1) / kRulesOfPiece : 1;
    }
    template <class Lanes>
    MILLRACE_DEVICE static void judge(Packet& packet, const NidsTables& tables, uint32_t* words, uint32_t piece,
                                      Lanes lanes) {
        KeptOfPacket kept(words, tables.by_pattern);
        if (!kept.rules_known()) return judge_all(packet, tables, kept, lanes);
        const uint32_t first = piece * kRulesOfPiece, behind = smaller(first + kRulesOfPiece, kept.rules());
        with_rules<Lanes>(packet, tables, kept, lanes, [&](auto& rules) {
#if MILLRACE_GPU
#pragma unroll 1
#endif
            for (uint32_t i = first; i < behind; ++i) {
                const uint32_t named = kept.rule(i);
                if (named & named_rule::kAlways) continue;
                const Answer answer = rules.answer(named & named_rule::kNumbers);
                lanes.once([&] { kept.set_answer(i, answer); });
            }
        });
    }
    MILLRACE_DEVICE static Decision conclude(Packet& packet, const NidsTables& tables, uint32_t* words) {
        const KeptOfPacket kept(words, tables.by_pattern);
        if (kept.decided()) return kept.decision();
        if (kept.rules() == 0 && !kept.is_open_at_start()) return {kNoDetail, kClean};
        auto buffers = Rules<One>::buffers_of(packet, {});
        Alerts alerts;
        return Rules<One>(packet, tables, buffers, alerts, {}).conclude(kept);
    }

private:
    template <class Lanes>
    using Rules = Evaluation<Lanes, Alerts>;

    /// Calls `f(rules)`, with all that is kept of the packet told to them.
    template <class Lanes, class F>
    MILLRACE_DEVICE static void with_rules(Packet& packet, const NidsTables& tables, const KeptOfPacket& kept,
                                           Lanes lanes, F&& f) {
        auto buffers = Rules<Lanes>::buffers_of(packet, lanes);
        Alerts alerts;
        Rules<Lanes> rules(packet, tables, buffers, alerts, lanes);
        rules.know(kept);
        f(rules);
    }

    /// Where there was no room for what was found, noted or added. Where no id is left another search tells.
    template <class Lanes>
    MILLRACE_DEVICE_CALL static void judge_all(Packet& packet, const NidsTables& tables, KeptOfPacket& kept,
                                               Lanes lanes) {
        with_rules<Lanes>(packet, tables, kept, lanes, [&](auto& rules) {
            if (kept.ids_known() && kept.rules() == 0) {
                PerLane<uint32_t, Lanes> taken;
                rules.patterns([&](uint32_t lane) {
                    const uint32_t at = Lanes::count * taken.of(lane)++ + lane;
                    return at < kept.ids() ? kept.id(at) : pattern::kNoPattern;
                });
            } else {
                pattern::find_patterns<pattern::By::walk>(
                    packet.payload(), packet.payload_bytes(), tables.patterns, lanes, [&](auto& found, uint32_t most) {
                        rules.patterns([&](uint32_t lane) { return found.of(lane).take(tables.patterns, most); });
                    });
            }
            const Decision decision = rules.finish();
            lanes.once([&] { kept.decide(decision); });
        });
    }
};

}  // namespace millrace::nf::nids
