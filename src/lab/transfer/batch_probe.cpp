#include "lab/transfer/batch_probe.hpp"

#include <algorithm>
#include <chrono>
#include <cstring>
#include <deque>

#include "lab/clock.hpp"
#include "millrace/exec/transfer/transfer.hpp"
#include "millrace/packet/bytes.hpp"

namespace millrace::lab {
namespace {

using device::Address;
using device::Status;
using device::Step;

/// Ethernet, IPv4 and UDP from 10.0.0.1 to 10.0.0.2, and bytes that are no pattern of anything.
void write_frame(uint8_t* frame, uint32_t bytes) {
    std::memset(frame, 'x', bytes);
    const auto ip_bytes = static_cast<uint16_t>(bytes - 14), udp_bytes = static_cast<uint16_t>(bytes - 34);
    constexpr uint8_t kHeaders[] = {2, 0,  0,  0, 0, 2,  2, 0, 0, 0,  0, 1, 8, 0,    0x45, 0,    0, 0, 0, 0, 0,
                                    0, 64, 17, 0, 0, 10, 0, 0, 1, 10, 0, 0, 2, 0x10, 0,    0x20, 0, 0, 0, 0, 0};
    std::copy(std::begin(kHeaders), std::end(kHeaders), frame);
    store_be16(frame + 16, ip_bytes);
    store_be16(frame + 38, udp_bytes);
}

template <class T>
T* pointer(Address address) {
    return reinterpret_cast<T*>(address);
}

}  // namespace

BatchProbe::BatchProbe(std::shared_ptr<device::Device> device, const std::string& nfs, size_t packets,
                       uint32_t frame_bytes)
    : device_(std::move(device)), packets_(packets), frame_bytes_(frame_bytes),
      room_(exec::frame_room(frame_bytes, 0, 0)) {
    const chain::Configuration configuration = chain::parse_configuration(
        "version: 1\nports: {in: {null: {}}, out: {null: {}}}\nchains:\n  profile: {input: in, output: out, nfs: " +
            nfs + "}\n",
        "the profile's chain",
        {.device = "cpu", .output_folder = "/nowhere", .lanes = 0, .previous = nullptr, .progress = nullptr});
    program_ = configuration.chains.front();
    loaded_ = device_->load(program_, device::plan_steps(*program_, {.gather = true, .pack = true}));
    const auto place = [&](size_t& at, size_t bytes) {
        at = bytes_;
        bytes_ = (bytes_ + bytes + 255) / 256 * 256;
    };
    size_t descriptors_at = 0;
    place(descriptors_at, packets * sizeof(device::FrameDescriptor));
    place(results_at_, packets * sizeof(device::PacketResult));
    place(packets_at_, packets * sizeof(Packet));
    place(decisions_at_, packets * sizeof(Decision));
    place(kept_at_, packets * kKeptWords * sizeof(uint32_t));
    place(keys_at_, packets * sizeof(uint32_t));
    place(at_at_, packets * sizeof(uint16_t));
    place(counts_at_, size_t{device::kMaxStages} * device::kMaxOutcomes * sizeof(uint32_t));
    place(events_at_, sizeof(EventBuffer));
    place(heads_at_, packets * exec::kMaxPrefix);
    place(frames_at_, packets * room_);
    for (unsigned i = 0; i < kDepth; ++i) {
        Slot slot;
        slot.stream = device_->create_stream();
        slot.frames = static_cast<uint8_t*>(device_->allocate_host(packets * kPitch));
        slot.descriptors = static_cast<uint8_t*>(device_->allocate_host(packets * sizeof(device::FrameDescriptor)));
        slot.back = static_cast<uint8_t*>(device_->allocate_host(packets * std::max<size_t>(room_, exec::kMaxPrefix)));
        slot.memory = device_->allocate(bytes_, "the profile");
        std::memset(slot.back, 0, packets * std::max<size_t>(room_, exec::kMaxPrefix));
        for (size_t p = 0; p < packets; ++p) write_frame(slot.frames + p * kPitch, frame_bytes);
        slots_.push_back(slot);
    }
    // An event buffer without room, and frames that are sound before any were gathered.
    for (Slot& slot : slots_) {
        const EventBuffer none;
        std::memcpy(slot.back, &none, sizeof none);
        require(device_->copy_to_device(slot.stream, slot.memory + events_at_, slot.back, sizeof none));
        require(device_->copy_rows_to_device(slot.stream, slot.memory + frames_at_, room_, slot.frames, kPitch,
                                             frame_bytes, packets));
        wait(slot);
    }
}

BatchProbe::~BatchProbe() {
    loaded_.reset();
    for (const Slot& slot : slots_) {
        for (void* memory : {slot.frames, slot.descriptors, slot.back}) device_->free_host(memory);
        device_->free(slot.memory);
    }
}

void BatchProbe::wait(Slot& slot) {
    device::EventId event = 0;
    require(device_->record(slot.stream, event));
    Status status = Status::pending;
    while ((status = device_->query(event)) == Status::pending) {
    }
    require(status);
}

device::BatchView BatchProbe::view(const Slot& slot, const Shape& shape) const {
    device::BatchView view;
    view.frames = pointer<uint8_t>(slot.memory);
    view.source = reinterpret_cast<uint64_t>(slot.frames);
    view.source_pitch = kPitch;
    view.descriptors = pointer<device::FrameDescriptor>(slot.memory);
    view.packets = pointer<Packet>(slot.memory + packets_at_);
    view.at = pointer<uint16_t>(slot.memory + at_at_);
    view.decisions = pointer<Decision>(slot.memory + decisions_at_);
    view.kept = pointer<uint32_t>(slot.memory + kept_at_);
    view.keys = pointer<uint32_t>(slot.memory + keys_at_);
    view.results = pointer<device::PacketResult>(slot.memory + results_at_);
    view.events = pointer<EventBuffer>(slot.memory + events_at_);
    view.outcome_counts = pointer<uint32_t>(slot.memory + counts_at_);
    view.prefixes = shape.heads_home ? slot.back : pointer<uint8_t>(slot.memory + heads_at_);
    view.prefix_bytes = shape.heads;
    view.count = static_cast<uint32_t>(shape.packets);
    view.mean_bytes = shape.present;
    view.in_place = shape.in_place;
    return view;
}

/// Tells the device of the frames that the shape is about, and runs the chain once, so that each has a result.
void BatchProbe::prepare(const Shape& shape) {
    for (Slot& slot : slots_) {
        auto* descriptors = reinterpret_cast<device::FrameDescriptor*>(slot.descriptors);
        for (size_t i = 0; i < shape.packets; ++i)
            descriptors[i] = {static_cast<uint32_t>(frames_at_ + i * room_), static_cast<uint16_t>(frame_bytes_),
                              static_cast<uint16_t>(shape.present), 0, 0};
        require(device_->copy_to_device(slot.stream, slot.memory, slot.descriptors,
                                        shape.packets * sizeof(device::FrameDescriptor)));
        put(slot, {.packets = shape.packets, .present = shape.present, .nodes = true});
        wait(slot);
    }
}

void BatchProbe::put(Slot& slot, const Shape& shape) {
    const device::BatchView batch = view(slot, shape);
    const std::vector<Step>& steps = loaded_->steps();
    for (size_t i = 0; i < steps.size(); ++i) {
        const Step::Kind kind = steps[i].kind;
        const bool wanted = kind == Step::Kind::gather ? shape.gather
                            : kind == Step::Kind::pack ? shape.heads != 0
                                                       : shape.nodes || shape.in_place;
        if (wanted) require(device_->launch(slot.stream, *loaded_, i, batch));
    }
    if (shape.copy_back != 0)
        require(device_->copy_to_host(slot.stream, slot.back, slot.memory + (shape.heads != 0 ? heads_at_ : frames_at_),
                                      shape.copy_back));
}

double BatchProbe::measure(const Shape& shape, double seconds) {
    prepare(shape);
    std::deque<device::EventId> under_way;
    uint64_t started = 0, done = 0;
    const auto run = [&](double wanted) {
        const uint64_t from = done;
        const auto begin = Clock::now();
        while (ns_since(begin) < wanted * 1e9) {
            while (under_way.size() < kDepth) {
                Slot& slot = slots_[started++ % kDepth];
                put(slot, shape);
                device::EventId event = 0;
                require(device_->record(slot.stream, event));
                under_way.push_back(event);
            }
            for (Status status;
                 !under_way.empty() && (status = device_->query(under_way.front())) != Status::pending;) {
                require(status);
                under_way.pop_front();
                ++done;
            }
        }
        return ns_since(begin) / static_cast<double>(std::max<uint64_t>(done - from, 1));
    };
    run(seconds / 4);
    const double ns = run(seconds);
    for (Slot& slot : slots_) wait(slot);
    return ns;
}

double BatchProbe::launch_ns(double seconds) {
    constexpr unsigned kAtOnce = 32;
    const Shape shape{.packets = 1, .present = frame_bytes_, .gather = true};
    prepare(shape);
    Slot& slot = slots_.front();
    double spent = 0, least = 0;
    while (spent < seconds * 1e9) {
        const auto begin = Clock::now();
        for (unsigned i = 0; i < kAtOnce; ++i) put(slot, shape);
        const double ns = ns_since(begin) / kAtOnce;
        least = least == 0 ? ns : std::min(least, ns);
        wait(slot);
        spent += ns_since(begin);
    }
    return least;
}

}  // namespace millrace::lab
