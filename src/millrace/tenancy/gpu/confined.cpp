#include "millrace/tenancy/gpu/confined.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <cstring>

#include "millrace/device/kernel/confined.hpp"
#include "millrace/device/turns.hpp"
#include "millrace/isolation/ptx/reader.hpp"
#include "millrace/tenancy/exchange/fields.hpp"

namespace millrace::tenancy {

using device::ConfinedAnswer;
using device::ConfinedHead;
using device::ConfinedQuestion;
using device::kConfinedHandleBytes;
using device::Status;

namespace {

/// Longest front of a frame, without its payload, that a function can have: headers that are longer are not for tenants
/// (too-long).
constexpr uint32_t kMaxHeaders = 1024;
/// What its PTX may make of the manager's time and memory; the verifier takes about a second for as much (Effort).
constexpr size_t kMaxStatements = 200'000;

constexpr uint64_t rounded(uint64_t bytes, uint64_t to) { return (bytes + to - 1) / to * to; }

template <class Kernel>
std::shared_ptr<device::LoadedTask> load(device::Device& device, const char* name, const char* kernel) {
    device::Task task;
    task.name = name;
    task.device_header = "millrace/device/kernel/confined.hpp";
    task.device_struct = kernel;
    task.run = device::Task::run_on_host<Kernel, 1>;
    task.in_words = task.out_words = 1;
    nf::Image image;
    image.start<typename Kernel::Tables>();
    return device.load(task, image);
}

}  // namespace

device::StreamId Streams::take() {
    const std::lock_guard lock(mutex_);
    if (free_.empty()) return device_.create_stream();
    const device::StreamId stream = free_.back();
    free_.pop_back();
    return stream;
}

void Streams::give(device::StreamId stream) {
    device_.move_stream(stream, {});
    const std::lock_guard lock(mutex_);
    free_.push_back(stream);
}

TrustedKernels::TrustedKernels(device::Device& device)
    : copy(load<device::CopyWords>(device, "packets to a GPU and back", "millrace::device::CopyWords")),
      enter(load<device::Enter>(device, "packets into a tenant's window", "millrace::device::Enter")),
      leave(load<device::Leave>(device, "packets out of a tenant's window", "millrace::device::Leave")) {}

ConfinedFunction::ConfinedFunction(device::Device& device, Streams& streams, const TrustedKernels& kernels,
                                   const DeviceHalf& half, const ConfinedTerms& terms, const std::string& name)
    : device_(device), streams_(streams), kernels_(kernels), terms_(terms), to_terms_(half.to_terms),
      stages_(half.stages), comes_back_(stages_.after ? terms.sees : terms.changes),
      comes_back_bytes_(stages_.after ? terms.shape.in_bytes : terms.shape.back_bytes) {
    plan(half);
    // Before the window: what is refused costs none. The fence is made for the window's addresses.
    const isolation::ptx::Limits limits{.text_bytes = kMaxPtxBytes, .statements = kMaxStatements};
    const isolation::ptx::Module module = isolation::ptx::read(half.ptx, name + ".ptx", limits);
    const isolation::Verdict verdict = isolation::verify(module);
    if (!verdict.sound()) throw ConfigError(verdict.refusals);
    if (const std::string why = isolation::why_not_process(module, half.function); !why.empty())
        throw std::runtime_error(why);
    window_ = device_.make_window(image_bytes_ + terms_.shape.lanes * (kSlots * slot_bytes() + pass_bytes()),
                                  "tenant '" + name + "'");
    isolation::RewriteOptions options;
    options.isolation = terms_.isolation;
    options.window = window_->begin();
    options.guard_bytes = window_->guard_bytes();
    options.budget = terms_.budget;
    const isolation::Rewritten made = isolation::rewrite(module, verdict, options);
    for (const isolation::FunctionReport& function : made.functions) {
        instructions_ += function.instructions;
        added_ += function.added();
    }
    fenced_ = isolation::write_fenced(made.module, half.function);
    code_ = device_.load_fenced(isolation::with_kernel(fenced_), name);
    place(half);
    for (uint32_t i = 0; i < terms_.shape.lanes; ++i) lanes_.push_back(std::make_unique<ConfinedLane>(*this, i));
    device::Address next = window_->begin() + image_bytes_ + terms_.shape.lanes * kSlots * slot_bytes();
    for (uint32_t i = 0; pass_packets_ > 0 && i < terms_.shape.lanes; ++i, next += pass_bytes())
        passes_.push_back(std::make_unique<ConfinedPass>(*this, next, pass_packets_));
}

/// How much room what has.
void ConfinedFunction::plan(const DeviceHalf& half) {
    const Shape& shape = terms_.shape;
    const bool with_payload = terms_.sees.overlaps(field::payload);
    frame_room_ = kMaxHeaders + (with_payload ? shape.in_bytes : 0);
    stride_ = static_cast<uint32_t>(rounded(kConfinedHandleBytes + frame_room_, 16));
    question_stride_ = static_cast<uint32_t>(rounded(sizeof(ConfinedQuestion) + shape.in_bytes, 8));
    answer_stride_ = static_cast<uint32_t>(rounded(sizeof(ConfinedAnswer) + comes_back_bytes_, 8));
    image_bytes_ = half.image_bytes();
    const uint64_t of_packet = uint64_t{stride_} + sizeof(Decision), slots = uint64_t{kSlots} * shape.lanes;
    const uint64_t left = terms_.memory_bytes > image_bytes_ ? terms_.memory_bytes - image_bytes_ : 0;
    const uint64_t room = left / slots > DeviceHalf::kPieceAlignment ? left / slots - DeviceHalf::kPieceAlignment : 0;
    packets_ = static_cast<uint32_t>(std::min<uint64_t>(shape.packets, room / of_packet));
    if (packets_ == 0)
        throw std::runtime_error(fmt::format(
            "its tables take {} bytes, and beside them there is no room for packets of each worker in the {} bytes "
            "that it may have: 'memory:' says how many",
            image_bytes_, terms_.memory_bytes));
    plan_passes(left - std::min(left, slots * slot_bytes()));
}

/// What is left of its memory is for batches of its chain in one piece: too little, and there are none. Nor are there
/// of a function whose process has a part in each batch.
void ConfinedFunction::plan_passes(uint64_t left) {
    if (stages_.any()) return;
    constexpr uint32_t kFewest = 256;
    pass_room_ = chain::kUndividedHead + (frame_room_ - kMaxHeaders);
    pass_stride_ = static_cast<uint32_t>(rounded(kConfinedHandleBytes + device::kConfinedShift + pass_room_, 16));
    const uint64_t each = left / terms_.shape.lanes / ConfinedPass::kPlaces, ends = 2 * DeviceHalf::kPieceAlignment;
    const uint64_t packets = each > ends ? (each - ends) / pass_stride_ : 0;
    pass_packets_ = static_cast<uint32_t>(std::min<uint64_t>(packets, terms_.chain_packets));
    if (pass_packets_ < std::min(kFewest, terms_.chain_packets) ||
        to_terms_.size() > device::ConfinedPlace::kMaxOutcomes)
        pass_packets_ = 0;
}

uint64_t ConfinedFunction::pass_bytes() const { return ConfinedPass::kPlaces * place_bytes(); }

uint64_t ConfinedFunction::place_bytes() const {
    return rounded(uint64_t{pass_packets_} * pass_stride_, DeviceHalf::kPieceAlignment);
}

uint64_t ConfinedFunction::slot_bytes() const {
    return rounded(packets_ * (uint64_t{stride_} + sizeof(Decision)), DeviceHalf::kPieceAlignment);
}

/// Tables and arrays at the window's begin. What the tenant says of places within its tables is its own business: an
/// address that it spoils leads into its own window.
void ConfinedFunction::place(const DeviceHalf& half) {
    std::vector<uint8_t> tables = half.tables;
    tables_ = window_->begin();
    device::Address next = tables_ + rounded(tables.size(), DeviceHalf::kPieceAlignment);
    for (const DeviceHalf::Array& array : half.arrays) {
        std::memcpy(tables.data() + array.member, &next, sizeof next);
        bring(next, array.bytes.data(), array.bytes.size());
        next += rounded(array.bytes.size(), DeviceHalf::kPieceAlignment);
    }
    bring(tables_, tables.data(), tables.size());
}

/// Returns when it is there.
void ConfinedFunction::bring(device::Address to, const void* from, size_t bytes) {
    if (bytes == 0) return;
    const Streams::Lent stream(streams_);
    const auto copy = device::host_array<uint8_t>(device_, bytes);
    std::memcpy(copy.get(), from, bytes);
    device::EventId event = 0;
    Status status = device_.copy_to_device(stream.id(), to, copy.get(), bytes);
    if (status == Status::ok) status = device_.record(stream.id(), event);
    if (status == Status::ok) do {
            status = device_.query(event);
        } while (status == Status::pending);
    if (status != Status::ok) throw std::runtime_error("its tables can't be brought to the GPU");
}

bool ConfinedFunction::idle() {
    return std::ranges::all_of(lanes_, [](const auto& lane) { return lane->idle(); });
}

ConfinedLane::ConfinedLane(ConfinedFunction& function, uint32_t number)
    : function_(function), stream_(function.streams_) {
    device::Device& device = function_.device_;
    device::Address next = function_.window_->begin() + function_.image_bytes_ +
                           uint64_t{number} * kSlots * function_.slot_bytes();
    const size_t question_bytes = sizeof(ConfinedHead) + size_t{function_.packets_} * function_.question_stride_;
    const size_t answer_bytes = size_t{function_.packets_} * function_.answer_stride_;
    for (Slot& slot : slots_) {
        slot.question = device::DeviceMemory(device, question_bytes, "questions to a tenant");
        slot.answer = device::DeviceMemory(device, answer_bytes, "answers of a tenant");
        slot.host_question = device::host_array<uint8_t>(device, question_bytes);
        slot.host_answer = device::host_array<uint8_t>(device, answer_bytes);
        slot.handles = next;
        slot.decisions = next + uint64_t{function_.packets_} * function_.stride_;
        next += function_.slot_bytes();
        const ConfinedHead head{.handles = slot.handles,
                                .decisions = slot.decisions,
                                .stride = function_.stride_,
                                .question_stride = function_.question_stride_,
                                .answer_stride = function_.answer_stride_,
                                .sees = function_.terms_.sees.bits,
                                .changes = function_.comes_back_.bits};
        std::memcpy(slot.host_question.get(), &head, sizeof head);
    }
}

Status ConfinedLane::state(Slot& slot) {
    if (!slot.runs) return Status::ok;
    const Status status = function_.device_.query(slot.event);
    if (status != Status::pending) slot.runs = false;
    return status;
}

bool ConfinedLane::idle() {
    return std::ranges::all_of(slots_, [this](Slot& slot) { return state(slot) != Status::pending; });
}

bool ConfinedLane::has_room(const schedule::GpuShare& share) {
    if (share != share_) {
        if (asked_.size() > 0 || !idle()) return false;
        function_.device_.move_stream(stream_.id(), share.sms);
        share_ = share;
    }
    return asked_.size() < kSlots && state(slots_[next_slot_]) != Status::pending;
}

bool ConfinedLane::ask(std::span<const Shown> packets, uint64_t id) {
    if (!prepare(packets, id)) return false;
    start({});
    return true;
}

bool ConfinedLane::prepare(std::span<const Shown> packets, uint64_t id) {
    if (!has_room(share_) || packets.size() > function_.packets_) return false;
    write(slots_[next_slot_], packets);
    asked_.push({next_slot_, id, static_cast<uint32_t>(packets.size())});
    next_slot_ = (next_slot_ + 1) % kSlots;
    return true;
}

void ConfinedLane::start(std::span<const uint32_t> arguments) {
    const Asked& own = asked_[started_++];
    Slot& slot = slots_[own.slot];
    uint8_t* to = slot.host_question.get() + sizeof(ConfinedHead) + offsetof(ConfinedQuestion, argument);
    for (const uint32_t argument : arguments.first(std::min<size_t>(arguments.size(), own.count))) {
        std::memcpy(to, &argument, sizeof argument);
        to += function_.question_stride_;
    }
    // A device that is gone says so when the answer is asked for.
    put(slot, own.count);
}

void ConfinedLane::write(Slot& slot, std::span<const Shown> packets) const {
    uint8_t* to = slot.host_question.get() + sizeof(ConfinedHead);
    for (size_t i = 0; i < packets.size(); ++i, to += function_.question_stride_) {
        const Shown& packet = packets[i];
        const ConfinedQuestion question{packet.about,
                                        extent(packet.about.length, packet.about.layers, function_.terms_.sees)};
        std::memcpy(to, &question, sizeof question);
        std::copy(packet.bytes.begin(), packet.bytes.end(), to + sizeof question);
        const size_t back = function_.stages_.after ? packet.bytes.size() : packet.back_bytes;
        slot.back_bytes[i] = static_cast<uint16_t>(std::min<size_t>(back, function_.comes_back_bytes_));
    }
}

/// Both begin at a multiple of four bytes, and have as many.
Status ConfinedLane::copy(void* to, const void* from, size_t bytes) {
    return function_.device_.launch(stream_.id(), *function_.kernels_.copy,
                                    {static_cast<const uint32_t*>(from), static_cast<uint32_t*>(to),
                                     static_cast<uint32_t>(bytes / sizeof(uint32_t))});
}

/// In order on one stream: the question, three kernels, the answer.
Status ConfinedLane::put(Slot& slot, uint32_t count, bool kernels) {
    device::Device& device = function_.device_;
    slot.runs = true;
    const auto there = [](const device::DeviceMemory& memory) { return reinterpret_cast<void*>(memory.address()); };
    Status status = copy(there(slot.question), slot.host_question.get(),
                         sizeof(ConfinedHead) + size_t{count} * function_.question_stride_);
    const auto run = [&] { return launch(slot, count); };
    if (status == Status::ok && kernels)
        status = share_.in_turn ? device.turns().take(device, stream_.id(), run) : run();
    if (status == Status::ok)
        status = copy(slot.host_answer.get(), there(slot.answer), size_t{count} * function_.answer_stride_);
    if (status == Status::ok) status = device.record(stream_.id(), slot.event);
    return status;
}

Status ConfinedLane::launch(Slot& slot, uint32_t count) {
    device::Device& device = function_.device_;
    const auto words = [](device::Address address) { return reinterpret_cast<uint32_t*>(address); };
    const device::TaskBatch batch{words(slot.question.address()), words(slot.answer.address()), count};
    Status status = device.launch(stream_.id(), *function_.kernels_.enter, batch);
    if (status == Status::ok)
        status = device.launch_fenced(stream_.id(), *function_.code_,
                                      {.packets = slot.handles,
                                       .stride = function_.stride_,
                                       .tables = function_.tables_,
                                       .decisions = slot.decisions,
                                       .count = count});
    return status == Status::ok ? device.launch(stream_.id(), *function_.kernels_.leave, batch) : status;
}

ConfinedLane::Reply ConfinedLane::take(Exchange::Taken& taken, Decision* decisions) {
    if (started_ == 0) return Reply::none;
    const Asked own = asked_.front();
    Slot& slot = slots_[own.slot];
    const Status status = function_.device_.state() == Status::ok ? state(slot) : Status::lost;
    if (status == Status::pending) return Reply::none;
    if (status != Status::ok) return Reply::lost;
    asked_.pop();
    --started_;
    taken.id = own.id;
    taken.count = own.count;
    const uint32_t back_bytes = function_.comes_back_bytes_;
    taken.back.resize(size_t{own.count} * back_bytes);
    bool sound = true;
    const uint8_t* from = slot.host_answer.get();
    for (uint32_t i = 0; i < own.count; ++i, from += function_.answer_stride_) {
        ConfinedAnswer answer;
        std::memcpy(&answer, from, sizeof answer);
        sound = sound && answer.decision.outcome < function_.to_terms_.size();
        taken.outcomes[i] = sound ? function_.to_terms_[answer.decision.outcome] : 0;
        if (decisions != nullptr) decisions[i] = answer.decision;
        std::copy_n(from + sizeof answer, slot.back_bytes[i], taken.back.data() + size_t{i} * back_bytes);
    }
    return sound ? Reply::good : Reply::wrong;
}

uint64_t ConfinedLane::give_up() {
    const uint64_t id = asked_.front().id;
    asked_.pop();
    if (started_ > 0) --started_;
    return id;
}

}  // namespace millrace::tenancy
