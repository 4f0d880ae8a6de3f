// Many-pattern search on the CPU: one interface, several engines.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/nf/nids/pattern/cpu/payload.hpp"
#include "millrace/nf/nids/pattern/pattern_set.hpp"

namespace millrace::nf::nids::pattern {

/// How payloads are searched; see README.md for when each is best.
enum class Engine {
    automatic,  ///< the one that is fastest for the set and the machine
    hyperscan,  ///< Hyperscan's literal matchers
    vector,     ///< the automaton, many payloads interleaved in AVX-512 registers; few as scalar does
    scalar,     ///< the automaton, pieces of a few payloads interleaved; runs everywhere
};

/// What was found in the payloads of one scan. Meant to be reused: memory is kept from scan to scan.
class PatternHits {
public:
    /// Sets memory aside so that no scan of up to `payloads` payloads with `patterns` patterns allocates
    /// more, whatever is in them. (Untouched memory costs address space only.)
    void reserve(size_t payloads, size_t patterns) {
        ranges_.reserve(payloads);
        ids_.reserve(payloads * patterns);
    }
    /// Forgets everything; `payloads` payloads without any pattern.
    void reset(size_t payloads) {
        ranges_.assign(payloads, {});
        ids_.clear();
    }
    /// Records the ids found in a payload, ascending and distinct; at most once a payload.
    void set(size_t payload, std::span<const uint32_t> ids) {
        ranges_[payload] = {ids_.size(), ids.size()};
        ids_.insert(ids_.end(), ids.begin(), ids.end());
    }
    size_t size() const { return ranges_.size(); }
    /// The distinct ids of the patterns in a payload, ascending. Valid until the next scan.
    std::span<const uint32_t> operator[](size_t payload) const {
        return std::span(ids_).subspan(ranges_[payload].begin, ranges_[payload].count);
    }
    /// Whether nothing was found in any payload.
    bool empty() const { return ids_.empty(); }

private:
    struct Range {
        size_t begin = 0;
        size_t count = 0;
    };
    std::vector<Range> ranges_;
    std::vector<uint32_t> ids_;
};

/// Searches payloads for the patterns of one set. Has scratch memory: one for each worker.
class Matcher {
public:
    virtual ~Matcher() = default;
    /// Fills `hits` with one entry a payload.
    virtual void scan(std::span<const Payload> payloads, PatternHits& hits) = 0;
    /// "hyperscan", "vector" or "scalar".
    virtual std::string_view name() const = 0;
};

/// Whether this machine can run an engine.
bool is_available(Engine engine);

/// Makes a matcher. Throws std::runtime_error when the machine or the library cannot do it; `automatic`
/// always finds one that can.
std::unique_ptr<Matcher> make_matcher(std::shared_ptr<const PatternSet> set, Engine engine);

}  // namespace millrace::nf::nids::pattern
