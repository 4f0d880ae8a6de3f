// Files of flows and groups for tests of the switch, and what is wrong with its options.
#pragma once

#include <gtest/gtest.h>
#include <unistd.h>

#include <filesystem>
#include <fstream>

#include "support/nf_runner.hpp"

namespace millrace::test {

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
