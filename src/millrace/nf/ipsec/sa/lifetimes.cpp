#include "millrace/nf/ipsec/sa/lifetimes.hpp"

#include <algorithm>

namespace millrace::nf::ipsec {
namespace {

/// So many sequence numbers are set aside at once: a crash loses at most as many. A receiver of extended ones follows
/// where fewer than 2^31 are left out (see high_half).
constexpr uint64_t kBlock = uint64_t{1} << 24, kExtendedBlock = uint64_t{1} << 29;

}  // namespace

Lifetimes::Lifetimes(std::shared_ptr<const Options> options, std::shared_ptr<SaState> state,
                     std::vector<uint32_t> slots, OnEnd on_end, Reporter warn)
    : options_(std::move(options)), state_(std::move(state)), slots_(std::move(slots)), on_end_(std::move(on_end)),
      warn_(std::move(warn)), followed_(state_->file() != nullptr) {
    for (const SaOptions& sa : options_->sas) followed_ = followed_ || sa.hard.ends() || sa.soft.ends();
}

Age Lifetimes::age_of(size_t index, Clock::time_point now) const {
    const SaOptions& sa = options_->sas[index];
    const uint32_t slot = slots_[index];
    // Of what came in only what was accepted counts: nobody else shall end an SA.
    const uint64_t packets = sa.inbound ? state_->highest(slot) : state_->given_out(slot);
    const uint64_t bytes = sa.sa.counts_bytes ? state_->used_bytes(slot) : 0;
    const auto since = now - state_->record(slot).since;
    const auto reached = [&](const Lifetime& lifetime) {
        return packets >= lifetime.packets || bytes >= lifetime.bytes || since >= lifetime.time;
    };
    return reached(sa.hard) ? Age::hard : reached(sa.soft) ? Age::soft : Age::young;
}

void Lifetimes::tell(size_t index, Age age) {
    if (age <= state_->ages[slots_[index]].exchange(age)) return;
    ++(age == Age::hard ? state_->hard_ends : state_->soft_ends);
    const SaOptions& sa = options_->sas[index];
    on_end_(sa, age);
    if (sa.kernel && age == Age::soft) return;  // a daemon's business
    Diagnostic news = sa.where.diagnostic(
        "SA '" + sa.name + "' " + (age == Age::hard ? "has come to the end of its lifetime" : "is soon at its end"),
        sa.kernel          ? "the kernel is told to delete it; see why its IKE daemon has made no other one"
        : age == Age::hard ? "its packets are dropped where no other SA serves; give it new keys"
                           : "add an SA with new keys, here and at the other end");
    news.severity = Diagnostic::Severity::warning;
    news.secret = true;
    warn_(std::move(news));
}

void Lifetimes::reserve(const std::vector<Age>& ages) {
    SequenceFile* const file = state_->file();
    bool any = false;
    for (size_t i = 0; i < slots_.size(); ++i) {
        const SaOptions& sa = options_->sas[i];
        if (sa.inbound || ages[i] == Age::hard) continue;
        const uint64_t block = sa.sa.extended ? kExtendedBlock : kBlock;
        const uint64_t used = state_->given_out(slots_[i]);
        if (used + block / 2 <= state_->record(slots_[i]).reserved) continue;
        file->reserve(state_->record(slots_[i]).identity, used + block);
        any = true;
    }
    if (!any) return;
    file->commit();
    // On disk: only now they may be used.
    for (size_t i = 0; i < slots_.size(); ++i)
        if (!options_->sas[i].inbound)
            state_->record(slots_[i]).reserved = file->reserved(state_->record(slots_[i]).identity);
}

/// The first that is young; else the first that lives; else the first.
uint32_t Lifetimes::chosen(const PolicyOptions& policy, const std::vector<Age>& ages) const {
    for (const Age oldest : {Age::young, Age::soft})
        for (const uint32_t sa : policy.sas)
            if (ages[sa] <= oldest) return sa;
    return policy.sas.empty() ? 0 : policy.sas.front();
}

Standing Lifetimes::look(Clock::time_point now) {
    Standing standing;
    std::vector<Age> ages(slots_.size());
    for (size_t i = 0; followed_ && i < slots_.size(); ++i) tell(i, ages[i] = age_of(i, now));
    for (const PolicyOptions& policy : options_->policies) standing.protects.push_back(chosen(policy, ages));
    for (const Age age : ages) standing.dead.push_back(age == Age::hard);
    if (!followed_) return standing;
    try {
        if (state_->file() != nullptr) reserve(ages);
    } catch (const std::runtime_error& error) {
        if (!std::exchange(told_disk_, true))
            warn_({{state_->file()->path(), 0, 0},
                   error.what(),
                   "packets are dropped when those that are left are used up",
                   Diagnostic::Severity::warning});
    }
    standing.limits.assign(state_->slots(), ~uint64_t{0});
    for (size_t i = 0; i < slots_.size(); ++i) {
        const SaOptions& sa = options_->sas[i];
        if (sa.inbound) continue;
        uint64_t limit = sa.hard.packets;
        if (state_->file() != nullptr) limit = std::min(limit, state_->record(slots_[i]).reserved);
        standing.limits[slots_[i]] = ages[i] == Age::hard ? 0 : limit;
    }
    return standing;
}

}  // namespace millrace::nf::ipsec
