// What is logged, for tests to look at.
#pragma once

#include <spdlog/sinks/ostream_sink.h>
#include <spdlog/spdlog.h>

#include <algorithm>
#include <memory>
#include <sstream>
#include <string>

namespace millrace::test {

/// Takes what is logged as long as it lives.
class Log {
public:
    Log() {
        spdlog::set_default_logger(
            std::make_shared<spdlog::logger>("test", std::make_shared<spdlog::sinks::ostream_sink_mt>(text_)));
    }
    ~Log() { spdlog::set_default_logger(before_); }
    size_t lines() const {
        const std::string text = text_.str();
        return static_cast<size_t>(std::count(text.begin(), text.end(), '\n'));
    }
    std::string text() const { return text_.str(); }

private:
    std::ostringstream text_;
    std::shared_ptr<spdlog::logger> before_ = spdlog::default_logger();
};

}  // namespace millrace::test
