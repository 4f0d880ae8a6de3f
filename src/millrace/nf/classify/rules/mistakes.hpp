// Collects what is wrong with a rule file, so that people see all of it at once.
#pragma once

#include <string>
#include <vector>

#include "millrace/base/text/diagnostic.hpp"
#include "millrace/nf/classify/rules/words.hpp"

namespace millrace::nf::classify {

class Mistakes {
public:
    explicit Mistakes(std::string file) : file_(std::move(file)) {}

    void add(uint32_t line, const WordMistake& mistake) {
        // A file of another kind is wrong in every line: nobody reads more than some.
        constexpr size_t kMax = 50;
        if (++count_ > kMax) return;
        found_.push_back({{file_, line, static_cast<uint32_t>(mistake.offset + 1)}, mistake.message, mistake.hint});
    }
    /// Throws ConfigError with everything that was added.
    void throw_if_any() {
        if (count_ == 0) return;
        if (count_ > found_.size())
            found_.push_back({{file_}, std::to_string(count_ - found_.size()) + " more lines are wrong", {}});
        throw ConfigError(std::move(found_));
    }

private:
    std::string file_;
    size_t count_ = 0;
    std::vector<Diagnostic> found_;
};

}  // namespace millrace::nf::classify
