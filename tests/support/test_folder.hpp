// A folder of its own for a test.
#pragma once

#include <string>

namespace millrace::test {

/// Gone, with all that is in it, with the object.
class TestFolder {
public:
    /// Throws std::runtime_error where none can be made.
    TestFolder();
    ~TestFolder();
    TestFolder(const TestFolder&) = delete;
    TestFolder& operator=(const TestFolder&) = delete;

    const std::string& path() const { return path_; }
    std::string path(const std::string& name) const { return path_ + "/" + name; }
    std::string operator/(const std::string& name) const { return path(name); }
    /// Writes a file and returns its path.
    std::string write(const std::string& name, const std::string& text) const;

private:
    std::string path_;
};

}  // namespace millrace::test
