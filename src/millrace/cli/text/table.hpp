// Tables of text for the terminal, and numbers as people read them.
#pragma once

#include <cstdint>
#include <string>
#include <vector>

namespace millrace::cli {

/// Columns aligned by their widest cell; numbers to the right. The first row is the heading.
class Table {
public:
    explicit Table(std::vector<std::string> heading) { rows_.push_back(std::move(heading)); }
    void add(std::vector<std::string> row) { rows_.push_back(std::move(row)); }
    std::string text() const;

private:
    std::vector<std::vector<std::string>> rows_;
};

/// A bar for `share` of 1, and the share: "[=====     ]  50 %  ".
std::string progress_bar(double share);
/// 1234567 as "1,234,567".
std::string grouped(uint64_t n);
/// Bits a second as "12.3 Gb/s".
std::string bit_rate(double bits_per_second);
/// Packets a second as "1.23 Mpkt/s".
std::string packet_rate(double packets_per_second);
/// Nanoseconds as "12.3 us".
std::string time_text(uint64_t nanoseconds);

}  // namespace millrace::cli
