// Rules, patterns, routes and payload made up where the published ones are not at hand.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace millrace::lab {

/// Words of 5 to 16 small letters.
std::vector<std::string> make_words(size_t count, std::mt19937& random);
/// A MiB of words in the manner of HTTP, one of `patterns`, if there are any, in every few hundred.
void make_text(const std::string& file, const std::vector<std::string>& patterns, std::mt19937& random);
/// Rules of the firewall as text: most on a pair of prefixes and a port, all permit.
void make_rules(const std::string& file, size_t count, std::mt19937& random);
/// `count` IPv4 prefixes with the lengths that a full table has, half of them /24.
void make_routes(const std::string& file, size_t count, std::mt19937& random);

/// Lines of "nocase-flag hex-bytes", the form of chain-bench/snort_*.txt; at most `longest` bytes of each.
std::vector<std::string> read_patterns(const std::string& file, size_t longest);

}  // namespace millrace::lab
