// A configuration at work: its ports, its workers, and the change from one generation to the next.
#pragma once

#include <atomic>
#include <condition_variable>
#include <exception>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "millrace/base/queue.hpp"
#include "millrace/base/spin_lock.hpp"
#include "millrace/chain/configuration.hpp"
#include "millrace/exec/fragments/reassembler.hpp"
#include "millrace/exec/runtime/device_states.hpp"
#include "millrace/exec/runtime/injection.hpp"
#include "millrace/exec/offload/offload_engine.hpp"
#include "millrace/exec/report/verdict_log.hpp"
#include "millrace/exec/tenants.hpp"
#include "millrace/io/port.hpp"
#include "millrace/io/stand_ins.hpp"

namespace millrace::exec {

class Worker;

/// One thread that receives and sends for all workers, which do nothing but run chains.
struct Master {
    /// Makes an engine that delivers to a thing of its own.
    using MakeEngine = std::function<std::unique_ptr<Engine>(Delivery&)>;
    /// The engine of a worker as the master sees it: one that has the worker's run on a thread of its own, on a core if
    /// there is one. It delivers on the master's thread.
    std::function<std::unique_ptr<Engine>(Delivery&, const MakeEngine&, std::optional<unsigned> core)> engine;
};

struct RuntimeOptions {
    unsigned workers = 0;          ///< at least one for each device; 0: as many
    std::vector<unsigned> cores;   ///< worker i runs on cores[i], a master behind the last; not pinned where there is
                                   ///< none
    std::optional<Master> master;  ///< none: each worker receives, runs and sends on its own core
    uint16_t burst = 256;          ///< packets asked of a port at once
    CpuOptions cpu;
    OffloadOptions offload;
    std::string verdict_file;                              ///< empty: no verdicts
    std::string timeline_file;                             ///< for a trace of every batch; empty: none
    size_t timeline_slices = size_t{1} << 17;              ///< that are kept of each worker
    std::vector<std::shared_ptr<device::Device>> devices;  ///< to run on, in place of those of the configuration; as
                                                           ///< many
    uint32_t pool_packets = 16384;
    io::SourceDelivery sources;                                ///< how traffic sources hand out frames
    std::shared_ptr<Tenants> tenants;                          ///< run tenants' functions; null: chains can have none
    std::function<void(Diagnostic)> warn = [](Diagnostic) {};  ///< told what is odd about ports while they are made
    /// Asked before a configuration comes in that was read again; throws ConfigError where it can't be kept.
    std::function<void(const chain::Configuration&)> admit = [](const chain::Configuration&) {};
};

/// Runs chains on workers: each receives, runs and sends on its own core, or has a master receive and send (Master).
/// With several devices each worker drives one of them. Packets of a flow keep their order because a flow stays on one
/// queue, a queue on one worker, and engines deliver in order of arrival.
class Runtime {
public:
    /// Makes ports, devices and workers; nothing runs yet. Throws ConfigError or std::runtime_error.
    Runtime(chain::Configuration configuration, RuntimeOptions options = {});
    ~Runtime();

    void start();
    /// Asks the workers to finish: they stop receiving, finish what is in flight, and end.
    void stop();
    /// Waits until every input is exhausted and every packet is out, or `stop` was called and is done.
    /// False when `timeout` passed first, or somebody called `wake`.
    bool wait(std::chrono::milliseconds timeout);
    /// Lets whoever waits look at once whether there are changes to apply. Any thread.
    void wake();
    /// Brings in another generation: each worker takes it between two bursts. Returns when all have.
    /// The ports must be the same. Throws ConfigError when it does not fit; then nothing has changed.
    void apply(chain::Configuration configuration);
    /// Reads the configuration file again, with the NFs' state handed on, and applies it.
    void reload(const chain::LoadOptions& options = {});
    /// Brings in what `edit` makes of the running configuration, with the same network functions: other batches or
    /// waits. Nothing happens where it says false. Throws as `apply` does.
    bool adjust(const std::function<bool(chain::Configuration& next)>& edit);
    /// Asks every NF that takes changes (nf::Changeable) for them, and brings in a generation with those NFs made anew.
    /// False when nothing has changed. Throws as `apply` does.
    bool apply_changes();
    /// The same from any thread, which waits for no other that changes the configuration at this time, and throws
    /// nothing: whoever waits in `wait` is woken, looks for changes in its place, and is thrown there what went wrong
    /// here.
    void hurry_changes();

    /// Lets network functions look after their state (nf::Tended). Who waits calls it many times a second.
    void tend();

    /// Puts in a packet that came by no port, for the chain with this index: a copy of `frame` that is said to have
    /// come in by `in_port` (kNoPort: none) and leaves by `out_port` (Injection). Any thread. False when there is no
    /// room for it, in the queue or in memory.
    bool inject(uint16_t chain, std::span<const uint8_t> frame, uint16_t in_port, uint16_t out_port);

