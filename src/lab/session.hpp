// One benchmark after the other with the same tables: chains are loaded once for each device and kept.
#pragma once

#include <nlohmann/json_fwd.hpp>

#include <functional>
#include <map>
#include <memory>
#include <optional>
#include <string>
#include <utility>
#include <vector>

#include "lab/apart.hpp"
#include "lab/kernel_run.hpp"
#include "lab/measure.hpp"
#include "lab/power.hpp"
#include "lab/reference.hpp"
#include "lab/transfer/bus.hpp"
#include "lab/workload.hpp"
#include "millrace/base/files/file_ledger.hpp"

namespace millrace::lab {

/// The names of io::Restore, in its order.
inline constexpr const char* kRestoreNames[] = {"all", "headers", "nothing"};

/// What is measured, besides the chain and what comes in.
struct SessionOptions {
    WorkloadOptions workload;
    std::string config;  ///< a configuration file in place of built-in chains
    uint32_t max_batch = 16384;
    std::string max_delay = "100us";
    unsigned chains = 1;                 ///< equal chains that share the port by `classify:`
    bool contiguous = false;             ///< as of SourceDelivery
    std::optional<io::Restore> restore;  ///< none: as little as keeps every frame fresh
    double warm_up = 0.5, seconds = 2;
    double idle_seconds = 0;           ///< of each device, before it runs for the first time: to know its idle power
    double bus_seconds = 0.2;          ///< for how long the bus is measured, once for frames of a length
    size_t bus_piece = kBusPiece;      ///< by copies of so many bytes
    std::string powercap = kPowercap;  ///< where the CPU's power is read
    bool checked = true;               ///< hold a sample against the cpu
    std::string keep_kernels;          ///< folder for source, PTX and cubin of each chain; empty: none
    std::function<void(const std::string&)> progress = [](const std::string&) {};
    /// Notes in a configuration's ledger what else is read and written. Throws where that does not go together.
    std::function<void(FileLedger&)> note_files = [](FileLedger&) {};
    /// Whether to end early: what is measured then counts up to there, and nothing further begins.
    std::function<bool()> stopped = [] { return false; };
};

/// Nothing was begun, as SessionOptions::stopped said so.
struct Stopped : std::exception {
    const char* what() const noexcept override { return "stopped before its end"; }
};

/// A point to measure.
struct Point {
    std::string chain;  ///< kinds joined by '+'; with a configuration file, any name
    std::string device = "cpu";
    Traffic traffic;
    RunOptions run;
    bool timed = false;               ///< sinks time packets
    std::optional<Apart> apart = {};  ///< its functions stand apart
};

/// What was measured at a point.
struct Result {
    Point point;
    Counts counts;
    Ending ending;
    Check check;
    double bus_limit = 0;       ///< packets a second whose frames the bus could carry both ways; 0: no bus
    double crossing_limit = 0;  ///< packets a second of which the bus could carry what was counted to cross it
    Power power;                ///< while it ran
    ApartPlan apart;            ///< where functions stand apart
    /// Empty when packets were conserved, nothing went wrong and the sample is right.
    std::string mistake() const;
    double share_of_bus() const { return bus_limit > 0 ? counts.packet_rate() / bus_limit : 0; }
    /// Of all workers' cores, for a packet.
    double cycles_per_packet() const;
    nlohmann::json json() const;
};

/// What begins a measurement throws Stopped once that was asked for.
class Session {
public:
    explicit Session(SessionOptions options);
    ~Session();

    bool stopped() const { return options_.stopped(); }
    Result measure(const Point& point);
    /// A run of the point that the caller starts and finishes.
    std::unique_ptr<Run> open(const Point& point);
    /// Ends such a run: the counts are the caller's.
    Result close(const Point& point, Run& run, const Counts& counts);
    /// The kernels alone of the point's first program and device, which must not be the cpu, on the point's frames.
    KernelTimes time_kernels(const Point& point, uint32_t batch);
    /// The devices of that name (parse_device_names), each opened once; none for the cpu.
    std::vector<std::shared_ptr<device::Device>> devices(const std::string& name, const Comparison& compared = {});
    /// The most packets a second that the devices' buses could carry at once of so many bytes each; 0 for the cpu.
    double bus_limit(const std::string& device, double bytes_in, double bytes_out);
    nlohmann::json inputs() const;

private:
    struct Loaded;
    /// Lets the run work for so long or until all is stopped, and now and then tells how far `what` is.
    void watch(const Run& run, double seconds, const std::string& what) const;
    /// Reads the power of that device, and what it is while nothing runs.
    struct Metered {
        PowerMeter meter;
        std::optional<Power> idle;
    };
    const Metered& metered(const std::string& device);
    Loaded& configured(const Point& point);
    const schedule::ChainProfile& profile(const Point& point, const std::shared_ptr<const chain::Program>& program);
    KernelRun& kernels(const std::string& device);
    void stand_apart(const Point& point, Loaded& loaded);
    Loaded& loaded(const Point& point);  // and on its devices
    Reference& reference(const std::string& chain, bool cpu_halves);
    chain::Configuration load(const std::string& chain, const std::string& device) const;
    io::Restore restore_for(const Point& point, const chain::Configuration& configuration) const;
    io::SourceDelivery delivery_for(const Point& point, const chain::Configuration& configuration) const;

    SessionOptions options_;
    Workload workload_;
    std::map<std::pair<std::string, Comparison>, std::shared_ptr<device::Device>> devices_;
    std::map<std::string, std::unique_ptr<Loaded>> loaded_;               // by chain and device
    std::map<std::string, std::unique_ptr<chain::Configuration>> apart_;  // by chain and device
    std::map<std::string, std::unique_ptr<Reference>> references_;        // by chain and halves
    std::map<std::string, std::unique_ptr<KernelRun>> kernel_runs_;       // by device
    std::map<std::string, schedule::ChainProfile> profiles_;              // by device, function and frames
    std::map<std::string, Metered> meters_;                               // by device
    std::map<std::string, double> limits_;
};

}  // namespace millrace::lab
