#include "millrace/nf/nids/flows/flow_memory.hpp"

#include <algorithm>

namespace millrace::nf::nids {
namespace {

/// Words for the bits of a flow, with room for some that a later generation may add.
uint32_t words_for(const BitNumbers& names) {
    constexpr size_t kSpare = 2;
    return names.empty() ? 0 : static_cast<uint32_t>((names.size() + 31) / 32 + kSpare);
}

/// Whether all names have the numbers that they had, and numbers that others had are nobody's.
bool extend(const BitNumbers& names, const BitNumbers& before) {
    return std::all_of(before.begin(), before.end(), [&](const auto& known) {
        const auto found = names.find(known.first);
        return found != names.end() && found->second == known.second;
    });
}

}  // namespace

FlowMemory::FlowMemory(const FlowOptions& options, const CompiledBits& bits, const Environment& environment,
                       const FlowMemory* previous)
    : rules_(options.rules), names_(bits.names),
      table_(options.table, environment, previous != nullptr ? &previous->table_ : nullptr) {
    words_of_flow_ = words_for(names_);
    const bool same_table = previous != nullptr && table_.goes_on_with(previous->table_);
    if (same_table && extend(names_, previous->names_) && names_.size() <= previous->room()) {
        words_of_flow_ = previous->words_of_flow_;
        words_ = previous->words_;
        return;
    }
    words_ = std::make_shared<std::vector<uint32_t>>(table_.places() * words_of_flow_);
    if (same_table && !previous->names_.empty())
        environment.warn({{},
                          "'" + environment.node_name + "' has too many new flowbits: those of its flows are cleared",
                          "",
                          Diagnostic::Severity::warning});
}

void FlowMemory::attach(Image& image, NidsOfFlows::Tables& tables) const {
    tables.flows = rules_;
    table_.attach(image, tables.state, "flows");
    tables.bit_words = words_of_flow_;
    if (words_of_flow_ > 0) image.attach_resident(tables.words, words_, "flow-bits");
}

}  // namespace millrace::nf::nids
