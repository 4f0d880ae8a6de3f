// IPsec gateway: ESP in tunnel mode (RFC 4303), both directions.
#pragma once

#include "millrace/nf/ipsec/inbound.hpp"
#include "millrace/nf/ipsec/replay.hpp"

namespace millrace::nf::ipsec {

struct Ipsec {
    using Tables = ipsec::Tables;

    static constexpr Fields reads = field::everything;
    static constexpr Fields writes = field::everything | field::length;
    /// Blocks of AES spread over lanes; SHA-1 does not, so it waits for `finish`.
    static constexpr unsigned lanes = 8;
    static constexpr uint32_t block_bytes = 4 * crypto::kAesBlockMemory;
#if MILLRACE_GPU
    MILLRACE_DEVICE static void stage(const Tables& tables, uint32_t* block) { crypto::stage_aes(tables.aes(), block); }
#endif

    /// The SA slot of a packet that gets a sequence number, or brings one. A packet that `commit` looks at
    /// has the same before and after `process`.
    MILLRACE_DEVICE static uint32_t order_key(const Packet& packet, const Tables& tables) {
        if (packet.ticket() & kVerified) return static_cast<uint32_t>((packet.ticket() & ~kVerified) >> 32);
        const Route route = find_route(packet, tables);
        return route.outcome == kProtected || route.outcome == kUnprotected ? tables.sas[route.detail].slot
                                                                            : kNoOrderKey;
    }

    template <class Lanes>
    MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes) {
        const Route route = find_route(packet, tables);
        if (route.outcome == kProtected) return protect(packet, tables, route, lanes);
        if (route.outcome != kUnprotected) return {route.detail, route.outcome};
        Packet own = packet;  // what a call gets by reference lies in memory: let the other way keep it in registers
        const Decision decision = unprotect(own, tables, route, lanes);
        packet = own;
        return decision;
    }

    /// Writes the ICV of what `process` has wrapped.
    MILLRACE_DEVICE static Decision finish(Packet& packet, const Tables& tables, Decision decision) {
        if (decision.outcome == kProtected) {
            const Sa& sa = tables.sas[decision.detail];
            authenticate(sent_esp(packet, sa), sa);
        }
        return decision;
    }

    /// Refuses replays. The window takes in every packet whose ICV was right, whatever was inside.
    MILLRACE_DEVICE static Decision commit(Packet& packet, const Tables& tables, Decision decision) {
        const uint64_t ticket = packet.ticket();
        if (!(ticket & kVerified)) return decision;
        packet.set_ticket(0);
        const Sa& sa = tables.sas[decision.detail];
        if (sa.replay_window == 0) return decision;
        uint64_t* state = &tables.windows[static_cast<uint64_t>(sa.slot) * kWindowWords];
        if (!accept_sequence(state, sa.replay_window, static_cast<uint32_t>(ticket))) decision.outcome = kReplayed;
        return decision;
    }

private:
    template <class Lanes>
    MILLRACE_DEVICE static Decision protect(Packet& packet, const Tables& tables, const Route& route, Lanes lanes) {
        if (packet.ticket() >= kLastSequence) return {route.detail, kSequenceExhausted};
        const Sa& sa = tables.sas[route.detail];
        const Esp esp = encapsulate(packet, tables, route, static_cast<uint32_t>(packet.ticket() + 1), lanes);
        encrypt(esp, sa, tables.aes(), lanes);
        return {route.detail, kProtected};
    }

    template <class Lanes>
    MILLRACE_DEVICE_CALL static Decision unprotect(Packet& packet, const Tables& tables, const Route& route,
                                                   Lanes lanes) {
        const Sa& sa = tables.sas[route.detail];
        const Esp esp = received_esp(packet, sa);
        if (forged(esp, sa, lanes)) return {route.detail, kBadIcv};
        mark_verified(packet, sa, esp);
        decrypt(esp, sa, tables.aes(), lanes);
        return {route.detail, open_inner(packet, tables, sa, esp, lanes)};
    }
};

}  // namespace millrace::nf::ipsec
