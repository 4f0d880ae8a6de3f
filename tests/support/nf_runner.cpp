#include "support/nf_runner.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <iostream>
#include <stdexcept>

#include "support/device_nf.hpp"
#include "support/devices.hpp"
#include "support/packet_arena.hpp"

namespace millrace::test {
namespace {

const nf::Type& type_named(const std::string& name) {
    const nf::Type* type = nf::find_type(name);
    if (type == nullptr) throw std::invalid_argument("there is no network function '" + name + "'");
    return *type;
}

/// The batch's packets that the parser accepted, in order of arrival.
std::vector<size_t> accepted(PacketArena& arena) {
    std::vector<size_t> indexes;
    for (size_t i = 0; i < arena.size(); ++i)
        if (arena[i].layers().malformed == Malformed::no) indexes.push_back(i);
    return indexes;
}

void run_device(const nf::Type& type, const void* tables, unsigned lanes, PacketArena& arena,
                std::vector<Decision>& decisions) {
    const std::vector<size_t> batch = accepted(arena);
    if (type.ordered()) {
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

void run_cpu(nf::CpuHalf& half, PacketArena& arena, std::vector<Decision>& decisions) {
    const std::vector<size_t> batch = accepted(arena);
    for (size_t at = 0; at < batch.size(); at += nf::kCpuVector) {
        const size_t count = std::min(nf::kCpuVector, batch.size() - at);
        Packet* packets[nf::kCpuVector];
        Decision out[nf::kCpuVector];
        for (size_t i = 0; i < count; ++i) packets[i] = &arena[batch[at + i]];
        half.process({packets, count}, out);
        for (size_t i = 0; i < count; ++i) decisions[batch[at + i]] = out[i];
    }
}

/// Asks the NF again of the packets whose events were left, as an executor does.
void ask_again(nf::NetworkFunction& nf, PacketArena& arena, const EventBuffer& told, std::vector<Event>& events) {
    if (told.left_count == 0) return;
    const auto half = nf.make_teller();
    std::vector<Event> all(nf.most_events());
    for (uint32_t i = 0; i < told.left_count; ++i) {
        std::erase_if(events, [&](const Event& event) { return event.packet == told.left[i].packet; });
        EventBuffer buffer;
        buffer.events = all.data();
        buffer.capacity = static_cast<uint32_t>(all.size());
        Packet* packet = &arena[told.left[i].packet];
        packet->set_events(&buffer, 0);
        Decision decision;
        half->process({&packet, 1}, &decision);
        EXPECT_EQ(buffer.left_count, 0u) << "events that nobody has room for";
        events.insert(events.end(), all.begin(), all.begin() + buffer.count);
    }
}

bool same_event(const Event& a, const Event& b) {
    return std::equal(a.src, a.src + 16, b.src) && std::equal(a.dst, a.dst + 16, b.dst) && a.src_port == b.src_port &&
           a.dst_port == b.dst_port && a.protocol == b.protocol && a.ip_version == b.ip_version &&
           a.vlan_id == b.vlan_id && a.length == b.length && a.packet == b.packet && a.code == b.code &&
           a.order == b.order;
}

/// Expects that two engines gave the same; shows the first packet that differs.
void expect_same(const NfResult& want, const NfResult& got, const std::vector<Frame>& frames) {
    for (size_t i = 0; i < frames.size(); ++i) {
        const bool same = want.decisions[i] == got.decisions[i] && want.frames[i] == got.frames[i] &&
                          want.out_ports[i] == got.out_ports[i];
        if (same) continue;
        ADD_FAILURE() << "packet " << i << ": outcome " << got.decisions[i].outcome << " detail "
                      << got.decisions[i].detail << " port " << got.out_ports[i] << ", wanted outcome "
                      << want.decisions[i].outcome << " detail " << want.decisions[i].detail << " port "
                      << want.out_ports[i] << "\nin:\n"
                      << hex_dump(frames[i]) << "\nout:\n"
                      << hex_dump(got.frames[i]) << "\nwanted:\n"
                      << hex_dump(want.frames[i]);
        return;
    }
    ASSERT_EQ(got.events.size(), want.events.size()) << "events";
    for (size_t i = 0; i < got.events.size(); ++i)
        ASSERT_TRUE(same_event(want.events[i], got.events[i]))
            << "event " << i << ": code " << got.events[i].code << " of packet " << got.events[i].packet
            << ", wanted code " << want.events[i].code << " of packet " << want.events[i].packet;
}

}  // namespace

std::vector<Engine> host_engines(const nf::Type& type) {
    const bool every = std::ranges::find(test_devices(), "cpu") != test_devices().end();
    std::vector<Engine> all;
    for (const unsigned lanes : nf::kLaneCounts)
        if (every || lanes == 1) all.push_back({lanes});
    if (type.has_cpu_half) all.push_back({0});
    return all;
}

std::vector<Engine> engines(const nf::Type& type) {
    static const std::vector<std::string> devices = [] {
        std::vector<std::string> usable;
        for (const std::string& name : offload_devices()) {
            const std::string trouble = device_trouble(name);
            if (trouble.empty()) usable.push_back(name);
            else std::cerr << "The device " << name << " is left out: " << trouble << "\n";
        }
        return usable;
    }();
    std::vector<Engine> all = host_engines(type);
    for (const std::string& device : devices)
        for (const unsigned lanes : nf::kLaneCounts) all.push_back({lanes, device});
    return all;
}

NfRunner::NfRunner(const std::string& type, const Config& options, nf::Environment environment)
    : type_(&type_named(type)), nf_(type_->create(options, environment)) {}

NfRunner::~NfRunner() = default;

bool NfRunner::stateful() const {
    const auto& arrays = nf_->image().arrays();
    return type_->ordered() || std::any_of(arrays.begin(), arrays.end(), [](const auto& a) { return a.is_state(); });
}

NfResult NfRunner::run(const std::vector<Frame>& frames, Engine engine, uint16_t in_port) {
    if (!engine.device.empty()) {
        std::unique_ptr<DeviceNf>& own = on_devices_[engine];
        if (own == nullptr) own = std::make_unique<DeviceNf>(engine.device, *type_, nf_, engine.lanes);
        return own->run(frames, in_port);
    }
    PacketArena arena(std::max<uint32_t>(128, type_->head_growth), std::max<uint32_t>(128, type_->tail_growth));
    std::vector<Event> events(std::max<size_t>(4096, frames.size() * 16));
    std::vector<LeftEvents> left(frames.size());
    EventBuffer buffer;
    buffer.events = events.data();
    buffer.capacity = static_cast<uint32_t>(events.size());
    buffer.left = left.data();
    buffer.left_capacity = static_cast<uint32_t>(left.size());
    for (const Frame& frame : frames) {
        Packet& packet = arena.add(frame);
        packet.set_in_port(in_port);
        packet.set_events(&buffer, 0);
    }
    NfResult result;
    result.decisions.assign(frames.size(), Decision{kNoDetail, kRefused});
    if (engine.lanes == 0) {
        if (cpu_half_ == nullptr) cpu_half_ = nf_->make_cpu_half();
        if (cpu_half_ == nullptr) throw std::logic_error(type_->name + " declares a CPU half and makes none");
        run_cpu(*cpu_half_, arena, result.decisions);
    } else {
        run_device(*type_, nf_->image().tables(), engine.lanes, arena, result.decisions);
    }
    EXPECT_TRUE(arena.guards_intact()) << type_->name << " wrote outside of its packets, " << engine.text();
    for (size_t i = 0; i < frames.size(); ++i) {
        const uint32_t outcome = result.decisions[i].outcome;
        EXPECT_TRUE(outcome == kRefused || outcome < type_->outcomes.size())
            << "outcome " << outcome << " is not declared";
        result.frames.push_back(arena.bytes(i));
        result.out_ports.push_back(arena[i].out_port());
    }
    events.resize(std::min(buffer.count, buffer.capacity));
    ask_again(*nf_, arena, buffer, events);
    std::stable_sort(events.begin(), events.end(), [](const Event& a, const Event& b) {
        return a.packet != b.packet ? a.packet < b.packet : a.order < b.order;
    });
    result.events = std::move(events);
    return result;
}

void check_halves_agree(const std::string& type, const Config& options, const std::vector<Frame>& frames,
                        const nf::Environment& environment) {
    auto shared = std::make_unique<NfRunner>(type, options, environment);
    std::vector<size_t> sizes = {0, 1, 31, 32, 33, 255, 256, 257, 1023, 1024, 1025};
    std::erase_if(sizes, [&](size_t size) { return size >= frames.size(); });
    sizes.push_back(frames.size());
    for (const size_t size : sizes) {
        const std::vector<Frame> batch(frames.begin(), frames.begin() + static_cast<std::ptrdiff_t>(size));
        std::optional<NfResult> want;
        for (const Engine& engine : engines(shared->type())) {
            SCOPED_TRACE(type + ", " + engine.text() + ", batch of " + std::to_string(size));
            if (shared->stateful()) shared = std::make_unique<NfRunner>(type, options, environment);
            NfResult got = shared->run(batch, engine);
            if (want) expect_same(*want, got, batch);
            if (testing::Test::HasFailure()) return;
            if (!want) want = std::move(got);
        }
    }
}

void check_halves_agree(const std::string& type, const std::string& options_yaml, const std::vector<Frame>& frames) {
    check_halves_agree(type, Config::parse(options_yaml), frames);
}

}  // namespace millrace::test
