#include "millrace/cli/text/table.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cctype>

namespace millrace::cli {
namespace {

/// Characters as the terminal counts them: continuation bytes of UTF-8 take no room.
size_t width(const std::string& text) {
    return static_cast<size_t>(std::count_if(text.begin(), text.end(), [](char c) { return (c & 0xc0) != 0x80; }));
}

std::string scaled(double value, const char* unit) {
    const char* prefix = "";
    for (const char* next : {"k", "M", "G", "T"}) {
        if (value < 1000) break;
        value /= 1000;
        prefix = next;
    }
    return fmt::format("{:.{}f} {}{}", value, value < 10 ? 2 : value < 100 ? 1 : 0, prefix, unit);
}

}  // namespace

std::string Table::text() const {
    std::vector<size_t> widths;
    for (const auto& row : rows_)
        for (size_t i = 0; i < row.size(); ++i) {
            if (widths.size() <= i) widths.push_back(0);
            widths[i] = std::max(widths[i], width(row[i]));
        }
    std::string text;
    for (size_t r = 0; r < rows_.size(); ++r) {
        std::string line;
        for (size_t i = 0; i < rows_[r].size(); ++i) {
            const std::string& cell = rows_[r][i];
            const std::string padding(widths[i] - width(cell), ' ');
            const bool number = r > 0 && !cell.empty() && std::isdigit(static_cast<unsigned char>(cell[0])) != 0;
            line += (i > 0 ? "  " : "") + (number ? padding + cell : cell + padding);
        }
        line.erase(line.find_last_not_of(' ') + 1);
        text += line + "\n";
    }
    return text;
}

std::string progress_bar(double share) {
    constexpr size_t kWidth = 30;
    const size_t full = static_cast<size_t>(share * kWidth);
    return fmt::format("[{}{}] {:3.0f} %  ", std::string(full, '='), std::string(kWidth - full, ' '), share * 100);
}

std::string grouped(uint64_t n) {
    std::string digits = std::to_string(n);
    for (size_t i = digits.size(); i > 3;) {
        i -= 3;
        digits.insert(i, ",");
    }
    return digits;
}

std::string bit_rate(double bits_per_second) { return scaled(bits_per_second, "b/s"); }
std::string packet_rate(double packets_per_second) { return scaled(packets_per_second, "pkt/s"); }

std::string time_text(uint64_t nanoseconds) {
    const double ns = static_cast<double>(nanoseconds);
    if (ns < 1e3) return fmt::format("{} ns", nanoseconds);
    if (ns < 1e6) return fmt::format("{:.1f} us", ns / 1e3);
    if (ns < 1e9) return fmt::format("{:.1f} ms", ns / 1e6);
    return fmt::format("{:.2f} s", ns / 1e9);
}

}  // namespace millrace::cli
