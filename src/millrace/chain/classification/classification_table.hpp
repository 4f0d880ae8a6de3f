// The lines of the classification table, searched by the engines that search rules and flows.
#pragma once

#include <vector>

#include "millrace/chain/classification/classification.hpp"
#include "millrace/chain/kernel/classifier.hpp"
#include "millrace/nf/image.hpp"

namespace millrace::chain {

/// Finds the first line of many that a packet matches, in about the time that a firewall takes for as many rules. The
/// engine is chosen by counts (nf/classify/engine_choice.hpp): nothing is timed. Any number of threads may search.
class ClassificationTable {
public:
    explicit ClassificationTable(const std::vector<ClassificationRule>& rules);
    /// The same lines, for a program that classifies packets: `entries` by chain.
    ClassificationTable(const ClassificationTable& lines, std::vector<Entry> entries);

    /// The chain of a parsed packet; kNoChain where no line matches it.
    uint16_t chain_of(const Packet& packet) const { return Classifier::chain_of(packet, tables()); }
    Entry entry_of(const Packet& packet) const { return Classifier::entry_of(packet, tables()); }
    /// Of Classifier::Tables, for devices.
    const nf::Image& image() const { return image_; }

private:
    const Classifier::Tables& tables() const { return *static_cast<const Classifier::Tables*>(image_.tables()); }
    nf::Image image_;
};

}  // namespace millrace::chain
