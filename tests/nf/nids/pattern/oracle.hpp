// Every way to search payloads for patterns, brought to one form so that tests can compare them.
#pragma once

#include <memory>
#include <string>
#include <vector>

#include "millrace/nf/nids/pattern/cpu/matcher.hpp"
#include "millrace/nf/nids/pattern/device.hpp"

namespace millrace::nf::nids::pattern::test {

using Ids = std::vector<uint32_t>;

/// Looks for each pattern at each place, byte by byte: no automaton, no tables.
std::vector<Ids> search_naively(const std::vector<std::string>& patterns, const std::vector<std::string>& payloads);

/// Through a CPU engine, in scans of at most `vector` payloads that reuse one PatternHits.
std::vector<Ids> search_with(Matcher& matcher, const std::vector<std::string>& payloads, size_t vector = 256);

/// Through the device half with 1, 8 or 32 lanes.
std::vector<Ids> search_with_lanes(const PatternSet& set, const std::vector<std::string>& payloads, unsigned lanes);

/// Every engine that this machine has and every number of lanes, for one set of patterns. All engines are there at the
/// same time, as workers' are, so that those which share what takes long to make do share it.
class Searchers {
public:
    explicit Searchers(const std::vector<std::string>& patterns);
    /// All of them against `expected`, or, where it is null, against the scalar engine. Payload bytes lie in
    /// allocations of their very size.
    void expect_agreement(const std::vector<std::string>& payloads, const std::vector<Ids>* expected) const;
    /// The same against search_naively.
    void expect_right(const std::vector<std::string>& payloads) const;

private:
    std::vector<std::string> patterns_;
    std::shared_ptr<const PatternSet> set_;
    std::vector<std::unique_ptr<Matcher>> matchers_;
};

/// The same for one text of payloads.
void expect_all_agree(const std::vector<std::string>& patterns, const std::vector<std::string>& payloads,
                      const std::vector<Ids>* expected);
void expect_all_right(const std::vector<std::string>& patterns, const std::vector<std::string>& payloads);

}  // namespace millrace::nf::nids::pattern::test
