#include "millrace/cli/text/promise_text.hpp"

#include <fmt/format.h>

#include "millrace/cli/text/table.hpp"

namespace millrace::cli {
namespace {

/// What people read for a state; states of later versions are read as they come.
std::string words_of(const std::string& now) {
    if (now == name_of(exec::PromiseState::fresh)) return "not looked at yet";
    if (now == name_of(exec::PromiseState::idle)) return "no packets come";
    if (now == name_of(exec::PromiseState::beyond)) return "more comes than was promised";
    if (now == name_of(exec::PromiseState::rate)) return "the rate is broken";
    if (now == name_of(exec::PromiseState::latency)) return "the latency is broken";
    return now;
}

}  // namespace

std::string promise_text(const exec::PromiseReport& promise, const std::string& now) {
    std::string text = packet_rate(promise.rate);
    if (promise.latency_ns > 0) text += " within " + time_text(promise.latency_ns);
    text += ": " + words_of(now) + "; " + packet_rate(promise.offered) + " came";
    if (promise.longest_ns > 0) text += ", " + time_text(promise.longest_ns) + " at most";
    if (promise.batch > 0) text += ", batches of " + grouped(promise.batch);
    if (promise.sms > 0) text += fmt::format(" on {} multiprocessors", promise.sms);
    const auto part = [&](uint64_t intervals, const char* what) {
        if (intervals > 0)
            text += fmt::format("; {} in {} of {}", what, grouped(intervals), grouped(promise.intervals));
    };
    part(promise.rate_broken, "rate broken");
    part(promise.latency_broken, "latency broken");
    if (promise.rate_broken + promise.latency_broken > 0) text += " intervals";
    else if (promise.intervals > 0) text += "; never broken in " + grouped(promise.intervals) + " intervals";
    return text;
}

}  // namespace millrace::cli
