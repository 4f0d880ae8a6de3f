#include "millrace/tenancy/member/function_host.hpp"

#include <algorithm>
#include <stdexcept>

#include "millrace/base/running.hpp"
#include "millrace/chain/frames/field_plan.hpp"
#include "millrace/device/cuda/compile/compiler.hpp"
#include "millrace/device/cuda/compile/nf_source.hpp"
#include "millrace/exec/cpu/run_function.hpp"
#include "millrace/nf/cpu_stages.hpp"
#include "millrace/nf/variant.hpp"
#include "millrace/packet/argument.hpp"
#include "millrace/tenancy/exchange/fields.hpp"

namespace millrace::tenancy {
namespace {

constexpr uint32_t kMaxFrame = 65535, kBetween = 64;
constexpr uint32_t kUnknown = 0xffffffff;  // an outcome that the manager refuses

bool lies_within(const About& about) {
    const Layers& layers = about.layers;
    return about.length <= kMaxFrame && layers.end <= about.length && layers.payload_offset <= layers.end &&
           layers.l3_offset <= about.length && layers.l4_offset <= layers.end;
}

}  // namespace

FunctionHost::FunctionHost(const nf::Type& kind, const Config& options, const std::string& name,
                           const std::string& output_folder)
    : program_(std::make_shared<chain::Program>()), about_(kMaxPackets), packets_(kMaxPackets), arguments_(kMaxPackets),
      decisions_(kMaxPackets), verdicts_(kMaxPackets), events_(size_t{16} * kMaxPackets), left_(kMaxPackets) {
    nf::Environment environment;
    environment.node_name = name;
    environment.chain_name = name;
    environment.output_folder = output_folder;
    environment.ports = {"manager"};
    const Running running(kind.name, name, Call::making);
    chain::Node node;
    node.name = name;
    node.nf = kind.create(options, environment);
    node.type = &nf::type_of(kind, *node.nf);
    node.lanes = node.type->lanes;
    for (const nf::Outcome& outcome : node.type->outcomes)
        node.targets.push_back(outcome.disposition == nf::Disposition::drop ? Target{Target::Kind::drop, 0} : Target{});
    const nf::Growth growth = node.growth();
    if (growth.head > 0 || growth.tail > 0 || (node.writes() | node.type->cpu_writes).overlaps(field::length))
        throw std::runtime_error("'" + kind.name + "' changes lengths of packets, which a tenant's function can't");
    program_->name = program_->whole = name;
    program_->port_names = std::make_shared<const std::vector<std::string>>(environment.ports);
    program_->nodes.push_back(std::move(node));
    counters_ = std::make_unique<exec::ChainCounters>(*program_);
    half_ = program_->nodes.front().nf->make_cpu_half();
    stages_ = nf::cpu_stages_of(function());
    before_ = dynamic_cast<nf::BeforeDevice*>(program_->nodes.front().nf.get());
    after_ = dynamic_cast<nf::AfterDevice*>(program_->nodes.front().nf.get());
    if (stages_.before && program_->nodes.front().type->numbered())
        throw std::runtime_error("'" + kind.name + "' draws tickets, in whose place packets have the arguments that " +
                                 "its stage before the device half gives them");
    if (program_->emits_events()) teller_ = std::make_unique<exec::Teller>(program_, nullptr);
    buffer_.events = events_.data();
    buffer_.capacity = static_cast<uint32_t>(events_.size());
    buffer_.left = left_.data();
    buffer_.left_capacity = static_cast<uint32_t>(left_.size());
    pointers_.reserve(kMaxPackets);
}

FunctionHost::~FunctionHost() = default;

void FunctionHost::agree(const Terms& terms) {
    const nf::Type& type = *node().type;
    sees_ = {terms.sees};
    changes_ = {terms.changes};
    const Fields reads = half_ != nullptr ? type.cpu_reads : node().reads();
    const Fields writes = half_ != nullptr ? type.cpu_writes : node().writes();
    if (const Fields more = reads - sees_; !more.empty())
        throw std::runtime_error("'" + type.name + "' reads " + chain::field_names(more) +
                                 ", and the manager does not show it: its 'reads:' is what this tenant sees");
    if (const Fields more = writes - changes_; !more.empty())
        throw std::runtime_error("'" + type.name + "' writes " + chain::field_names(more) +
                                 ", and may not: the manager's 'writes:' is what this tenant may change");
    outcomes_.clear();
    for (const nf::Outcome& outcome : type.outcomes) {
        const auto found = std::find_if(std::begin(terms.outcomes), std::end(terms.outcomes),
                                        [&](const char(&one)[32]) { return outcome.name == one; });
        if (found == std::end(terms.outcomes))
            throw std::runtime_error("'" + type.name + "' has the outcome '" + outcome.name +
                                     "', and the manager's 'outcomes:' has none of that name");
        outcomes_.push_back(static_cast<uint32_t>(found - std::begin(terms.outcomes)));
    }
}

void FunctionHost::check_device_half() const {
    const nf::Type& type = *node().type;
    const std::string why = why_not_sent(type, node().nf->image(), stages_);
    if (!why.empty()) throw std::runtime_error(why);
    if (const Fields more = (type.reads - sees_) | (type.writes - changes_); !more.empty())
        throw std::runtime_error("its device half wants " + chain::field_names(more) +
                                 ", which the manager does not show it, or does not let it change");
}

// Several lanes wait for each other, which a fenced function's must not.
constexpr unsigned kHalfLanes = 1;

std::string FunctionHost::compile_half(const std::string& architecture) const {
    return device::cuda::Compiler().compile_ptx(device::cuda::fenced_unit(*node().type, kHalfLanes), architecture);
}

DeviceHalf FunctionHost::device_half(std::string ptx) const {
    const nf::Image& image = node().nf->image();
    DeviceHalf half;
    half.stages = stages_;
    half.function = device::cuda::function_name(*node().type, kHalfLanes, "process");
    half.ptx = std::move(ptx);
    for (const uint32_t outcome : outcomes_) half.to_terms.push_back(static_cast<uint8_t>(outcome));
    const auto bytes_of = [](const void* from, uint64_t count) {
        const auto* const begin = static_cast<const uint8_t*>(from);
        return std::vector<uint8_t>(begin, begin + count);
    };
    half.tables = bytes_of(image.tables(), image.tables_bytes());
    for (const nf::Image::Array& array : image.arrays())
        half.arrays.push_back({array.member_offset, bytes_of(array.data, array.bytes)});
    return half;
}

/// Makes frames of what the manager shows: all else in them is 0.
void FunctionHost::lay_out(const Member::Batch& batch) {
    size_t room = 0;
    for (uint32_t i = 0; i < batch.count; ++i) {
        about_[i] = batch.about(i);  // once: it is not this process's memory
        if (!lies_within(about_[i]) || packed_bytes(about_[i].length, about_[i].layers, sees_) > batch.shape.in_bytes ||
            packed_bytes(about_[i].length, about_[i].layers, changes_) > batch.shape.back_bytes)
            throw std::runtime_error("the manager asks about a packet that can't be");
        room += about_[i].length + kBetween;
    }
    if (frames_.size() < room) frames_.resize(room);
    pointers_.clear();
    uint8_t* frame = frames_.data();
    for (uint32_t i = 0; i < batch.count; ++i) {
        const About& about = about_[i];
        const uint32_t present = extent(about.length, about.layers, sees_);
        std::fill_n(frame, present, uint8_t{0});
        unpack(batch.in(i).data(), frame, about.length, about.layers, sees_);
        Packet& packet = packets_[i];
        packet = device::handle_at(frame, present, about, i);
        pointers_.push_back(&packet);
        frame += about.length + kBetween;
    }
}

void FunctionHost::listen_to_events() {
    if (teller_ == nullptr) return;
    for (Packet* const packet : pointers_) packet->set_events(&buffer_, 0);
}

void FunctionHost::run_before() {
    before_->before({pointers_.data(), pointers_.size()}, arguments_.data());
    for (size_t i = 0; i < pointers_.size(); ++i) set_argument(*pointers_[i], arguments_[i]);
}

void FunctionHost::run_half() {
    // Who has a stage after the device half tells events there.
    if (!stages_.after) listen_to_events();
    exec::run_function(node(), half_.get(), pointers_, decisions_.data());
}

void FunctionHost::run_after() {
    listen_to_events();
    // As on a GPU, from where they don't come back.
    for (Packet* const packet : pointers_) set_argument(*packet, 0);
    after_->after(pointers_, decisions_.data());
}

void FunctionHost::check(const Member::Batch& batch) const {
    const bool can_be = batch.stage == Stage::whole || (batch.stage == Stage::before && stages_.before) ||
                        (batch.stage == Stage::after && stages_.after);
    if (!can_be)
        throw std::runtime_error("the manager asks for a stage that '" + node().type->name + "' does not have");
}

void FunctionHost::answer(const Member::Batch& batch) {
    check(batch);
    lay_out(batch);
    if (batch.stage == Stage::after)
        for (uint32_t i = 0; i < batch.count; ++i) {
            decisions_[i] = batch.decision(i);
            if (decisions_[i].outcome >= outcomes_.size())
                throw std::runtime_error("the manager tells of an outcome that its device half can't have given");
        }
    {
        const Running running(node().name, program_->name);
        if (stages_.before && batch.stage != Stage::after) run_before();
        if (batch.stage == Stage::whole) run_half();
        if (stages_.after && batch.stage != Stage::before) run_after();
    }
    if (batch.stage == Stage::before) {
        for (uint32_t i = 0; i < batch.count; ++i) batch.argument(i) = arguments_[i];
        return;
    }
    write_decisions(batch);
    if (buffer_.count + buffer_.left_count > 0) tell();
    seen_ += batch.count;
}

/// Counts, too.
void FunctionHost::write_decisions(const Member::Batch& batch) {
    exec::NodeCounters& counters = *counters_->nodes.front();
    for (uint32_t i = 0; i < batch.count; ++i) {
        counters.bytes.add(about_[i].length);
        const uint32_t outcome = decisions_[i].outcome;
        const size_t known = std::min<size_t>(outcome, outcomes_.size());
        counters.by_outcome[known].add(1);
        batch.outcome(i) = known < outcomes_.size() ? outcomes_[known] : kUnknown;
        if (packets_[i].out_port() != kNoPort)
            throw std::runtime_error("'" + node().type->name +
                                     "' chooses the port that a packet leaves by, which a tenant's function can't");
        verdicts_[i] = {node().target(outcome), 0, kNoPort, decisions_[i]};
        if (!changes_.empty())
            pack(packets_[i].data(), about_[i].length, about_[i].layers, changes_, batch.back(i).data());
    }
    counters.packets.add(batch.count);
    counters_->batches.add(1);
}

void FunctionHost::tell() {
    const auto origin = [this](uint32_t i) { return exec::Origin{seen_ + i + 1, packets_[i].time_ns(), 0}; };
    const exec::EventPackets packets{verdicts_.data(), origin,
                                     [this](const LeftEvents& left) { return packets_[left.packet]; }};
    teller_->deliver({events_.data(), std::min(buffer_.count, buffer_.capacity)},
                     {left_.data(), std::min(buffer_.left_count, buffer_.left_capacity)}, *counters_, packets);
    buffer_.count = buffer_.left_count = 0;
    node().nf->events_told();
}

void FunctionHost::finish() { node().nf->flush(); }

}  // namespace millrace::tenancy
