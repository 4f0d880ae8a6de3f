#include "millrace/base/text/shown_line.hpp"

#include <fcntl.h>
#include <unistd.h>

#include <algorithm>
#include <cctype>
#include <mutex>
#include <set>
#include <string_view>

namespace millrace {
namespace {

struct NamedFiles {
    std::mutex mutex;
    std::set<std::string> paths;
};
NamedFiles& named_files() {
    static NamedFiles files;
    return files;
}
bool is_named(const std::string& path) {
    const std::lock_guard lock(named_files().mutex);
    return named_files().paths.contains(path);
}

bool may_show(const struct stat& status, const std::string& path) {
    return may_show_lines(status, geteuid()) || is_named(path);
}

/// Overwrites the values of keys in a line of YAML: any mistake may stand in the same line as one.
void mask_keys(std::string& line) {
    for (const std::string_view name : {"key", "nonce"}) {
        for (size_t at = line.find(name); at != std::string::npos; at = line.find(name, at)) {
            at += name.size();
            const size_t colon = line.find_first_not_of("\"' ", at);
            if (colon == std::string::npos || line[colon] != ':') continue;
            for (at = colon + 1; at < line.size() && line[at] != ',' && line[at] != '}' && line[at] != '#'; ++at)
                if (line[at] != ' ') line[at] = '*';
        }
    }
}

/// Reads a text from a descriptor until line `wanted` has been read; empty when there is no such line.
std::string read_line(int descriptor, uint32_t wanted) {
    std::string line;
    char bytes[1 << 14];
    uint32_t number = 1;
    for (ssize_t n = 0; (n = ::read(descriptor, bytes, sizeof bytes)) > 0;) {
        std::string_view rest(bytes, static_cast<size_t>(n));
        while (!rest.empty()) {
            const size_t end = rest.find('\n');
            if (number == wanted) line += rest.substr(0, end);
            if (end == std::string_view::npos) break;
            if (number++ == wanted) return line;
            rest.remove_prefix(end + 1);
        }
    }
    return line;
}

bool begins_character(char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }

/// The first `most` characters.
std::string first(std::string_view text, size_t most) {
    size_t at = 0;
    for (size_t count = 0; at < text.size(); ++at)
        if (begins_character(text[at]) && ++count > most) return std::string(text.substr(0, at)) + "…";
    return std::string(text);
}

/// Where the quotation that a text begins with is closed: at a sign that no letter follows. Its end without one.
size_t end_of_quotation(std::string_view text) {
    for (size_t at = text.find('\'', 1); at != std::string_view::npos; at = text.find('\'', at + 1))
        if (at + 1 == text.size() || std::isalnum(static_cast<unsigned char>(text[at + 1])) == 0) return at;
    return text.size();
}

}  // namespace

void show_lines_of(const std::string& path) {
    const std::lock_guard lock(named_files().mutex);
    named_files().paths.insert(path);
}

bool may_show_lines(const struct stat& status, uid_t user) {
    return (status.st_mode & S_IROTH) != 0 || (user != 0 && status.st_uid == user);
}

bool are_lines_shown(const std::string& path) {
    struct stat status{};
    return ::stat(path.c_str(), &status) != 0 || may_show(status, path);
}

std::string without_keys(std::string text) {
    constexpr ptrdiff_t kShortestKey = 24;  // no address, number or name has as many digits in a row
    const auto is_letter = [](char c) { return std::isalnum(static_cast<unsigned char>(c)) != 0; };
    const auto is_digit = [](char c) { return std::isxdigit(static_cast<unsigned char>(c)) != 0; };
    for (auto at = text.begin(); at != text.end();) {
        const auto begin = std::find_if(at, text.end(), is_letter);
        at = std::find_if_not(begin, text.end(), is_letter);
        if (at - begin >= kShortestKey && 4 * std::count_if(begin, at, is_digit) >= 3 * (at - begin))
            std::fill(begin, at, '*');
    }
    return text;
}

std::string with_short_words(const std::string& text) {
    constexpr size_t kMaxQuoted = 4, kMaxWord = 20;
    std::string out;
    for (std::string_view rest = text; !rest.empty();) {
        if (rest.front() == ' ') {
            out += ' ';
            rest.remove_prefix(1);
            continue;
        }
        const bool is_quoted = rest.front() == '\'';
        const size_t end = is_quoted ? end_of_quotation(rest) : std::min(rest.find(' '), rest.size());
        out += is_quoted ? "'" + first(rest.substr(1, end - 1), kMaxQuoted) + "'"
                         : first(rest.substr(0, end), kMaxWord);
        rest.remove_prefix(std::min(end + (is_quoted ? 1 : 0), rest.size()));
    }
    return out;
}

std::string shown_line(const Location& where) {
    // Compressed files hold no lines that a person could be shown.
    if (where.file.ends_with(".xz") || where.file.ends_with(".gz")) return {};
    const int descriptor = ::open(where.file.c_str(), O_RDONLY | O_CLOEXEC | O_NONBLOCK | O_NOCTTY);
    if (descriptor < 0) return {};
    struct stat status{};
    std::string line;
    if (fstat(descriptor, &status) == 0 && S_ISREG(status.st_mode) && may_show(status, where.file))
        line = read_line(descriptor, where.line);
    ::close(descriptor);
    for (char& c : line)
        if (static_cast<unsigned char>(c) < 0x20 || c == 0x7f) c = ' ';
    mask_keys(line);
    return without_keys(line);
}

}  // namespace millrace
