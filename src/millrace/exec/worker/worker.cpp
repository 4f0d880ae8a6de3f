#include "millrace/exec/worker/worker.hpp"

#include <rte_cycles.h>

#include "millrace/chain/classification/classified.hpp"
#include "millrace/exec/runtime/runtime.hpp"

namespace millrace::exec {
namespace {

std::unique_ptr<Engine> make_cpu_engine(Delivery& delivery, const RuntimeOptions& options, EventLine& events,
                                        TimelineTrack* track) {
    CpuOptions cpu = options.cpu;
    cpu.track = track;
    cpu.events = &events;
    return std::make_unique<CpuEngine>(delivery, cpu);
}

uint32_t most_of_a_batch(const chain::Configuration& configuration) {
    uint32_t max_batch = 1;
    for (const auto& program : configuration.chains) max_batch = std::max(max_batch, program->max_batch);
    return max_batch;
}

}  // namespace

Worker::Worker(Runtime& runtime, unsigned index)
    : runtime_(runtime), index_(index),
      egress_(runtime.ports_, runtime.send_locks_, runtime.whole_packets_, index, runtime.options_.burst),
      events_(runtime.events_.add_line()), burst_(runtime.options_.burst), sleeper_(2 * runtime.ports_.size() + 1) {
    freed_.reserve(device::kMaxStages * nf::kCpuVector);
    take_generation();
    const auto device = runtime.devices_.empty() ? nullptr : runtime.devices_[index % runtime.devices_.size()];
    TimelineTrack* const track = runtime.timeline_ ? &runtime.timeline_->add_track(device ? device->describe() : "cpu")
                                                   : nullptr;
    offload_ = runtime.options_.offload;
    offload_.track = track;
    offload_.events = &events_;
    offload_.full_burst = runtime.options_.burst;
    offload_.frames = this;
    if (!runtime.call_threads_.empty())
        offload_.call_thread = runtime.call_threads_[index % runtime.call_threads_.size()];
    const auto make = [&](Delivery& delivery) -> std::unique_ptr<Engine> {
        if (device == nullptr) return make_cpu_engine(delivery, runtime.options_, events_, track);
        return std::make_unique<OffloadEngine>(device, delivery, most_of_a_batch(*configuration_), offload_);
    };
    if (runtime.options_.tenants != nullptr)
        tenants_ = runtime.options_.tenants->engine(*this, index, runtime.options_.pool_packets / 2);
    engine_ = runtime.options_.master ? runtime.options_.master->engine(*this, make, runtime.core(index)) : make(*this);
    make_chains_ready();
    follow_undivided();
}

Worker::~Worker() {
    all_undivided_.clear();
    engine_.reset();  // it may still deliver, and count
    tenants_.reset();
    egress_.queues().send_all();
    gate_.open([](uint16_t, std::span<rte_mbuf*> mbufs) {
        rte_pktmbuf_free_bulk(mbufs.data(), static_cast<unsigned>(mbufs.size()));
    });
    for (const auto& mbufs : passed_on_)
        for (rte_mbuf* mbuf : mbufs) rte_pktmbuf_free(mbuf);
}

uint64_t Worker::unclassified_packets() const {
    uint64_t packets = unclassified_.get();
    for (const ChainCounters* own : counters()) packets += own->unclassified.get();
    return packets;
}

std::vector<const ChainCounters*> Worker::counters() const {
    const std::lock_guard lock(counters_mutex_);
    std::vector<const ChainCounters*> result;
    for (const auto& counters : all_counters_) result.push_back(counters.get());
    return result;
}

bool Worker::advance() {
    if (runtime_.generation_.load(std::memory_order_acquire) != configuration_->generation) {
        // Packets between chains would meet another generation's chains.
        submit_passed_on();
        take_generation();
    }
    const bool stopping = runtime_.stopping_.load(std::memory_order_relaxed);
    if (iterate() > 0) {
        sleeper_.busy();
        return true;
    }
    if (fragments_held() > 0) age_fragments();
    begin_rest();
    if (in_flight() > 0 || egress_.queues().unsent() > 0 || !(stopping || inputs_exhausted())) {
        wait();
        return true;
    }
    drop_fragments();
    finish_all();
    // Nobody is to wait for it to take another generation.
    taken_generation_.store(UINT64_MAX, std::memory_order_release);
    return false;
}

/// Waits for all that is under way.
void Worker::finish_all() {
    // What one engine has done with may be for the other.
    do {
        engine_->drain();
        if (tenants_ != nullptr) tenants_->drain();
        for (const auto& [name, own] : all_undivided_) own->poll();
        go_over_undivided();
        submit_passed_on();
    } while (in_flight() > 0);
    do egress_.queues().send_all();
    while (egress_.queues().unsent() > 0);
}

size_t Worker::iterate() {
    // What has come in goes on first: a port that takes nothing now, or alerts that wait to be written, hold up what
    // would come in, and nothing else.
    const bool behind = egress_.queues().unsent() >= burst_.size() || events_.crowded();
    if (!all_undivided_.empty()) go_over_undivided();
    if (gate_.held() > 0) open_gate();
    const size_t received = behind || runtime_.stopping_.load(std::memory_order_relaxed) ? 0 : receive_all();
    if (index_ == 0) take_injected();
    engine_->poll();
    if (tenants_ != nullptr) tenants_->poll();
    for (const auto& [name, own] : all_undivided_) own->poll();
    submit_passed_on();
    egress_.queues().send_all();
    return received;
}

bool Worker::receives_of(const io::Port& port) const {
    return index_ < port.info().receive_queues && configuration_->classification.uses_port(port.index());
}

size_t Worker::receive_all() {
    size_t total = 0;
    const bool queues = !engine_->runs_at_once();
    for (const auto& port : runtime_.ports_) {
        if (!receives_of(*port)) continue;
        if (gate_.watches(port->index())) {
            total += receive_by_gate(*port);
            continue;
        }
        const uint64_t from = rte_rdtsc();
        // What no single chain is for has to be looked into first, on the device if it can.
        const Taker taker = taker_of(port->index());
        if (taker.engine != nullptr && taker.engine->takes_blocks() && port->receives_blocks()) {
            const size_t count = receive_block(*port);
            if (count > 0) receive_cycles_.add(rte_rdtsc() - from);
            total += count;
            continue;
        }
        const auto most = static_cast<uint16_t>(burst_.size());
        io::BurstNotes notes;
        const bool noted = taker.engine != nullptr && taker.engine->takes_notes();
        const uint16_t count = noted ? port->receive_noted(static_cast<uint16_t>(index_), burst_.data(), most, notes)
                                     : port->receive(static_cast<uint16_t>(index_), burst_.data(), most);
        if (count == 0) continue;
        end_rest();
        // An engine that runs chains at once does so within `classify`: that is the network functions' time.
        if (!queues) receive_cycles_.add(rte_rdtsc() - from);
        if (noted) submit_noted(port->index(), count, notes);
        else classify(port->index(), burst_.data(), count);
        if (queues) receive_cycles_.add(rte_rdtsc() - from);
        total += count;
    }
    return total;
}

/// Of a port that has a taker, as it is behind a rest that ends here: it is one of the same chain.
void Worker::submit_noted(uint16_t port, uint16_t count, const io::BurstNotes& notes) {
    const Taker taker = taker_of(port);
    taker.engine->submit(*taker.program, *taker.counters, burst_.data(), count, notes);
}

size_t Worker::receive_block(io::Port& port) {
    const io::ReceiveBlock block = port.receive_block(static_cast<uint16_t>(index_), kMaxBlockFrames);
    if (block.count == 0) return 0;
    end_rest();
    const Taker taker = taker_of(port.index());
    taker.engine->submit(*taker.program, *taker.counters, block);
    return block.count;
}

void Worker::classify(uint16_t port, rte_mbuf** mbufs, uint16_t count) {
    const uint16_t chain = configuration_->classification.chain_of_port(port);
    if (chain != chain::kNoChain) {
        submit(chain, mbufs, count);
        return;
    }
    if (classified_counters_ != nullptr)
        return engine_->submit(configuration_->classified, *classified_counters_, mbufs, count);
    for (uint16_t i = 0; i < count; ++i) {
        Packet packet;
        attach_mbuf(packet, mbufs[i]);
        packet.parse();
        const uint16_t own = configuration_->classification.chain_of(packet);
        if (own == chain::kNoChain) {
            unclassified_.add(1);
            rte_pktmbuf_free(mbufs[i]);
        } else {
            if (classified_[own].mbufs.empty()) chains_of_burst_.push_back(own);
            classified_[own].mbufs.push_back(mbufs[i]);
        }
    }
    for (const uint16_t own : chains_of_burst_) {
        submit(own, classified_[own].mbufs.data(), classified_[own].mbufs.size());
        classified_[own].mbufs.clear();
    }
    chains_of_burst_.clear();
}

void Worker::submit(uint16_t chain, rte_mbuf* const* mbufs, size_t count) {
    if (reassemblers_[chain] != nullptr) return submit_whole(chain, {mbufs, count});
    const auto& program = configuration_->chains[chain];
    Undivided* const own = undivided_[chain];
    switch (own != nullptr ? own->way() : Undivided::Way::parts) {
        case Undivided::Way::parts: return engine_of(*program).submit(program, *chain_counters_[chain], mbufs, count);
        case Undivided::Way::whole: return own->engine().submit(own->program(), own->counters(), mbufs, count);
        case Undivided::Way::held: return own->hold(*chain_counters_[chain], {mbufs, count});
    }
}

/// Packets that came by no port; few, so one at a time.
void Worker::take_injected() {
    constexpr unsigned kMax = 32;  // an iteration: ports come first
    Injection injection;
    for (unsigned i = 0; i < kMax && runtime_.injections_.take(injection); ++i) {
        end_rest();
        rte_mbuf* packet = injection.packet;
        if (injection.chain >= configuration_->chains.size()) {  // the configuration has changed meanwhile
            stray_injections_.add(1);
            rte_pktmbuf_free(packet);
            continue;
        }
        ChainCounters& counters = *chain_counters_[injection.chain];
        if (injection.out_port == kNoPort) {
            counters.submitted.add(1);
            submit(injection.chain, &packet, 1);
            continue;
        }
        counters.injected.add(1);
        const Verdict verdict{{chain::Target::Kind::output, 0}, kNoNode, injection.out_port, {}};
        deliver(*configuration_->chains[injection.chain], counters, &packet, &verdict, 1);
    }
}

void Worker::pass_on(uint16_t chain, std::span<rte_mbuf* const> mbufs) {
    std::vector<rte_mbuf*>& next = passed_on_[chain];
    if (next.empty()) chains_passed_to_.push_back(chain);
    next.insert(next.end(), mbufs.begin(), mbufs.end());
}

void Worker::submit_passed_on() {
    // Chains lead to each other without circles, so this ends. The list gets more underway.
    while (!chains_passed_to_.empty()) {
        const uint16_t chain = chains_passed_to_.front();
        chains_passed_to_.erase(chains_passed_to_.begin());
        passing_.swap(passed_on_[chain]);
        submit(chain, passing_.data(), passing_.size());
        passing_.clear();
    }
}

bool Worker::inputs_exhausted() const {
    for (const auto& port : runtime_.ports_) {
        if (!receives_of(*port)) continue;
        if (!port->exhausted()) return false;
    }
    return true;
}

void Worker::deliver_alike(const chain::Program& program, ChainCounters& counters, std::span<rte_mbuf* const> mbufs,
                           const Verdict& verdict, const device::PacketResult*) {
    if (program.classifier == nullptr) {
        deliver_run(program, counters, mbufs, &verdict);
    } else {
        const uint16_t chain = chain_of(program, verdict);
        const Verdict own = verdict_in_chain(program, verdict);
        deliver_run(*program.parts[chain].chain, counters.of_chain(chain), mbufs, &own);
    }
    finish_delivery();
}

bool Worker::wants_visits() const { return runtime_.verdicts_ != nullptr; }

void Worker::visits(const chain::Program& program, rte_mbuf* mbuf, std::span<const Visit> visits,
                    const Verdict& verdict) {
    if (program.classifier == nullptr) return runtime_.verdicts_->write(program, *mbuf, visits, verdict);
    const uint16_t chain = chain_of(program, verdict);
    if (chain == chain::kNoChain) return;
    visits_in_chain_.assign(visits.begin(), visits.end());
    for (Visit& visit : visits_in_chain_) visit.node = program.parts[chain].node_of_chain(visit.node);
    runtime_.verdicts_->write(*program.parts[chain].chain, *mbuf, visits_in_chain_, verdict_in_chain(program, verdict));
}

}  // namespace millrace::exec
