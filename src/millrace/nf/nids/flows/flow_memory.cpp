#include "millrace/nf/nids/flows/flow_memory.hpp"

#include <algorithm>

namespace millrace::nf::nids {
namespace {

/// Words for the bits of a flow, with room for some that a later generation may add.
uint32_t words_for(const NameNumbers& names) {
    constexpr size_t kSpare = 2;
    return names.empty() ? 0 : static_cast<uint32_t>((names.size() + 31) / 32 + kSpare);
}

/// Whether all names have the numbers that they had, and numbers that others had are nobody's.
bool extend(const NameNumbers& names, const NameNumbers& before) {
    return std::all_of(before.begin(), before.end(), [&](const auto& known) {
        const auto found = names.find(known.first);
        return found != names.end() && found->second == known.second;
    });
}

}  // namespace

FlowMemory::FlowMemory(const FlowOptions& options, const CompiledState& state, Follows follows,
                       const Environment& environment, const FlowMemory* previous)
    : rules_(options.rules), names_(state.names),
      table_(options.table, environment, previous != nullptr ? &previous->table_ : nullptr) {
    notes_ = previous != nullptr ? previous->notes_
                                 : std::make_shared<std::vector<uint32_t, ZeroedAllocator<uint32_t>>>(
                                       size_t{RuleNotes::kUsual} * RuleNotes::kWords);
    note_counts_ = previous != nullptr ? previous->note_counts_
                                       : std::make_shared<std::vector<uint64_t>>(RuleNotes::kCounts);
    words_of_flow_ = words_for(names_.bits);
    if (follows >= Follows::streams) make_streams(options, previous);
    if (follows == Follows::messages) make_messages(options, previous);
    make_bits(environment, previous);
    if (state.asks_numbers) make_numbers(environment, previous);
}

void FlowMemory::make_bits(const Environment& environment, const FlowMemory* previous) {
    const bool same_table = previous != nullptr && table_.goes_on_with(previous->table_);
    if (same_table && extend(names_.bits, previous->names_.bits) && names_.bits.size() <= previous->room()) {
        words_of_flow_ = previous->words_of_flow_;
        words_ = previous->words_;
        return;
    }
    words_ = std::make_shared<std::vector<uint32_t>>(table_.places() * words_of_flow_);
    if (same_table && !previous->names_.bits.empty())
        environment.warn({{},
                          "'" + environment.node_name + "' has too many new flowbits: those of its flows are cleared",
                          "",
                          Diagnostic::Severity::warning});
}

void FlowMemory::make_numbers(const Environment& environment, const FlowMemory* previous) {
    const size_t ints = std::min<size_t>((names_.ints.size() + 7) / 8 * 8, kMaxFlowInts);  // some for later generations
    numbers_of_flow_ = NumbersOfFlow::words_for(static_cast<uint32_t>(ints));
    const bool has_some = previous != nullptr && previous->numbers_ && table_.goes_on_with(previous->table_);
    if (has_some && extend(names_.ints, previous->names_.ints) && numbers_of_flow_ <= previous->numbers_of_flow_) {
        numbers_of_flow_ = previous->numbers_of_flow_;
        numbers_ = previous->numbers_;
        return;
    }
    numbers_ = std::make_shared<std::vector<uint32_t, ZeroedAllocator<uint32_t>>>(table_.places() * numbers_of_flow_);
    if (has_some)
        environment.warn({{},
                          "'" + environment.node_name +
                              "' has too many new flowints: those of its flows are cleared, and bytes are counted anew",
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

void FlowMemory::make_messages(const FlowOptions& options, const FlowMemory* previous) {
    message_shape_.rooms = options.rooms;
    message_shape_.head = options.head;
    message_shape_.tail = options.body;
    message_shape_.inflate = options.inflate;
    message_shape_.decoders.count = options.decoders;
    const bool has_some = previous != nullptr && previous->messages_;
    message_counts_ = has_some
                          ? previous->message_counts_
                          : std::make_shared<std::vector<uint64_t>>(static_cast<size_t>(http::MessageCount::count));
    const http::MessageMemory& before = has_some ? previous->message_shape_ : message_shape_;
    if (has_some && before.rooms == options.rooms && before.head == options.head && before.tail == options.body &&
        before.decoders.count == options.decoders && table_.goes_on_with(previous->table_)) {
        messages_ = previous->messages_;
        decoders_ = previous->decoders_;
        return;
    }
    const uint64_t buckets = table_.places() / flows::StreamMemory::kWays;
    messages_ = std::make_shared<Words>(
        buckets * http::MessageMemory::words_of_bucket(options.rooms, options.head, options.body));
    decoders_ = std::make_shared<Words>(http::DecoderPool::words_of(options.decoders));
}

std::vector<Statistic> FlowMemory::message_statistics() const {
    const auto of = [&](http::MessageCount what) { return (*message_counts_)[static_cast<size_t>(what)]; };
    return {{"http-messages", of(http::MessageCount::messages), "HTTP messages whose head has come"},
            {"http-unfollowed", of(http::MessageCount::unfollowed),
             "directions of connections that are not followed, as there was no room for a message"},
            {"http-lost", of(http::MessageCount::lost),
             "directions of connections that are not followed any more, behind a gap or what is no HTTP"},
            {"http-heads-cut", of(http::MessageCount::cut), "heads that are longer than what is kept of one"},
            {"http-decompressed", of(http::MessageCount::decoded), "bodies that were decompressed"},
            {"http-not-decompressed", of(http::MessageCount::undecoded),
             "bodies that were not, as there was no decoder or some of them was missing"},
            {"http-inflate-limited", of(http::MessageCount::limited),
             "bodies of which no more than 'inflate' was decompressed"}};
}

std::vector<Statistic> FlowMemory::statistics() const {
    std::vector<Statistic> all = table_.statistics();
    all.push_back({"rules-asked-again", (*note_counts_)[RuleNotes::kLost],
                   "packets whose rules were looked for twice, as too many packets waited for their flows"});
    if (!streams_) return all;
    const auto of = [&](flows::StreamCount what) { return (*stream_counts_)[static_cast<size_t>(what)]; };
    all.push_back({"stream-late", of(flows::StreamCount::early), "segments that came before others, and were kept"});
    all.push_back({"stream-repeated", of(flows::StreamCount::repeated), "segments whose bytes had come before"});
    all.push_back(
        {"stream-overlaps", of(flows::StreamCount::changed), "segments with other bytes than had come before"});
    all.push_back({"stream-gaps", of(flows::StreamCount::gaps),
                   "gaps in streams that were given up, as there was no room for more segments behind them"});
    if (messages_)
        for (Statistic& statistic : message_statistics()) all.push_back(std::move(statistic));
    return all;
}

void FlowMemory::attach(Image& image, NidsOfFlows::Tables& tables) const {
    tables.flows = rules_;
    table_.attach(image, tables.state, "flows");
    tables.bit_words = words_of_flow_;
    image.attach_resident(tables.rules.notes.words, notes_, "rule-notes");
    image.attach_state(tables.rules.notes.counts, note_counts_, "rule-note-counts");
    if (words_of_flow_ > 0) image.attach_resident(tables.words, words_, "flow-bits");
    if (numbers_) {
        tables.number_words = numbers_of_flow_;
        image.attach_resident(tables.numbers, numbers_, "flow-numbers");
    }
    if (!streams_) return;
    tables.streams.tail = stream_shape_.tail;
    tables.streams.early = stream_shape_.early;
    tables.streams.reader = stream_shape_.reader;
    image.attach_resident(tables.streams.words, streams_, "streams");
    image.attach_state(tables.streams.counts, stream_counts_, "stream-counts");
    if (!messages_) return;
    tables.messages.rooms = message_shape_.rooms;
    tables.messages.head = message_shape_.head;
    tables.messages.tail = message_shape_.tail;
    tables.messages.inflate = message_shape_.inflate;
    tables.messages.decoders.count = message_shape_.decoders.count;
    image.attach_resident(tables.messages.words, messages_, "http-messages");
    image.attach_resident(tables.messages.decoders.words, decoders_, "http-decoders");
    image.attach_state(tables.messages.counts, message_counts_, "http-counts");
}

}  // namespace millrace::nf::nids
