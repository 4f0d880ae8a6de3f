// One core's share of the work: receive, classify, run, send.
#pragma once

#include <map>
#include <memory>
#include <mutex>
#include <vector>

#include "millrace/chain/configuration.hpp"
#include "millrace/chain/tenants/parts.hpp"
#include "millrace/exec/cpu/event_line.hpp"
#include "millrace/exec/egress/egress.hpp"
#include "millrace/exec/engine.hpp"
#include "millrace/exec/fragments/reassembler.hpp"
#include "millrace/exec/worker/control_gate.hpp"
#include "millrace/exec/worker/sleeper.hpp"
#include "millrace/exec/worker/undivided.hpp"
#include "millrace/io/port.hpp"

namespace millrace::exec {

class Runtime;

class Worker : public Delivery, private FrameDelivery {
public:
    Worker(Runtime& runtime, unsigned index);
    ~Worker() override;

    /// One round of work until the inputs are exhausted or the runtime stops; false when all has been sent and there
    /// will be no more. Always on the same thread.
    bool advance();
    /// What a round does with packets: receives a burst from every port, runs what is ready, sends what is done.
    /// Returns how many packets came in. For those who bring a loop of their own, such as benchmarks.
    size_t iterate();

    /// The counters of every chain that this worker has run, for any thread.
    std::vector<const ChainCounters*> counters() const;
    /// Packets that no chain was for.
    uint64_t unclassified_packets() const;
    /// Packets that others put in for a chain that has gone meanwhile.
    uint64_t stray_injections() const { return stray_injections_.get(); }
    /// TSC cycles that it took to receive packets from ports and put them in chains' queues, where the engine has such;
    /// looks that found none are not counted.
    uint64_t receive_cycles() const { return receive_cycles_.get(); }
    unsigned index() const { return index_; }
    /// Has it look at once for what the runtime wants of it. Any thread.
    void wake() { sleeper_.wake(); }
    std::string engine_text() const { return engine_->describe(); }
    /// The latest generation that it works by; above all of them once it has ended.
    uint64_t generation() const { return taken_generation_.load(std::memory_order_acquire); }
    /// It holds no packet, and will work by the newest generation of the same chains before it touches one, whenever it
    /// gets to run. Asked behind the store of that generation.
    bool at_rest() const { return at_rest_.load(std::memory_order_seq_cst); }

