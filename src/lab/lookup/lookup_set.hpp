// Rules and headers to classify, in the forms in which `millrace bench rules` measures them.
#pragma once

#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/device/device.hpp"
#include "millrace/nf/classify/classifier_builder.hpp"
#include "lab/classify/synthetic.hpp"

namespace millrace::lab {

/// Tables of one engine.
struct LookupTables {
    nf::Image image;
    uint64_t bytes = 0;
    double build_seconds = 0;
};

/// The kernel that looks keys up in such tables, its host half, and how many words a key has.
using nf::classify::Engine;
device::Task lookup_task(unsigned words, Engine engine, unsigned lanes);

/// One rule set with headers, of flows (keys of 9 words) or IPv4's 5-tuples (4 words). Constant once made.
class LookupSet {
public:
    virtual ~LookupSet() = default;
    /// Tables of all rules, or of those, by index, that are `present`. Throws TablesTooLarge.
    virtual std::unique_ptr<LookupTables> build(Engine engine, const std::vector<bool>* present = nullptr) const = 0;
    /// The rule of a header by going through all rules: the definition.
    virtual uint32_t reference(size_t header, const std::vector<bool>* present = nullptr) const = 0;
    /// Rules as rte_acl takes them; null for flows.
    virtual const nf::classify::RuleSet* rule_set() const { return nullptr; }

    std::string name;
    unsigned words = 0;
    size_t rule_count = 0, class_count = 0;
    std::vector<uint32_t> key_words;               ///< of the headers, `words` for each
    std::vector<nf::classify::HeaderKey> headers;  ///< of 5-tuples
    size_t count() const { return key_words.size() / words; }
};

/// Made-up rules and headers that match them.
std::shared_ptr<LookupSet> synthetic_lookups(const nf::classify::SyntheticSpec& spec);
/// A rule file of ClassBench, and a trace of headers; without one, headers are made from the rules. Throws ConfigError.
std::shared_ptr<LookupSet> classbench_lookups(const std::string& rules, const std::string& trace);

/// The engines that can search a set.
std::vector<Engine> engines_for(const LookupSet& set);

}  // namespace millrace::lab
