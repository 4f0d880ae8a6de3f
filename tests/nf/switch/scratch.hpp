// What tests of the switch share: its ports, changes, files of flows and groups, and what is wrong with its options.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "millrace/nf/switch/flows/flow_changes.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {

inline const nf::flow_switch::PortNumbers kSwitchPorts(kTestPorts);

/// A change as a controller makes it.
inline nf::flow_switch::FlowChange controllers_change(const std::string& text) {
    nf::flow_switch::FlowChange made = nf::flow_switch::parse_change(text, kSwitchPorts);
    made.flow.file = nf::flow_switch::Flow::kFromController;
    return made;
}

inline std::filesystem::path scratch() {
    const auto folder = std::filesystem::path(testing::TempDir()) / ("millrace_switch_" + std::to_string(::getpid()));
    std::filesystem::create_directories(folder);
    return folder;
}

inline std::string scratch_file(const std::string& name, const std::string& text) {
    std::ofstream(scratch() / name) << text;
    return (scratch() / name).string();
}

inline std::string text_of(const Diagnostic& mistake) {
    return std::to_string(mistake.where.line) + ":" + std::to_string(mistake.where.column) + ": " + mistake.message;
}

inline Diagnostic refusal_of(const std::string& options) {
    try {
        NfRunner("switch", Config::parse(options, "chain.yaml"));
    } catch (const ConfigError& error) {
        return error.diagnostics().front();
    }
    ADD_FAILURE() << "accepted: " << options;
    return {};
}

}  // namespace millrace::test
