// IPsec gateway: ESP (RFC 4303), both directions.
#pragma once

#include "millrace/nf/ipsec/esp/inbound.hpp"
#include "millrace/nf/ipsec/esp/replay.hpp"
#include "millrace/nf/ipsec/esp/too_big.hpp"

namespace millrace::nf::ipsec {

/// The device half for what SAs of `Kind` ask for.
template <class Kind>
struct Gateway {
    using Tables = ipsec::Tables;

    static constexpr Fields reads = field::everything;
    static constexpr Fields writes = field::everything | field::length;
    /// Blocks of AES spread over lanes; hashes do not, so they wait for `finish`.
    static constexpr unsigned lanes = 8;
    static constexpr uint32_t block_bytes = 4 * crypto::kAesBlockMemory;
    static constexpr bool block_is_constant = true;
#if MILLRACE_GPU
    MILLRACE_DEVICE static void stage(const Tables& tables, uint32_t* block) { crypto::stage_aes(tables.aes(), block); }
#endif

    /// The SA slot of a packet that gets a sequence number, or brings one. A packet that `commit` looks at
    /// has the same before and after `process`.
    MILLRACE_DEVICE static uint32_t order_key(const Packet& packet, const Tables& tables) {
        if (packet.ticket() & kVerified) return static_cast<uint32_t>(packet.ticket() >> 32) & (kMaxSlots - 1);
        const Route route = find_route<Kind>(packet, tables);
        return route.outcome == kProtected || route.outcome == kUnprotected ? tables.sas[route.detail].slot
                                                                            : kNoOrderKey;
    }

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        const Route route = find_route<Kind>(packet, tables);
        if (route.outcome == kProtected) return protect(packet, tables, route, lanes);
        if (Kind::kTells && route.outcome == kMtuExceeded) {
            Packet own = packet;
            const bool answered = answer_too_big<Kind>(own, tables, route.detail, lanes);
            packet = own;
            return {route.detail, answered ? kTooBigAnswered : kMtuExceeded};
        }
        if (route.outcome != kUnprotected) return {route.detail, route.outcome};
        Packet own = packet;  // what a call gets by reference lies in memory: let the other way keep it in registers
        const Decision decision = unprotect(own, tables, route, lanes);
        packet = own;
        return decision;
    }

    /// Writes the ICV of what `process` has wrapped, and what comes behind that.
    MILLRACE_DEVICE static Decision finish(Packet& packet, const Tables& tables, Decision decision) {
        if (Kind::kOnlyGcm || decision.outcome != kProtected) return decision;
        const Sa& sa = tables.sas[decision.detail];
        const Esp esp = sent_esp<Kind>(packet, sa, sequence_of(sa, packet.ticket()));
        authenticate<Kind>(esp, sa);
        if (Kind::kUdp && sa.in_udp && sa.ipv6) write_udp_sum(packet);
        if (Kind::kBytes && sa.counts_bytes)
            packet.set_ticket(kVerified | kSent | static_cast<uint64_t>(sa.slot) << 32 | esp.text_bytes);
        return decision;
    }

    /// Refuses replays, and counts the bytes of what is none: who sends a packet again must not bring an SA to its end.
    /// The window takes in every packet whose ICV was right, whatever was inside.
    MILLRACE_DEVICE static Decision commit(Packet& packet, const Tables& tables, Decision decision) {
        const uint64_t ticket = packet.ticket();
        if (!(ticket & kVerified)) return decision;
        packet.set_ticket(0);
        const Sa& sa = tables.sas[decision.detail];
        const bool sent = Kind::kBytes && (ticket & kSent) != 0;
        if (!sent && !is_fresh(tables, sa, ticket)) {
            decision.outcome = kReplayed;
            return decision;
        }
        if (Kind::kBytes && sa.counts_bytes)
            tables.bytes[sa.slot] += sent ? static_cast<uint32_t>(ticket) : packet.length();
        return decision;
    }

private:
    /// Whether a verified packet is no replay as far as its SA looks for them. Slides the window.
    MILLRACE_DEVICE static bool is_fresh(const Tables& tables, const Sa& sa, uint64_t ticket) {
        if (sa.replay_window == 0) return true;
        uint64_t* state = &tables.windows[static_cast<uint64_t>(sa.slot) * kWindowWords];
        const uint64_t sequence = is_extended<Kind>(sa) ? noted_sequence(ticket, sequence_in(sa.before, state[0]))
                                                        : static_cast<uint32_t>(ticket);
        return accept_sequence(state, sa.replay_window, sequence, sa.before);
    }

    template <class Lanes>
    MILLRACE_DEVICE static Decision protect(Packet& packet, const Tables& tables, const Route& route, Lanes lanes) {
        const Sa& sa = tables.sas[route.detail];
        const uint64_t sequence = sequence_of(sa, packet.ticket());
        if (const uint32_t refusal = may_send<Kind>(tables, sa, sequence); refusal != kProtected)
            return {route.detail, refusal};
        Esp esp;
        if (is_transport<Kind>(sa)) {
            Packet own = packet;
            esp = insert_esp<Kind>(own, tables, route, sequence, lanes);
            packet = own;
        } else {
            esp = encapsulate<Kind>(packet, tables, route, sequence, lanes);
        }
        if (is_gcm<Kind>(sa)) seal_gcm<Kind>(esp, sa, tables, lanes);
        else encrypt<Kind>(esp, sa, tables.aes(), lanes);
        return {route.detail, kProtected};
    }

    template <class Lanes>
    MILLRACE_DEVICE_CALL static Decision unprotect(Packet& packet, const Tables& tables, const Route& route,
                                                   Lanes lanes) {
        const Sa& sa = tables.sas[route.detail];
        // Batches may be on their way that move the window: what it says may be a little old, which does no harm.
        const uint64_t top = is_extended<Kind>(sa) ? tables.windows[static_cast<uint64_t>(sa.slot) * kWindowWords] : 0;
        const Esp esp = received_esp<Kind>(packet, sa, sequence_in(sa.before, top));
        if (is_gcm<Kind>(sa)) {
            if (!open_gcm<Kind>(esp, sa, tables, lanes)) return {route.detail, kBadIcv};
            mark_verified(packet, sa, esp);
        } else {
            if (forged<Kind>(esp, sa, lanes)) return {route.detail, kBadIcv};
            mark_verified(packet, sa, esp);
            decrypt<Kind>(esp, sa, tables.aes(), lanes);
        }
        return {route.detail, open_inner<Kind>(packet, tables, sa, esp, lanes)};
    }
};

using Ipsec = Gateway<Common>;
using GcmIpsec = Gateway<OnlyGcm>;
using CompleteIpsec = Gateway<Complete>;

}  // namespace millrace::nf::ipsec
