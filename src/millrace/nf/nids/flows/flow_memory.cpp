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

FlowMemory::FlowMemory(const FlowOptions& options, const CompiledBits& bits, bool streams,
                       const Environment& environment, const FlowMemory* previous)
    : rules_(options.rules), names_(bits.names),
      table_(options.table, environment, previous != nullptr ? &previous->table_ : nullptr) {
    words_of_flow_ = words_for(names_);
    if (streams) make_streams(options, previous);
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

void FlowMemory::make_streams(const FlowOptions& options, const FlowMemory* previous) {
    stream_shape_.reader = previous != nullptr ? previous->stream_shape_.reader + 1 : 0;
    stream_shape_.tail = options.tail;
    stream_shape_.early = options.early;
    const bool has_some = previous != nullptr && previous->streams_;
    stream_counts_ = has_some ? previous->stream_counts_
                              : std::make_shared<std::vector<uint64_t>>(static_cast<size_t>(flows::StreamCount::count));
    const bool same_shape = has_some && previous->stream_shape_.tail == options.tail &&
                            previous->stream_shape_.early == options.early;
    if (same_shape && table_.goes_on_with(previous->table_)) {
        streams_ = previous->streams_;
        return;
    }
    // Flows that are known go on in their midst.
    const uint64_t buckets = table_.places() / flows::StreamMemory::kWays;
    streams_ = std::make_shared<Words>(buckets * flows::StreamMemory::words_of_bucket(options.tail, options.early));
}

std::vector<Statistic> FlowMemory::statistics() const {
    std::vector<Statistic> all = table_.statistics();
    if (!streams_) return all;
    const auto of = [&](flows::StreamCount what) { return (*stream_counts_)[static_cast<size_t>(what)]; };
    all.push_back({"stream-late", of(flows::StreamCount::early), "segments that came before others, and were kept"});
    all.push_back({"stream-repeated", of(flows::StreamCount::repeated), "segments whose bytes had come before"});
    all.push_back(
        {"stream-overlaps", of(flows::StreamCount::changed), "segments with other bytes than had come before"});
    all.push_back({"stream-gaps", of(flows::StreamCount::gaps),
                   "gaps in streams that were given up, as there was no room for more segments behind them"});
    return all;
}

void FlowMemory::attach(Image& image, NidsOfFlows::Tables& tables) const {
    tables.flows = rules_;
    table_.attach(image, tables.state, "flows");
    tables.bit_words = words_of_flow_;
    if (words_of_flow_ > 0) image.attach_resident(tables.words, words_, "flow-bits");
    if (!streams_) return;
    tables.streams.tail = stream_shape_.tail;
    tables.streams.early = stream_shape_.early;
    tables.streams.reader = stream_shape_.reader;
    image.attach_resident(tables.streams.words, streams_, "streams");
    image.attach_state(tables.streams.counts, stream_counts_, "stream-counts");
}

}  // namespace millrace::nf::nids
