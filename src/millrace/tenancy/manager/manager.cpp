#include "millrace/tenancy/manager/manager.hpp"

#include <fmt/format.h>
#include <poll.h>
#include <sys/eventfd.h>
#include <unistd.h>

#include <algorithm>

#include "millrace/isolation/report.hpp"
#include "millrace/tenancy/exchange/fields.hpp"
#include "millrace/tenancy/manager/engine.hpp"
#include "millrace/tenancy/manager/in_chain.hpp"

namespace millrace::tenancy {
namespace {

/// Of a packet whose payload a tenant sees: a jumbo frame's.
constexpr uint32_t kMaxPayload = 9216;

constexpr const char* kWords[] = {"",
                                  "its process has ended",
                                  "it did not answer in time",
                                  "it answered by an outcome that it does not have",
                                  "it sent what nobody asked for",
                                  "the configuration has other terms for it",
                                  "its promise has no room"};

/// Whether a tenant that was let in by `before` has agreed on what the configuration says now.
bool agreed_on(const Expected& before, const Expected& now) {
    return now.shape == before.shape && now.terms == before.terms && now.user == before.user &&
           now.architecture == before.architecture && now.confined == before.confined;
}

exec::TenantReport::Times times_of(const Past::Times& counts) {
    return {Histogram::percentile(counts, 50), Histogram::percentile(counts, 99)};
}

}  // namespace

Terms terms_of(const chain::TenantFunction& function) {
    Terms terms;
    terms.sees = (function.sees() | function.changes()).bits;
    terms.changes = function.changes().bits;
    for (uint32_t i = 0; i < function.outcomes(); ++i)
        function.type().outcomes[i].name.copy(terms.outcomes[i], sizeof terms.outcomes[i] - 1);
    return terms;
}

Shape shape_of(const chain::TenantFunction& function, unsigned lanes, const Location& where) {
    Shape shape;
    shape.in_bytes = most_bytes(function.sees() | function.changes(), kMaxPayload);
    shape.back_bytes = most_bytes(function.changes(), kMaxPayload);
    shape.outcomes = function.outcomes();
    shape.lanes = lanes;
    const uint64_t all = function.memory_bytes(), of_packet = shape.in_bytes + shape.back_bytes;
    shape.packets = 0;
    const uint64_t fixed = all_question_bytes(shape) + all_answer_bytes(shape) + 128 * kSlots * lanes;
    const uint64_t of_all = kSlots * lanes * std::max<uint64_t>(of_packet, 1);
    shape.packets = static_cast<uint32_t>(std::min<uint64_t>(kMaxPackets, all > fixed ? (all - fixed) / of_all : 0));
    if (shape.packets == 0)
        throw ConfigError(Diagnostic{
            where,
            "the memory of '" + function.tenant().name + "' has no room for " + std::to_string(kSlots) +
                " packets of each worker",
            "give it more by 'memory:', " + std::to_string(fixed + of_all * 32) + " bytes, say, or fewer fields"});
    return shape;
}

Manager::Manager(unsigned workers, std::shared_ptr<const schedule::Profile> profile, Placer::Measure measure)
    : workers_(workers), profile_(std::move(profile)), measure_(std::move(measure)),
      called_(eventfd(0, EFD_CLOEXEC | EFD_NONBLOCK)), thread_([this] { listen(); }) {}

Manager::~Manager() {
    stopping_ = true;
    eventfd_write(called_.get(), 1);
    thread_.join();
    // Nobody asks about anything any more.
    for (const auto& [name, seat] : seats_) seat->clear();
}

void Manager::run_on(std::shared_ptr<device::Device> device) {
    const std::lock_guard lock(mutex_);
    if (device->ptx_architecture().empty()) return;
    placer_ = std::make_unique<Placer>(
        std::move(device),
        Placer::Calls{.admit = [this](Attachment& attachment,
                                      const ConfinedFunction& function) { return admit(attachment, function); },
                      .chains = [this] { return chains_in_one_piece(); },
                      .tell =
                          [this](const std::string& message, const std::string& hint) {
                              const std::lock_guard lock(mutex_);
                              tell(message, hint);
                          }},
        measure_);
}

std::unique_ptr<exec::Engine> Manager::engine(exec::Delivery& delivery, unsigned worker, size_t most_packets) {
    const std::lock_guard lock(mutex_);
    return std::make_unique<TenantEngine>(*this, delivery, worker, most_packets / std::max<size_t>(known_.size(), 1));
}

std::unique_ptr<exec::ChainTenants> Manager::in_chain(std::shared_ptr<const chain::Program> undivided,
                                                      unsigned worker) {
    if (placer_ == nullptr) return nullptr;
    return std::make_unique<SeatsOfChain>(*this, *placer_, std::move(undivided), worker);
}

Seat& Manager::seat(const std::string& name) {
    const std::lock_guard lock(mutex_);
    auto& own = seats_[name];
    if (own == nullptr) own = std::make_unique<Seat>(name);
    return *own;
}

void Manager::follow(const chain::Configuration& configuration) {
    std::map<std::string, Known> known;
    std::map<std::string, std::map<std::string, Expected>> wanted;  // by path
    for (const auto& program : configuration.chains) {
        if (!program->is_tenants) continue;
        const chain::Node& node = program->nodes.front();
        const chain::TenantFunction& function = *chain::tenant_of(node);
        Expected expected{function.tenant().user, shape_of(function, workers_, node.where), terms_of(function), {}};
        expected.patience.answer = function.patience();
        expected.confined.sees = function.sees() | function.changes();
        expected.confined.changes = function.changes();
        expected.confined.shape = expected.shape;
        expected.confined.memory_bytes = function.memory_bytes();
        expected.confined.isolation = function.isolation();
        // Whether its chain is in one piece may change while it is attached.
        expected.confined.chain_packets = chain::kMaxUndividedBatch;
        if (placer_ != nullptr && function.may_run_on_gpu())
            expected.architecture = placer_->device().ptx_architecture();
        wanted[function.tenant().socket][function.tenant().name] = expected;
        known[function.tenant().name] = {expected, program->whole, function.tenant().socket};
        seat(function.tenant().name);
    }
    const std::lock_guard lock(mutex_);
    undivided_.clear();
    for (const auto& program : configuration.chains)
        if (program->undivided != nullptr) undivided_.push_back(program->undivided);
    open_doors(std::move(wanted));
    reporter_ = configuration.reporter;
    for (const auto& [name, seat] : seats_) {
        const auto attachment = seat->current();
        if (attachment == nullptr) continue;
        const auto before = known_.find(name), now = known.find(name);
        if (before == known_.end() || now == known.end() || !agreed_on(before->second.expected, now->second.expected))
            attachment->part(Parting::changed);
    }
    known_ = std::move(known);
    demand_ = demand_of(configuration, profile_.get(), workers_);
    ++changes_;
    eventfd_write(called_.get(), 1);
}

void Manager::open_doors(std::map<std::string, std::map<std::string, Expected>> wanted) {
    for (const auto& [path, expected] : wanted) {
        const auto own = doors_.find(path);
        if (own != doors_.end()) continue;
        // Others than this process's user can't connect to what is its alone; the door says who may be whom.
        const bool is_ours = std::all_of(expected.begin(), expected.end(),
                                         [](const auto& one) { return one.second.user == geteuid(); });
        try {
            doors_[path] = std::make_unique<Door>(path, expected, is_ours ? 0600 : 0666);
        } catch (const std::runtime_error& e) {
            throw ConfigError(Diagnostic{{}, "tenants can't attach at " + std::string(e.what()), ""});
        }
    }
    std::erase_if(doors_, [&](const auto& door) { return !wanted.contains(door.first); });
    for (auto& [path, expected] : wanted) doors_[path]->expect(std::move(expected));
}

void Manager::listen() {
    std::vector<pollfd> waiting;
    while (!stopping_) {
        bool soon = false;
        eventfd_t called = 0;
        eventfd_read(called_.get(), &called);
        waiting.assign(1, {called_.get(), POLLIN, 0});
        {
            const std::lock_guard lock(mutex_);
            let_in();
            let_go();
            for (const auto& [path, door] : doors_) {
                waiting.push_back({door->socket(), POLLIN, 0});
                soon = soon || door->has_guests();
            }
            for (const auto& [name, seat] : seats_)
                if (const auto attachment = seat->current()) waiting.push_back({attachment->socket(), POLLIN, 0});
        }
        // What workers find out about a tenant wakes nobody: it is looked for, where there are any.
        poll(waiting.data(), waiting.size(), waiting.size() == 1 ? -1 : soon ? 1 : 20);
    }
}

/// With the lock.
void Manager::let_in() {
    const auto is_there = [this](const std::string& name) { return this->is_there(name); };
    const auto why_not = [this](const std::string& name, pid_t process) { return no_room_for(name, process); };
    for (const auto& [path, door] : doors_)
        for (std::unique_ptr<Attachment>& attachment : door->let_in(Door::Clock::now(), is_there, why_not)) {
            const auto seat = seats_.find(attachment->name());
            if (seat == seats_.end()) continue;
            seat->second->seat(std::move(attachment));
        }
}

bool Manager::is_there(const std::string& name) {
    const auto seat = seats_.find(name);
    if (seat == seats_.end()) return false;
    // One whose process is gone makes way for the next at once.
    if (const auto attachment = seat->second->current()) attachment->listen();
    let_go();
    return seat->second->current() != nullptr;
}

/// With the lock.
void Manager::let_go() {
    for (const auto& [name, seat] : seats_) {
        const auto attachment = seat->current();
        if (attachment == nullptr) continue;
        attachment->listen();
        take_offer(name, attachment);
        const Parting why = attachment->parting();
        if (why == Parting::none) continue;
        const std::string words = why == Parting::refused ? refused_[name].why : kWords[static_cast<size_t>(why)];
        attachment->tell(Notice::Kind::parted, words);
        // What it does there again holds up others: kernels are loaded, and its own take long. A stage on the CPU does
        // not.
        if ((why == Parting::wrong || why == Parting::late) && attachment->confined() != nullptr &&
            !attachment->confined()->stages().any())
            keep_off(name);
        seat->clear();
        ++changes_;
        if (why != Parting::changed && why != Parting::refused)
            tell(fmt::format("tenant '{}' (user {}, process {}) is detached: {}", name, attachment->user(),
                             attachment->process(), words),
                 "'millrace show tenants' counts what it does");
    }
}

/// With the lock.
void Manager::keep_off(const std::string& name) {
    constexpr std::chrono::seconds kFirst{5}, kMax{300}, kForgotten{300};
    KeptOff& own = kept_off_[name];
    const auto now = Placer::Clock::now();
    const bool is_first = own.pause.count() == 0 || now - own.until > kForgotten;
    own.pause = is_first ? kFirst : std::min(2 * own.pause, kMax);
    own.until = now + own.pause;
}

/// With the lock.
void Manager::take_offer(const std::string& name, const std::shared_ptr<Attachment>& attachment) {
    auto memory = attachment->take_offer();
    const auto known = known_.find(name);
    if (memory == nullptr || known == known_.end()) return;
    const Expected& expected = known->second.expected;
    if (expected.architecture.empty())
        attachment->tell(Notice::Kind::kept, "no GPU of this run takes a device half of this tenant");
    else {
        const auto not_before = kept_off_[name].until;
        const auto left = std::chrono::ceil<std::chrono::seconds>(not_before - Placer::Clock::now());
        if (left.count() > 0)
            attachment->tell(Notice::Kind::later,
                             fmt::format("it was detached for what it did there; again in {} s", left.count()));
        placer_->put(attachment, std::move(memory), expected.confined, not_before);
    }
}

void Manager::tell(const std::string& message, const std::string& hint) const {
    reporter_({{}, message, hint, Diagnostic::Severity::warning});
}

chain::TenantsOnDevice Manager::on_device() const {
    const std::lock_guard lock(mutex_);
    return those_on_device();
}

std::vector<exec::TenantReport> Manager::report() const {
    std::vector<exec::TenantReport> all;
    const std::lock_guard lock(mutex_);
    for (const auto& [name, seat] : seats_) {
        const Seat::State state = seat->state();
        exec::TenantReport& own = all.emplace_back();
        own.name = name;
        if (const auto known = known_.find(name); known != known_.end()) {
            own.chain = known->second.chain;
            own.user = known->second.expected.user;
        }
        own.attached = state.attached;
        own.state = state.attached == 0 ? "away" : name_of(state.last);
        Past sum = state.past;
        if (state.current != nullptr) {
            own.state = "attached";
            own.process = static_cast<uint64_t>(state.current->process());
            sum.add(*state.current);
            if (const ConfinedFunction* const confined = state.current->confined()) {
                own.runs_on = std::string("GPU, ") + isolation::name_of(confined->isolation());
                own.instructions = confined->instructions();
                own.fence_instructions = confined->added();
            }
        }
        own.batches = sum.batches;
        own.gpu_batches = sum.on_device;
        own.chain_batches = sum.in_chain;
        own.stages = {{"before", times_of(sum.before_ns)},
                      {"device", times_of(sum.device_ns)},
                      {"after", times_of(sum.after_ns)}};
        std::erase_if(own.stages, [](const auto& stage) { return stage.second.p99_ns == 0; });
        own.stages_beside = sum.beside;
        own.answer_p50_ns = Histogram::percentile(sum.answer_ns, 50);
        own.answer_p99_ns = Histogram::percentile(sum.answer_ns, 99);
        own.misdeeds = {{"late", sum.late}, {"wrong", sum.wrong}, {"unasked", sum.unasked}};
        own.misdeeds["gone"] = state.partings[static_cast<size_t>(Parting::gone)];
        std::erase_if(own.misdeeds, [](const auto& one) { return one.second == 0; });
        uint64_t absent = 0;
        // Before what was taken, which is counted first: no more is answered than was taken.
        for (const auto& counters : state.counters) {
            own.answered += counters->answered.get();
            for (size_t i = 0; i < kAbsentReasons; ++i)
                if (const uint64_t packets = counters->absent[i].get(); packets > 0) {
                    own.absent[chain::kAbsentForNames[i]] += packets;
                    absent += packets;
                }
        }
        for (const auto& counters : state.counters) own.packets += counters->taken.get();
        own.in_flight = own.packets - own.answered - absent;
    }
    return all;
}

}  // namespace millrace::tenancy
