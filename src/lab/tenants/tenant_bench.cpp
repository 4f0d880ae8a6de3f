#include "lab/tenants/tenant_bench.hpp"

#include <fmt/format.h>

#include <algorithm>
#include <filesystem>
#include <random>

#include "lab/inputs.hpp"
#include "millrace/base/device_names.hpp"
#include "millrace/base/eal.hpp"
#include "millrace/device/open.hpp"

namespace millrace::lab {

using nlohmann::json;

TenantBench::TenantBench(TenantBenchOptions options, std::function<void(const TenantFigure&)> tell)
    : options_(std::move(options)), tell_(std::move(tell)) {
    start_eal();
    const DeviceNames names = parse_device_names(options_.device);
    if (names.devices.size() + (names.cpu ? 1 : 0) != 1)
        throw std::invalid_argument("tenants are measured on one device, and not on '" + options_.device + "'");
    if (!names.devices.empty()) device_ = device::open_device(names.devices.front());
    options_.scratch = std::filesystem::absolute(options_.scratch);
    std::mt19937 random(options_.seed);
    for (size_t i = 0; i < options_.functions.size(); ++i) {
        const std::string& kind = options_.functions[i];
        const std::string file = fmt::format("{}/{}.txt", options_.scratch, i);
        if (kind == "firewall") make_rules(file, options_.rules, random);
        else if (kind == "router") make_routes(file, options_.routes, random);
        else if (kind != "mirror")
            throw std::invalid_argument("'" + kind +
                                        "' is no function of this benchmark; firewall, router and mirror are");
    }
}

json TenantBench::run() {
    const double begin = seconds_now();
    end_ = begin + options_.seconds;
    const std::pair<const char*, void (TenantBench::*)()> parts[] = {
        {"domains", &TenantBench::domains}, {"batch", &TenantBench::batch},   {"fence", &TenantBench::fence},
        {"victim", &TenantBench::victim},   {"killed", &TenantBench::killed}, {"mixes", &TenantBench::mixes}};
    bool stopped = false;
    json seconds = json::object();
    try {
        for (const auto& [name, part] : parts) {
            if (!wanted(name)) continue;
            const double from = seconds_now();
            options_.progress(name);
            (this->*part)();
            seconds[name] = seconds_now() - from;
        }
    } catch (const SceneStopped&) {
        stopped = true;
    }
    return {{"device", options_.device},
            {"device-model", device_ != nullptr ? device_->describe() : "cpu"},
            {"workers", options_.workers},
            {"call-thread", options_.call_thread},
            {"functions", options_.functions},
            {"rules", options_.rules},
            {"routes", options_.routes},
            {"seed", options_.seed},
            {"seconds", seconds_now() - begin},
            {"seconds-of-parts", seconds},
            {"complete", complete_ && !stopped},
            {"stopped", stopped},
            {"figures", figures_},
            {"mixes", mixes_},
            {"scenes", scenes_},
            {"mistakes", mistakes_}};
}

void TenantBench::add(const std::string& part, const std::string& name, double value, const std::string& unit,
                      json with) {
    json one = {{"part", part}, {"name", name}, {"value", value}, {"unit", unit}};
    one.update(with);
    figures_.push_back(one);
    tell_({part, name, unit, value, std::move(with)});
}

json TenantBench::end(TenantScene& scene, const std::string& part, const std::string& name) {
    json made = scene.finish();
    if (!made["conserved"]) mistakes_.push_back(part + ", " + name + ": packets are not accounted for");
    for (const json& tenant : made["elsewhere"])
        mistakes_.push_back(
            fmt::format("{}, {}: {} was not where it should be", part, name, tenant.get<std::string>()));
    made["part"] = part;
    made["name"] = name;
    scenes_.push_back(made);
    return made;
}

SceneOptions TenantBench::scene_options(uint32_t frame) const {
    SceneOptions scene;
    scene.device_name = options_.device;
    scene.device = device_;
    scene.workers = options_.workers;
    scene.cores = options_.cores;
    scene.call_thread = options_.call_thread;
    scene.scratch = options_.scratch;
    scene.frame = frame;
    scene.start = options_.start;
    scene.stopped = options_.stopped;
    return scene;
}

SceneTenant TenantBench::function(size_t number, const std::string& name, const std::string& keys) const {
    const size_t i = number % options_.functions.size();
    const std::string& kind = options_.functions[i];
    const std::string file = fmt::format("{}/{}.txt", options_.scratch, i);
    std::string text = "mirror: {}";
    if (kind == "firewall") text = fmt::format("firewall: {{file: \"{}\", default: permit}}", file);
    if (kind == "router")
        text = fmt::format(
            "router: {{routes: [{{file: \"{}\", via: edge}}, {{prefix: 0.0.0.0/0, via: edge}}], next-hops: {{edge: "
            "{{mac: \"02:00:00:00:e0:01\", src-mac: \"02:00:00:00:00:02\"}}}}}}",
            file);
    return {name, kind, text, keys, ""};
}

SceneChain TenantBench::chain_of_all() const {
    SceneChain chain{"service", {}, 0};
    for (size_t i = 0; i < options_.functions.size(); ++i)
        chain.tenants.push_back(function(i, fmt::format("t{}-{}", i, options_.functions[i])));
    return chain;
}

bool TenantBench::has_time(double seconds) {
    if (options_.stopped()) throw SceneStopped{};
    const bool there_is = seconds_now() + seconds < end_;
    complete_ = complete_ && there_is;
    return there_is;
}

TenantBench::Carried TenantBench::carried(TenantScene& scene, const std::string& chain, double seconds) {
    constexpr int kGrowth = 12, kSteps = 6;
    constexpr double kLost = 0.001, kSlowest = 1000;
    const auto look = [&](double rate, double each) {
        scene.set_rate(chain, rate);
        scene.pass(span(each / 2));
        const SceneSpan before = scene.now();
        scene.pass(span(each));
        return scene.now() - before;
    };
    Carried found;
    const SceneSpan flood = look(0, 2 * seconds);
    found.overload = double(flood.chains.at(chain).sent) / flood.seconds;
    const auto carries = [&](double rate) {
        const SceneSpan tried = look(rate, seconds);
        const ChainSpan& own = tried.chains.at(chain);
        const double made = double(own.received + own.missed);
        uint64_t lost = own.missed;
        for (const SceneTenant& tenant : scene.tenants_of(chain)) lost += tried.absent(tenant.name);
        if (made == 0 || double(lost) > kLost * made || double(own.sent) < 0.95 * made) return false;
        found.rate = double(own.sent) / tried.seconds;
        found.span = tried;
        return true;
    };
    // What comes out while too much comes may be less than could: from there upwards, then between the two.
    double low = 0, high = std::max(found.overload / 2, kSlowest);
    for (int step = 0; step < kGrowth && carries(high); ++step, high *= 4) low = high;
    for (int step = 0; step < kSteps; ++step) {
        const double rate = (low + high) / 2;
        (carries(rate) ? low : high) = rate;
    }
    return found;
}

}  // namespace millrace::lab
