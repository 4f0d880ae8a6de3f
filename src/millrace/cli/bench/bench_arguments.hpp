// What the benchmarks of chains have in common on the command line.
#pragma once

#include <nlohmann/json.hpp>

#include <functional>
#include <set>
#include <string>
#include <vector>

#include "lab/session.hpp"
#include "millrace/base/files/file_ledger.hpp"
#include "millrace/cli/commands.hpp"
#include "millrace/cli/bench/offload_arguments.hpp"
#include "millrace/cli/text/table.hpp"

namespace millrace::cli {

struct BenchArguments {
    std::vector<std::string> chains, devices{"cpu"}, sizes;
    std::vector<unsigned> workers{1}, cores;
    std::string replay, timeline_file, json_file;
    std::string layout = "buffers", restore = "auto";  // of what sources hand out
    lab::SessionOptions session;
    OffloadArguments offload;
    uint16_t burst = 256;
    uint32_t buffers = 0;
    bool unchecked = false;

    /// `with_points`: chains, devices and frames may be several.
    void add_to(CLI::App& command);
    /// Measures at each point: every device with every chain, number of workers and kind of frame. Where somebody stops
    /// the session, what was measured until then is told.
    void for_each_point(const std::function<void(const lab::Point&)>& measure) const;
    /// Notes the files that are read and written beside those of configurations. Throws as `note_outputs` does.
    void note_files(FileLedger& ledger) const;
    /// Everything that the session wants to know. From now on SIGINT and SIGTERM stop it in order. Throws as
    /// `note_files` does.
    lab::SessionOptions session_options(const std::string& scratch) const;

private:
    /// The frames to send: sizes, or a capture.
    std::vector<lab::Traffic> traffics() const;
    lab::Point point(const std::string& chain, const std::string& device, const lab::Traffic& traffic,
                     unsigned workers) const;
};

/// The results of a benchmark as they come: a line of a table each, JSON at the end, and whether one was wrong.
class BenchOutput {
public:
    explicit BenchOutput(std::string json_file) : json_file_(std::move(json_file)) {}
    /// `note`: what tells it from its neighbours, for people.
    void add(const lab::Result& result, std::string note = {});
    /// Writes the JSON file, with `more` beside the results; the exit status, which is not kOk either where the session
    /// was stopped.
    int finish(const lab::Session& session, const nlohmann::json& more = nlohmann::json::object());

private:
    std::string json_file_;
    nlohmann::json results_ = nlohmann::json::array();
    size_t mistakes_ = 0;
    bool headed_ = false;
    std::set<std::string> without_power_;  // told once
};

/// Writes a benchmark's JSON: where it comes from, then `content`. Throws when it can't be written.
void write_json(const std::string& file, nlohmann::json content);

/// From now on SIGINT and SIGTERM ask for an end; the second ends the program. Whether one has come.
std::function<bool()> stop_on_signals();

/// What is being done, on standard error.
void show_progress(const std::string& what);

}  // namespace millrace::cli
