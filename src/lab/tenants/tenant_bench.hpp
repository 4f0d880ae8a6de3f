// What tenants cost, and what they get: the figures of `millrace bench tenants`.
#pragma once

#include <functional>
#include <nlohmann/json.hpp>
#include <set>
#include <string>
#include <vector>

#include "lab/tenants/scene.hpp"

namespace millrace::lab {

inline constexpr const char* kTenantParts[] = {
    "domains",  ///< four functions of four tenants, against the same in one domain
    "batch",    ///< what a tenant's process adds to a batch
    "fence",    ///< what isolation costs
    "victim",   ///< a tenant's latency while another one misbehaves
    "killed",   ///< a tenant's process is killed under load
    "mixes"     ///< promises of random mixes of tenants
};

struct TenantBenchOptions {
    std::string device = "cuda";
    std::set<std::string> only;  ///< of kTenantParts; none: all
    std::vector<std::string> functions{"firewall", "router", "mirror", "firewall"};
    std::vector<uint32_t> frames{512, 64, 1518};
    unsigned workers = 4;
    std::vector<unsigned> cores;
    bool call_thread = false;  ///< one more thread makes the calls of the device's driver for all workers
    double seconds = 240;      ///< for all; what does not fit is left out, and the JSON says so
    unsigned mixes = 50, kills = 5;
    uint32_t seed = 20;
    uint32_t rules = 1000, routes = 10'000;
    std::string scratch;
    StartProcess start;
    std::function<void(const std::string&)> progress = [](const std::string&) {};
    std::function<bool()> stopped = [] { return false; };
};

/// One figure, as it is found.
struct TenantFigure {
    std::string part, name, unit;
    double value = 0;
    nlohmann::json with = nlohmann::json::object();  ///< what it was measured with
};

class TenantBench {
public:
    TenantBench(TenantBenchOptions options, std::function<void(const TenantFigure&)> tell);

    /// Figures, scenes with all their packets, mixes. Throws std::runtime_error where a tenant can't be started or
    /// placed.
    nlohmann::json run();
    /// What was wrong: packets that are not accounted for, tenants that were not where they should be.
    const std::vector<std::string>& mistakes() const { return mistakes_; }

private:
    void domains();
    void batch();
    void fence();
    void victim();
    void killed();
    void mixes();

    void add(const std::string& part, const std::string& name, double value, const std::string& unit,
             nlohmann::json with = nlohmann::json::object());
    /// Ends a scene, and keeps what became of its packets.
    nlohmann::json end(TenantScene& scene, const std::string& part, const std::string& name);
    SceneOptions scene_options(uint32_t frame = 512) const;
    /// Of the functions, the number-th: with tables of its own.
    SceneTenant function(size_t number, const std::string& name, const std::string& keys = "") const;
    /// All functions, one behind the other.
    SceneChain chain_of_all() const;
    /// Each rate is tried for so many seconds, of 240 for all. Highest rate of a chain of which at most one packet in a
    /// thousand finds no tenant or no room.
    struct Carried {
        double rate = 0, overload = 0;  ///< packets a second; the latter: what comes out while more comes than can
        SceneSpan span;                 ///< at that rate
    };
    double usual_load(const char* part);
    Carried carried(TenantScene& scene, const std::string& chain, double seconds = 0.25);
    /// Seconds of a measurement that takes so many where there are 240 for all.
    double span(double seconds) const { return std::max(seconds * options_.seconds / 240, 0.05); }
    /// Whether there is time for so many more.
    bool has_time(double seconds);
    bool wanted(const char* part) const { return options_.only.empty() || options_.only.contains(part); }

    TenantBenchOptions options_;
    const std::function<void(const TenantFigure&)> tell_;
    std::shared_ptr<device::Device> device_;
    double end_ = 0;
    bool complete_ = true;
    nlohmann::json figures_ = nlohmann::json::array(), scenes_ = nlohmann::json::array(),
                   mixes_ = nlohmann::json::array();
    std::vector<std::string> mistakes_;
};

}  // namespace millrace::lab
