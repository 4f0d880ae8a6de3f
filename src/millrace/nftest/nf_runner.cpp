#include "millrace/nftest/nf_runner.hpp"

#include <algorithm>
#include <stdexcept>

#include "millrace/nftest/device_nf.hpp"
#include "millrace/nftest/packets/packet_arena.hpp"
#include "millrace/base/running.hpp"
#include "millrace/nf/cpu_stages.hpp"
#include "millrace/nf/variant.hpp"
#include "millrace/packet/argument.hpp"

namespace millrace::nftest {
namespace {

/// What `make` makes of the function of a name.
template <class Make>
auto made(const std::string& name, const Make& make) {
    const Running running(name, Call::making);
    return make();
}

/// The batch's packets that the parser accepted, in order of arrival.
std::vector<size_t> accepted(PacketArena& arena) {
    std::vector<size_t> indexes;
    for (size_t i = 0; i < arena.size(); ++i)
        if (arena[i].layers().malformed == Malformed::no) indexes.push_back(i);
    return indexes;
}

/// Calls `work(packets, decisions)` for vectors of the packets that the parser accepted.
template <class Work>
void in_vectors(PacketArena& arena, std::vector<Decision>& decisions, Work&& work) {
    const std::vector<size_t> batch = accepted(arena);
    for (size_t at = 0; at < batch.size(); at += nf::kCpuVector) {
        const size_t count = std::min(nf::kCpuVector, batch.size() - at);
        Packet* packets[nf::kCpuVector];
        Decision own[nf::kCpuVector];
        for (size_t i = 0; i < count; ++i) packets[i] = &arena[batch[at + i]];
        for (size_t i = 0; i < count; ++i) own[i] = decisions[batch[at + i]];
        work(std::span<Packet* const>(packets, count), own);
        for (size_t i = 0; i < count; ++i) decisions[batch[at + i]] = own[i];
    }
}

void run_before(const std::string& name, nf::BeforeDevice& stage, PacketArena& arena,
                std::vector<Decision>& decisions) {
    const Running running(name);
    in_vectors(arena, decisions, [&](std::span<Packet* const> packets, Decision*) {
        uint32_t arguments[nf::kCpuVector];
        stage.before({packets.data(), packets.size()}, arguments);
        for (size_t i = 0; i < packets.size(); ++i) set_argument(*packets[i], arguments[i]);
    });
}

void run_after(const std::string& name, nf::AfterDevice& stage, PacketArena& arena, EventBuffer& events,
               std::vector<Decision>& decisions) {
    const Running running(name);
    in_vectors(arena, decisions, [&](std::span<Packet* const> packets, Decision* own) {
        for (Packet* const packet : packets) {
            packet->set_events(&events, 0);
            set_argument(*packet, 0);
        }
        stage.after(packets, own);
    });
}

void run_cpu(const nf::Type& type, const void* tables, nf::CpuHalf& half, PacketArena& arena,
             std::vector<Decision>& decisions) {
    const Running running(type.name);
    in_vectors(arena, decisions, [&](std::span<Packet* const> packets, Decision* out) {
        half.process(packets, out);
        if (type.commits_keyed())
            for (size_t i = 0; i < packets.size(); ++i) out[i] = type.commit(*packets[i], tables, out[i]);
    });
}

/// Asks the NF again of the packets whose events were left, as an executor does.
void ask_again(const std::string& name, nf::NetworkFunction& nf, PacketArena& arena, const EventBuffer& told,
               std::vector<Event>& events, std::vector<std::string>& mistakes) {
    if (told.left_count == 0) return;
    const auto half = made(name, [&] { return nf.make_teller(); });
    const Running running(name);
    std::vector<Event> all(nf.most_events());
    for (uint32_t i = 0; i < told.left_count; ++i) {
        if (told.left[i].lost != 0) {
            mistakes.push_back("events were lost");
            continue;
        }
        std::erase_if(events, [&](const Event& event) { return event.packet == told.left[i].packet; });
        EventBuffer buffer;
        buffer.events = all.data();
        buffer.capacity = static_cast<uint32_t>(all.size());
        Packet* packet = &arena[told.left[i].packet];
        packet->set_events(&buffer, 0);
        Decision decision;
        half->process({&packet, 1}, &decision);
        if (buffer.left_count != 0) mistakes.push_back("it emits more events than its most_events() says");
        events.insert(events.end(), all.begin(), all.begin() + buffer.count);
    }
}

}  // namespace

void run_device_half(const nf::Type& type, const void* tables, unsigned lanes, PacketArena& arena,
                     std::vector<Decision>& decisions) {
    const Running running(type.name);
    const std::vector<size_t> batch = accepted(arena);
    if (type.is_keyed() && !type.commits_keyed()) {
        for (const size_t i : batch) decisions[i] = type.process_with(lanes)(arena[i], tables);
        return;
    }
    if (type.numbered()) {
        const MutableView<uint64_t> tickets = type.tickets(tables);
        for (const size_t i : batch) {
            const uint32_t key = type.order_key(arena[i], tables);
            if (key == kNoOrderKey) continue;
            if (key >= tickets.size()) throw std::out_of_range("order_key() gives a key that has no ticket");
            arena[i].set_ticket(tickets[key]++);
        }
    }
    for (size_t n = batch.size(); n-- > 0;) decisions[batch[n]] = type.process_with(lanes)(arena[batch[n]], tables);
    if (type.commit != nullptr)
        for (const size_t i : batch) decisions[i] = type.commit(arena[i], tables, decisions[i]);
}

std::vector<Half> host_halves(const nf::Type& type) {
    std::vector<Half> all;
    for (const unsigned lanes : nf::kLaneCounts) all.push_back({lanes});
    if (type.has_cpu_half) all.push_back({0});
    return all;
}

std::vector<Half> device_halves(const std::vector<std::string>& devices) {
    std::vector<Half> all;
    for (const std::string& device : devices)
        for (const unsigned lanes : nf::kLaneCounts) all.push_back({lanes, device});
    return all;
}

NfRunner::NfRunner(const nf::Type& type, const Config& options, const nf::Environment& environment, OpenDevice open)
    : open_(std::move(open)), nf_(made(type.name, [&] { return type.create(options, environment); })),
      type_(&nf::type_of(type, *nf_)) {}

NfRunner::~NfRunner() = default;

void NfRunner::put_behind(const nf::Type& type, const Config& options, const nf::Environment& environment) {
    before_ = made(type.name, [&] { return type.create(options, environment); });
    before_type_ = &nf::type_of(type, *before_);
}

bool NfRunner::stateful() const {
    const auto& arrays = nf_->image().arrays();
    return type_->ordered() || std::any_of(arrays.begin(), arrays.end(), [](const auto& a) { return a.is_state(); });
}

NfResult NfRunner::run(const std::vector<Frame>& frames, const Half& half, uint16_t in_port) {
    if (!half.device.empty()) {
        std::unique_ptr<DeviceNf>& own = on_devices_[half];
        if (own == nullptr) {
            std::vector<FunctionOnDevice> functions;
            if (before_ != nullptr) functions.push_back({before_type_, before_, before_type_->lanes});
            functions.push_back({type_, nf_, half.lanes});
            own = std::make_unique<DeviceNf>(open_(half.device), functions);
        }
        return own->run(frames, in_port, time_ns);
    }
    PacketArena arena(std::max<uint32_t>(128, type_->head_growth), std::max<uint32_t>(128, type_->tail_growth));
    std::vector<Event> events(std::max<size_t>(4096, frames.size() * 16));
    std::vector<LeftEvents> left(frames.size());
    EventBuffer buffer;
    buffer.events = events.data();
    buffer.capacity = static_cast<uint32_t>(events.size());
    buffer.left = left.data();
    buffer.left_capacity = static_cast<uint32_t>(left.size());
    auto* const before = dynamic_cast<nf::BeforeDevice*>(nf_.get());
    auto* const after = dynamic_cast<nf::AfterDevice*>(nf_.get());
    for (const Frame& frame : frames) {
        Packet& packet = arena.add(frame);
        packet.set_in_port(in_port);
        packet.set_time_ns(time_ns + arena.size() * kPacketNs);
        if (after == nullptr) packet.set_events(&buffer, 0);
    }
    NfResult result;
    result.decisions.assign(frames.size(), Decision{kNoDetail, kRefused});
    if (before_ != nullptr)
        run_device_half(*before_type_, before_->image().tables(), before_type_->lanes, arena, result.decisions);
    if (before != nullptr) run_before(type_->name, *before, arena, result.decisions);
    run_half(half, arena, result.decisions);
    if (after != nullptr) run_after(type_->name, *after, arena, buffer, result.decisions);
    if (!arena.guards_intact()) result.mistakes.push_back("it wrote outside of its packets and their rooms");
    for (size_t i = 0; i < frames.size(); ++i) {
        const uint32_t outcome = result.decisions[i].outcome;
        if (outcome != kRefused && outcome >= type_->outcomes.size())
            result.mistakes.push_back("packet " + std::to_string(i) + ": outcome " + std::to_string(outcome) +
                                      " is not declared");
        result.frames.push_back(arena.bytes(i));
        result.out_ports.push_back(arena[i].out_port());
    }
    events.resize(std::min(buffer.count, buffer.capacity));
    ask_again(type_->name, *nf_, arena, buffer, events, result.mistakes);
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
        return a.packet != b.packet ? a.packet < b.packet : a.order < b.order;
    });
    result.events = std::move(events);
    return result;
}

void NfRunner::run_half(const Half& half, PacketArena& arena, std::vector<Decision>& decisions) {
    if (half.lanes > 0) return run_device_half(*type_, nf_->image().tables(), half.lanes, arena, decisions);
    if (cpu_half_ == nullptr) cpu_half_ = made(type_->name, [&] { return nf_->make_cpu_half(); });
    if (cpu_half_ == nullptr) throw std::logic_error(type_->name + " declares a CPU half and makes none");
    run_cpu(*type_, nf_->image().tables(), *cpu_half_, arena, decisions);
}

}  // namespace millrace::nftest
