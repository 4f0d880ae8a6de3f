// Real rule sets, tables and captures that tests read where they lie.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <string>

namespace millrace::test {

/// The file or folder `name` below MILLRACE_DATA (environment, else the build's default).
std::string data_path(const std::string& name);

/// The file or folder `name` of this source tree, or of what an unpacked tarball has of it: below MILLRACE_SOURCE
/// (environment, else the tree that was built). An absolute name stays as it is.
std::string source_path(const std::string& name);

/// The plugin `name` that the build made for tests.
std::string plugin_path(const std::string& name);

}  // namespace millrace::test

/// Skips the test, saying so, where the data is not at hand.
#define MILLRACE_NEEDS_DATA(name)                                    \
    if (!std::filesystem::exists(::millrace::test::data_path(name))) \
    GTEST_SKIP() << "needs " << ::millrace::test::data_path(name) << "; set MILLRACE_DATA to the data folder"