    std::shared_ptr<const chain::Configuration> configuration() const;
    const std::vector<std::unique_ptr<io::Port>>& ports() const { return ports_; }
    const std::vector<std::shared_ptr<device::Device>>& devices() const { return devices_; }
    const std::vector<std::unique_ptr<Worker>>& workers() const { return workers_; }
    const RuntimeOptions& options() const { return options_; }
    /// Reads the state per key that devices have; null: there are none. It is any thread's.
    nf::StateReader* device_states() const { return device_states_.get(); }
    /// 0 to 1 for inputs of known length, negative otherwise.
    double progress() const;
    /// Writes out what ports, NFs and logs hold back. What could not be written is among the troubles. After the
    /// workers have ended.
    void finish();
    /// What has been told since this was last asked: warnings of network functions, and as errors what went wrong;
    /// after `finish` in ports, too.
    std::vector<Diagnostic> news();
    /// All that went wrong so far outside of ports, each once: what a worker died of, what could not be written. Empty
    /// when all is well.
    std::string trouble() const;

private:
    friend class Worker;
    void wake_workers() const;
    void pin_packets();
    size_t most_packets() const;
    void add_trouble(Diagnostic trouble);
    void gather_news();
    /// What a generation of a chain needs besides its program, made before any worker meets it.
    struct Ready {
        std::shared_ptr<const chain::Program> program;
        std::vector<std::shared_ptr<device::LoadedProgram>> loaded;  // keeps its tables on the devices
        std::vector<std::unique_ptr<nf::CpuHalf>> halves;            // keep what the workers' CPU halves share
    };
    /// The one that tenants' functions may run on; null: there is none.
    std::shared_ptr<device::Device> tenants_device() const;
    std::vector<Ready> make_ready(const chain::Configuration& configuration);
    void run(const std::vector<Worker*>& workers);
    /// Returns when all workers have taken this generation, or have ended.
    /// With `same_chains` workers at rest count as well.
    void wait_until_taken(uint64_t generation, bool same_chains);
    std::optional<unsigned> core(size_t thread) const;
    /// By how much all chains of a configuration together may make a frame grow: one may lead to the next.
    static nf::Growth growth_of(const chain::Configuration& configuration);
    /// Buffers for the packets that chains put together; 0 where none does.
    static uint32_t whole_packets_for(const chain::Configuration& configuration);
    /// Linux interfaces that stand for ports in any chain.
    static std::vector<io::StandIn> stand_ins_of(const chain::Configuration& configuration);
    /// Throws ConfigError where chains have tenants' functions and nobody runs those.
    void follow_tenants(const chain::Configuration& configuration) const;
    /// Throws ConfigError where a chain wants to send by a port that can't.
    void check_outputs(const chain::Configuration& configuration) const;
    /// What `apply` and `apply_changes` do, without a check. With `changing_` locked.
    void bring_in(chain::Configuration configuration, bool same_chains = false);
    bool bring_in_changes();
    void retire(std::shared_ptr<const chain::Configuration> before, std::vector<Ready> ready);
    void end_retired(bool all);
    void end_tended();
    void look_for_tended();
    void listen_for_changes(const chain::Configuration& configuration, bool listens);
    /// Throws ConfigError where packets could not go from the running configuration to this one.
    void check_change(const chain::Configuration& next) const;

    RuntimeOptions options_;
    std::shared_ptr<const chain::Configuration> configuration_;
    std::shared_ptr<const chain::Configuration> retired_;  // the generation before
    std::unique_ptr<WholePackets> whole_packets_;          // null: no chain puts fragments together
    std::vector<std::unique_ptr<io::Port>> ports_;
    std::unique_ptr<io::StandIns> stand_ins_;
    uint32_t headroom_bytes_ = 0, tailroom_bytes_ = 0;       // what the ports' buffers leave for the chains to grow
    std::vector<std::unique_ptr<SpinLock>> send_locks_;      // by port, where workers share a queue
    std::vector<std::shared_ptr<CallThread>> call_threads_;  // of the devices, if they are asked for
    std::vector<std::shared_ptr<device::Device>> devices_;   // dealt to the workers in turn; none: the cpu
    std::vector<std::pair<std::shared_ptr<device::Device>, void*>> pinned_;  // packet memory that devices were told of
    std::unique_ptr<DeviceStates> device_states_;                            // null: no devices
    std::vector<Ready> ready_;                                               // this generation's
    BoundedQueue<Injection> injections_{1024};                               // for the first worker
    EventThread events_;
    std::unique_ptr<VerdictLog> verdicts_;
    std::unique_ptr<Timeline> timeline_;
    std::vector<std::unique_ptr<Worker>> workers_;
    std::vector<std::thread> threads_;
    /// Of who makes the next generation, until all workers have taken it: this before `mutex_`, and before any lock of
    /// a network function. Guards `retired_`, `ready_`, `change_failed_`, `ending_`.
    std::mutex changing_;
    std::exception_ptr change_failed_;  // in hurry_changes
    /// Functions of a generation before which none goes on with: they end when no packet is under way to them.
    struct Ending {
        std::shared_ptr<const chain::Configuration> configuration;
        std::vector<Ready> ready;
        std::vector<nf::NetworkFunction*> functions;
        std::chrono::steady_clock::time_point since;
    };
    std::vector<Ending> ending_;
    std::atomic<bool> has_tended_{false};  // there are functions to be tended, or to be ended
    mutable std::mutex mutex_;
    std::condition_variable changed_;
    std::atomic<uint64_t> generation_{0};
    std::atomic<uint64_t> other_chains_since_{0};  // the last generation that is not the one before with other tables
    std::atomic<uint64_t> at_work_{0};             // the last generation that all workers have
    std::atomic<bool> stopping_{false};
    bool woken_ = false;
    unsigned ended_ = 0;
    std::vector<Diagnostic> news_;
    std::string trouble_;
    bool finished_ = false;
};

}  // namespace millrace::exec