    void deliver(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                 const Verdict* verdicts, size_t count) override;
    void deliver_alike(const chain::Program& program, ChainCounters& counters, std::span<rte_mbuf* const> mbufs,
                       const Verdict& verdict, const device::PacketResult* results) override;
    bool wants_visits() const override;
    void visits(const chain::Program& program, rte_mbuf* mbuf, std::span<const Visit> visits,
                const Verdict& verdict) override;

private:
    friend class Runtime;
    /// Packets of one chain, of a burst that is for several.
    struct Classified {
        std::vector<rte_mbuf*> mbufs;
        std::vector<Verdict> verdicts;  ///< of those that have gone through
    };
    void take_generation();
    ChainCounters& counters_for_classified(const chain::Program& program);
    static Verdict verdict_in_chain(const chain::Program& program, const Verdict& verdict);
    void deliver_classified(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                            const Verdict* verdicts, size_t count);
    ChainCounters& counters_for(const chain::Program& program);
    size_t receive_all();
    void classify(uint16_t port, rte_mbuf** mbufs, uint16_t count);
    void submit(uint16_t chain, rte_mbuf* const* mbufs, size_t count);
    void submit_whole(uint16_t chain, std::span<rte_mbuf* const> mbufs);
    void keep_reassemblers();
    size_t fragments_held() const;
    void age_fragments();
    void drop_fragments();
    void ask_for_uncut();
    void pass_on(uint16_t chain, std::span<rte_mbuf* const> mbufs);
    void submit_passed_on();
    /// An engine that takes packets as they come.
    struct Taker {
        Engine* engine = nullptr;  ///< null: they have to be looked at first
        const std::shared_ptr<const chain::Program>* program = nullptr;
        ChainCounters* counters = nullptr;
    };
    Taker taker_of(uint16_t port);
    size_t receive_by_gate(io::Port& port);
    void follow_control();
    void open_gate();
    bool all_at_work() const;
    void submit_noted(uint16_t port, uint16_t count, const io::BurstNotes& notes);
    size_t receive_block(io::Port& port);
    void follow_undivided();
    void go_over_undivided();
    size_t in_parts(const std::string& whole) const;
    FrameWay way_of(const chain::Program& program, const Verdict& verdict) const override;
    size_t port_count() const override;
    size_t send_frames(uint16_t port, const io::ReceiveBlock& block, std::span<const io::FramePieces> frames) override;
    void hold_frames(uint16_t port, const io::ReceiveBlock& block, std::span<const io::FramePieces> frames,
                     ChainCounters& sender) override;
    void deliver_frames(const chain::Program& program, ChainCounters& counters, const io::ReceiveBlock& block,
                        std::span<const io::FramePieces> frames, const Verdict& verdict,
                        const device::PacketResult* results) override;
    void give_back(const io::ReceiveBlock& block) override;
    rte_mbuf* copy_of(const io::ReceiveBlock& block, const io::FramePieces& frame) override;
    uint16_t output_of(const chain::Program& program, const Verdict& verdict) const;
    void finish_delivery();
    void deliver_run(const chain::Program& program, ChainCounters& counters, std::span<rte_mbuf* const> mbufs,
                     const Verdict* verdicts);
    void send_by_all(const chain::Program& program, ChainCounters& counters, std::span<rte_mbuf* const> mbufs,
                     uint16_t set);
    void punt_run(const chain::Program& program, ChainCounters& counters, std::span<rte_mbuf* const> mbufs);
    void punt(ChainCounters& counters, rte_mbuf* mbuf, nf::PuntTaker& taker, const Decision& decision);
    void punt_copy(const chain::Program& program, ChainCounters& counters, rte_mbuf* mbuf, const Verdict& verdict);
    void take_injected();
    void keep_room();
    void make_chains_ready();
    Engine& engine_of(const chain::Program& program) { return program.is_tenants ? *tenants_ : *engine_; }
    size_t in_flight() const;
    void finish_all();
    void begin_rest();
    void end_rest();
    bool inputs_exhausted() const;
    bool receives_of(const io::Port& port) const;
    bool has_work() const;
    void wait();
    void sleep();

    Runtime& runtime_;
    const unsigned index_;
    std::shared_ptr<const chain::Configuration> configuration_;
    std::atomic<bool> at_rest_{false};
    bool rests_ = false;  // the same, for the worker's own thread
    std::atomic<uint64_t> taken_generation_{0};
    OffloadOptions offload_;  // of its engines
    std::unique_ptr<Engine> engine_;
    std::unique_ptr<Engine> tenants_;                                  // runs tenants' functions; null: there are none
    std::map<std::string, std::unique_ptr<Undivided>> all_undivided_;  // by chain
    std::vector<Undivided*> undivided_;                                // by chain; null: it has nothing but parts
    std::vector<rte_mbuf*> released_;                                  // by one of them
    std::vector<ChainCounters*> chain_counters_;                       // of the present generation, by chain
    ChainCounters* classified_counters_ = nullptr;  // of its program that classifies packets, where the engine runs it
    mutable std::mutex counters_mutex_;
    std::vector<std::unique_ptr<ChainCounters>> all_counters_;
    Counter unclassified_, stray_injections_, receive_cycles_;
    std::vector<std::vector<rte_mbuf*>> passed_on_;           // by chain
    std::vector<uint16_t> chains_passed_to_;                  // that have some there, in order of their first packet
    std::vector<rte_mbuf*> passing_;                          // those of one chain, while it takes them in
    std::vector<Classified> classified_;                      // by chain, of one burst
    std::vector<uint16_t> chains_of_burst_;                   // that have some there, in order of their first packet
    std::vector<Visit> visits_in_chain_;                      // of a packet
    Egress egress_;                                           // counts in the chains' counters to its end
    std::vector<std::unique_ptr<Reassembler>> reassemblers_;  // by chain; null: it takes fragments as they are
    std::vector<rte_mbuf*> whole_;                            // of one burst
    ControlGate gate_;
    uint64_t last_receive_ = 0;  // of such a chain, or when that was last looked at (TSC)
    EventLine& events_;
    std::vector<rte_mbuf*> burst_;
    std::vector<rte_mbuf*> freed_;
    Sleeper sleeper_;
};

}  // namespace millrace::exec
