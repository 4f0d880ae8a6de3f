// A run whose tenants are processes of their own, for benchmarks: it owns sources, sinks and the device, and has this
// program started again for each tenant.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <nlohmann/json_fwd.hpp>
#include <optional>
#include <string>
#include <vector>

#include "lab/clock.hpp"
#include "lab/measure.hpp"
#include "millrace/exec/promises/promise_watch.hpp"
#include "millrace/tenancy/manager/manager.hpp"

namespace millrace::lab {

/// A process that was started. It ends with this.
class StartedProcess {
public:
    virtual ~StartedProcess() = default;
    virtual void send(int signal) = 0;
};
/// Starts this program with `words` behind its name; what it says goes to the file `output`.
using StartProcess =
    std::function<std::unique_ptr<StartedProcess>(const std::vector<std::string>& words, const std::string& output)>;

struct SceneTenant {
    std::string name;
    std::string kind;      ///< "firewall"
    std::string function;  ///< as below `nfs:`: "firewall: {file: …}"
    std::string keys;      ///< further ones of its node: ", rate: 1k, latency: 5ms"
    std::string mischief;  ///< what its process does in place of the function (mischief.hpp); empty: the function
};
/// A chain from a source of its own to a sink of its own.
struct SceneChain {
    std::string name;
    std::vector<SceneTenant> tenants;
    double rate = 0;  ///< packets a second that its source makes; 0: as many as it is asked for
};

struct SceneOptions {
    std::string device_name = "cpu";
    std::shared_ptr<device::Device> device;  ///< opened already; null: the CPU
    unsigned workers = 1;
    std::vector<unsigned> cores;
    bool call_thread = false;  ///< exec::OffloadOptions::calls_by_thread
    std::string scratch;
    uint32_t frame = 512;
    uint32_t buffers = 8192;  ///< of each worker, for each chain
    std::string isolation = "fenced", patience = "2s", memory = "64Mi";
    bool apart = true;  ///< each function is a tenant's; else all of a chain are one program of this process
    StartProcess start;
    std::function<bool()> stopped = [] { return false; };
};

/// Somebody has asked for the end.
struct SceneStopped {};

/// Of the clock that spans are told by.
inline double seconds_now() { return std::chrono::duration<double>(Clock::now().time_since_epoch()).count(); }

/// What was counted of a chain up to a moment, or between two.
struct ChainSpan {
    uint64_t received = 0, missed = 0, sent = 0;  ///< packets
    LatencyCounts latency{};                      ///< from when a packet was due to the sink
    double latency_us(double percent) const { return double(Histogram::percentile(latency, percent)) * 1e-3; }
};
struct SceneSpan {
    double seconds = 0;
    std::map<std::string, ChainSpan> chains;
    std::map<std::string, exec::TenantReport> tenants;  ///< counters between two moments; the rest of the later
    uint64_t absent(const std::string& tenant) const;
};
SceneSpan operator-(SceneSpan later, const SceneSpan& earlier);

class TenantScene {
public:
    TenantScene(const SceneOptions& options, std::vector<SceneChain> chains);
    ~TenantScene();
    TenantScene(const TenantScene&) = delete;
    TenantScene& operator=(const TenantScene&) = delete;

    /// Starts a process for each tenant, and waits until each works where it should. Throws std::runtime_error with
    /// what it has said where it does not.
    void attach();
    void attach(const std::string& tenant);
    /// SIGKILL.
    void kill(const std::string& tenant);
    void start();
    /// Lets it work for so long, and looks at its promises. Throws SceneStopped.
    void pass(double seconds);
    SceneSpan now() const;
    const std::vector<SceneTenant>& tenants_of(const std::string& chain) const;
    void set_rate(const std::string& chain, double packets_per_second);
    /// Gives tenants other keys (SceneTenant::keys), while it works. Throws ConfigError where that has no room.
    void change(const std::map<std::string, std::string>& keys);
    /// Where a tenant's function works: "process", "GPU, fenced".
    exec::TenantReport tenant(const std::string& name) const;
    bool is_in_place(const exec::TenantReport& tenant) const;
    exec::PromiseReport promise(const std::string& tenant) const { return promises_->of_tenant(tenant); }
    tenancy::Manager& manager() { return *manager_; }
    std::shared_ptr<const chain::Configuration> configuration() const { return runtime_->configuration(); }

    /// Stops it, waits for what is in flight, and tells what became of every packet and tenant: `conserved`, and
    /// `elsewhere`, the tenants that were not where they should be, or not all the time.
    nlohmann::json finish();

private:
    std::string text() const;
    std::string node_text(const SceneTenant& tenant) const;
    const SceneTenant& spec(const std::string& tenant) const;
    bool stays_in_process(const SceneTenant& tenant) const;

    const SceneOptions options_;
    std::vector<SceneChain> chains_;
    std::string folder_;
    std::shared_ptr<tenancy::Manager> manager_;
    std::unique_ptr<exec::Runtime> runtime_;
    std::unique_ptr<exec::PromiseWatch> promises_;
    std::map<std::string, io::SourcePort*> sources_;
    std::map<std::string, io::SinkPort*> sinks_;
    std::map<std::string, std::unique_ptr<StartedProcess>> processes_;
    double begin_ = 0;
    bool finished_ = false;
};

}  // namespace millrace::lab
