// What a run answers to `millrace show`.
//
// A request is a line of JSON, and so is its answer:
//
//     {"version": 1, "show": "routes", "limit": 1000}
//     {"version": 1, "show": "routes", "generation": 3, "seconds": 12.5, "routes": […]}
//     {"version": 1, "show": "flows", "match": "tcp to any port 443", "by": "packets"}
//     {"version": 1, "error": "…"}
//
// Members may be added to answers within a version; readers pass over what they do not know. A request with members
// that are not known here is refused, as it asks for something that would not be done.
#pragma once

#include <string>
#include <string_view>

#include "millrace/exec/promises/promise_watch.hpp"

namespace millrace::show {

inline constexpr unsigned kVersion = 1;
/// What can be shown.
inline constexpr const char* kTopics[] = {"ports",  "neighbours", "routes",    "sas",
                                          "chains", "flows",      "back-ends", "tenants"};
/// Rows of tables in one answer, unless a request says otherwise, and at most.
inline constexpr size_t kRows = 1000, kMaxRows = 20'000;

/// Answers a request: any text. Throws std::runtime_error with what is wrong with it. Any thread, while the runtime
/// works. `promises` are the run's; null: nobody watches them.
std::string answer(const exec::Runtime& runtime, std::string_view request, double seconds,
                   const exec::PromiseWatch* promises = nullptr);
/// What a client gets in place of an answer.
std::string refusal(const std::string& why);
/// What a request asks for besides its topic; what is 0 or empty is the server's to say.
struct Wanted {
    size_t limit = 0;        ///< rows
    std::string match = {};  ///< of flows: which (nf::FlowQuery::read)
    std::string by = {};     ///< of flows: which first (nf::FlowQuery::kBy)
};
/// The request for a topic.
std::string request_for(const std::string& topic, const Wanted& wanted = {});

}  // namespace millrace::show
