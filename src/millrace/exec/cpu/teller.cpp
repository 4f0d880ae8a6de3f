#include "millrace/exec/cpu/teller.hpp"

#include <algorithm>
#include <mutex>
#include <utility>

#include "millrace/base/running.hpp"

namespace millrace::exec {
namespace {

/// Without lines events reach the host halves one thread at a time.
std::mutex& event_mutex() {
    static std::mutex mutex;
    return mutex;
}

/// How many events of a function belong together.
size_t pieces_of(const nf::Type& type) {
    return type.note_bytes == 0 ? 1 : (type.note_bytes + Event::kNoteBytes - 1) / Event::kNoteBytes;
}

/// Whether what was told of a packet comes before the events that were left.
bool comes_before(const Event& event, const LeftEvents& left) {
    return event.packet != left.packet ? event.packet < left.packet : event.node < left.node;
}

}  // namespace

Teller::Teller(std::shared_ptr<const chain::Program> program, EventLine* line)
    : program_(std::move(program)), line_(line) {
    size_t most = 0;
    for (const chain::Node& node : program_->nodes) {
        const Running running(node.name, program_->name, Call::making);
        by_node_.push_back(node.type->emits_events ? node.nf->make_teller() : nullptr);
        if (node.type->emits_events) most = std::max(most, node.nf->most_events());
    }
    storage_.resize(most);
}

Teller::~Teller() = default;

void Teller::deliver(std::span<Event> stored, std::span<LeftEvents> left, ChainCounters& counters,
                     const EventPackets& packets) {
    std::sort(stored.begin(), stored.end(), [](const Event& a, const Event& b) {
        return a.packet != b.packet ? a.packet < b.packet : a.node != b.node ? a.node < b.node : a.order < b.order;
    });
    std::sort(left.begin(), left.end(), [](const LeftEvents& a, const LeftEvents& b) {
        return a.packet != b.packet ? a.packet < b.packet : a.node < b.node;
    });
    auto next = stored.begin();
    for (const LeftEvents& each : left) {
        const auto first = std::exchange(
            next, std::find_if_not(next, stored.end(), [&](const Event& event) { return comes_before(event, each); }));
        hand_on({first, next}, counters, packets);
        if (each.lost != 0) {
            counters.of_node(each.node).events_lost.add(1);
            continue;
        }
        ask_again(each, counters, packets);
        next = std::find_if_not(next, stored.end(), [&](const Event& event) {
            return event.packet == each.packet && event.node == each.node;
        });
    }
    hand_on({next, stored.end()}, counters, packets);
}

void Teller::hand_on(std::span<const Event> events, ChainCounters& counters, const EventPackets& packets) const {
    if (events.empty()) return;
    std::unique_lock<std::mutex> at_once;
    if (line_ == nullptr) at_once = std::unique_lock(event_mutex());
    for (size_t i = 0; i < events.size();) {
        const Event& first = events[i];
        // Pieces of a note stand one behind the other.
        const size_t pieces = pieces_of(*program_->nodes[first.node].type);
        const std::span<const Event> note = events.subspan(i, std::min(pieces, events.size() - i));
        i += note.size();
        const Verdict& verdict = packets.verdicts[first.packet];
        const bool dropped = verdict.target.kind == chain::Target::Kind::drop && verdict.node == first.node;
        const Origin from = packets.origin(first.packet);
        bool told = true;
        if (line_ != nullptr) told = line_->put(program_, note, from, dropped);
        else
            for (const Event& event : note) tell(*program_, event, from, dropped);
        ChainCounters& own = counters.of_node(first.node);
        (told ? own.events : own.events_lost).add(1);
    }
}

void Teller::ask_again(const LeftEvents& left, ChainCounters& counters, const EventPackets& packets) {
    const chain::Node& node = program_->nodes[left.node];
    EventBuffer all;
    all.events = storage_.data();
    all.capacity = static_cast<uint32_t>(storage_.size());
    Packet packet = packets.as_seen(left);
    packet.set_index(left.packet);
    packet.set_events(&all, left.node);
    Packet* const alone = &packet;
    const Running running(node.name, program_->name);
    Decision decision;
    if (nf::CpuHalf* const half = by_node_[left.node].get()) half->process({&alone, 1}, &decision);
    else node.type->process_with(1)(packet, node.nf->image().tables());
    counters.of_node(left.node).events_lost.add(all.left_count);
    counters.of_node(left.node).retold_on_cpu.add(1);
    hand_on({storage_.data(), std::min(all.count, all.capacity)}, counters, packets);
}

}  // namespace millrace::exec
