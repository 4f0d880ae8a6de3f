// The cpu device: run to completion on the worker's own core, in place, in vectors of 256 packets.
#pragma once

#include <map>
#include <vector>

#include "millrace/exec/cpu/teller.hpp"
#include "millrace/exec/engine.hpp"
#include "millrace/exec/report/timeline.hpp"
#include "millrace/io/metadata.hpp"

namespace millrace::exec {

/// How the cpu device runs NFs.
struct CpuOptions {
    bool use_cpu_halves = true;      ///< else the device halves, with the lanes that each node names
    TimelineTrack* track = nullptr;  ///< what happens when is told there; null: nowhere
    EventLine* events = nullptr;     ///< the worker's; null: events are told at once
};

class CpuEngine : public Engine {
public:
    CpuEngine(Delivery& delivery, CpuOptions options = {});
    ~CpuEngine() override;

    void submit(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                size_t count) override;
    /// Runs at most nf::kCpuVector packets through a chain and says what became of them, in place of
    /// delivering them: for engines that hand packets to the CPU. Counts everything but their arrival.
    void decide(const std::shared_ptr<const chain::Program>& program, ChainCounters& counters, rte_mbuf* const* mbufs,
                size_t count, Verdict* verdicts);
    /// Makes what it needs to run that generation of a chain, before packets come.
    void prepare(const std::shared_ptr<const chain::Program>& program) { halves_for(program); }
    bool runs_at_once() const override { return true; }
    void poll() override {}
    size_t in_flight() const override { return 0; }
    void drain() override {}
    std::string describe() const override { return "cpu, run to completion"; }

private:
    struct Halves;
    /// The packets that one node has to decide on stand in `active_`.
    struct Active {
        size_t count = 0;
        uint64_t bytes = 0;
        size_t elsewhere = 0;  ///< packets that wait for later nodes
    };
    void pass_through(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs, size_t count);
    void run_vector(const chain::Program& program, ChainCounters& counters, Halves& halves, rte_mbuf* const* mbufs,
                    size_t count);
    Active route(const chain::Program& program, size_t index, ChainCounters& counters, rte_mbuf* const* mbufs,
                 const Active& active);
    void leave(const Packet& packet, rte_mbuf* const* mbufs, chain::Target target, uint16_t node,
               const Decision& decision);
    Active gather(size_t index, size_t count, const Active& from_before);
    Active parse(const chain::Program& program, ChainCounters& counters, rte_mbuf* const* mbufs, size_t count,
                 bool reads_time);
    void run_node(const chain::Program& program, size_t index, Halves& halves, size_t active);
    void report_events(Halves& halves, ChainCounters& counters, rte_mbuf* const* mbufs, size_t active);
    Halves& halves_for(const std::shared_ptr<const chain::Program>& program);

    Delivery& delivery_;
    const CpuOptions options_;
    // The CPU halves of the generation that this worker runs now, by chain.
    std::map<std::string, std::unique_ptr<Halves>> halves_;
    Halves* last_halves_ = nullptr;  // of the last vector
    std::vector<Packet> packets_;
    std::vector<Verdict> verdicts_;
    std::vector<uint16_t> at_;  // by packet that has left active_: the node that it waits for
    std::vector<Packet*> active_;
    std::vector<Decision> decisions_;
    std::vector<Event> event_storage_;
    std::vector<LeftEvents> left_storage_;
    EventBuffer events_;
    std::vector<std::vector<Visit>> visits_;
    const std::string *parsing_name_, *vector_name_;  // for the timeline
};

/// Time-stamp counter cycles as nanoseconds. EAL must run.
uint64_t to_nanoseconds(uint64_t cycles);

inline Origin origin_of(const rte_mbuf* mbuf) {
    return {io::packet_number(mbuf), io::packet_timestamp_ns(mbuf), mbuf->port};
}

}  // namespace millrace::exec
