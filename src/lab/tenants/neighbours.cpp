// What tenants do to others: they flood, loop, are slow, and are killed.
#include <fmt/format.h>

#include <algorithm>
#include <thread>

#include "lab/tenants/tenant_bench.hpp"

namespace millrace::lab {

using nlohmann::json;

/// A load that a chain carries with its functions in processes, too, where those go that are killed or misbehave.
double TenantBench::usual_load(const char* part) {
    SceneTenant tenant = function(0, "alone");
    tenant.keys = ", runs-on: process";
    TenantScene scene(scene_options(), {{"alone", {tenant}, 0}});
    scene.attach();
    scene.start();
    const double load = std::max(carried(scene, "alone").rate * 0.2, 100.0);
    end(scene, part, "in its process, as much as it carries");
    return load;
}

void TenantBench::victim() {
    struct Case {
        const char* name;
        const char* mischief;
        double load;  ///< of the neighbour's source, by that of the victim; 0: there is no neighbour
    };
    constexpr Case kCases[] = {{"alone", "", 0},
                               {"beside an honest tenant", "", 1},
                               {"beside one that gets ten times as much", "", 10},
                               {"beside one that sends what nobody asked for", "floods", 1},
                               {"beside one that is slow", "slow", 1},
                               {"beside one that never ends", "loops", 1},
                               {"alone again", "", 0}};
    if (!has_time(8)) return;
    options_.progress("victim: how much comes");
    const double rate = usual_load("victim");
    double alone_p99 = 0;
    for (const Case& one : kCases) {
        if (!has_time(6)) return;
        options_.progress(std::string("victim: ") + one.name);
        std::vector<SceneChain> chains = {{"victim", {function(0, "victim")}, rate}};
        if (one.load > 0) {
            chains.push_back({"neighbour", {function(0, "neighbour")}, rate * one.load});
            chains.back().tenants.front().mischief = one.mischief;
        }
        SceneOptions options = scene_options();
        // Who does not answer is let go as soon as a usual patience ends.
        if (*one.mischief != 0) options.patience = "100ms";
        TenantScene scene(options, chains);
        scene.attach();
        scene.start();
        scene.pass(span(0.5));
        const SceneSpan before = scene.now();
        scene.pass(span(1.5));
        const SceneSpan took = scene.now() - before;
        const ChainSpan& own = took.chains.at("victim");
        json with = {{"offered", rate},
                     {"neighbour-offered", rate * one.load},
                     {"sent", own.sent},
                     {"missed", own.missed},
                     {"absent", took.absent("victim")}};
        const double p99 = own.latency_us(99);
        add("victim", std::string(one.name) + ", p50", own.latency_us(50), "us", with);
        add("victim", std::string(one.name) + ", p99", p99, "us", with);
        if (alone_p99 == 0) alone_p99 = p99;
        else if (alone_p99 > 0) add("victim", std::string(one.name) + ", p99 to alone", p99 / alone_p99, "ratio", with);
        const json made = end(scene, "victim", one.name);
        if (one.load == 0) continue;
        const json& neighbour = made["tenants"][made["tenants"][0]["name"] == "neighbour" ? 0 : 1];
        options_.progress(fmt::format("the neighbour is {}, attached {} times", neighbour["state"].get<std::string>(),
                                      neighbour["attached"].get<uint64_t>()));
    }
}

void TenantBench::killed() {
    if (!has_time(8)) return;
    const double rate = usual_load("killed");
    options_.progress("killed: the tenants come");
    TenantScene scene(scene_options(), {{"first", {function(0, "first")}, 1},
                                        {"second", {function(1, "second")}, 1},
                                        {"mortal", {function(0, "mortal")}, 1}});
    scene.attach();
    scene.start();
    for (const char* const chain : {"first", "second", "mortal"}) scene.set_rate(chain, rate);
    scene.pass(span(0.5));
    // Of the two that nobody kills: without a tenant's decision, and without room at their sources.
    struct Loss {
        uint64_t absent = 0, missed = 0;
        double seconds = 0;
    };
    const auto count = [&](Loss& loss, const SceneSpan& took) {
        for (const char* const name : {"first", "second"}) {
            loss.absent += took.absent(name);
            loss.missed += took.chains.at(name).missed;
        }
        loss.seconds += took.seconds;
    };
    Loss before_kills, while_killed;
    const SceneSpan quiet = scene.now();
    scene.pass(span(2));
    count(before_kills, scene.now() - quiet);
    std::vector<double> noticed, back, from_attaching, on_device;
    // Looked for all the time: what takes less than a tenth of a millisecond is told as that.
    const auto wait_for = [&](const auto& holds) {
        constexpr double kLongest = 60;
        const double from = seconds_now();
        while (!holds()) {
            std::this_thread::sleep_for(std::chrono::microseconds(50));
            if (options_.stopped()) throw SceneStopped{};
            if (seconds_now() - from > kLongest)
                throw std::runtime_error("a tenant that was killed does not come back");
        }
        return seconds_now();
    };
    const auto mortal = [&] { return scene.tenant("mortal"); };
    for (unsigned i = 0; i < options_.kills && has_time(4); ++i) {
        options_.progress(fmt::format("killed: {} of {}", i + 1, options_.kills));
        const SceneSpan before = scene.now();
        const uint64_t attached = mortal().attached;
        const double killed = seconds_now();
        scene.kill("mortal");
        noticed.push_back(wait_for([&] { return mortal().state != "attached"; }) - killed);
        const uint64_t answered = mortal().answered;
        scene.attach("mortal");
        const double came = wait_for([&] { return mortal().attached > attached; });
        const double works = wait_for([&] { return mortal().answered > answered; });
        back.push_back(works - killed);
        from_attaching.push_back(works - came);
        on_device.push_back(wait_for([&] { return scene.is_in_place(mortal()); }) - came);
        scene.pass(span(0.3));
        count(while_killed, scene.now() - before);
    }
    const json with = {{"offered", rate}, {"kills", noticed.size()}};
    const auto tell = [&](const std::string& name, std::vector<double> seconds) {
        if (seconds.empty()) return;
        std::ranges::sort(seconds);
        add("killed", name + ", median", seconds[seconds.size() / 2] * 1000, "ms", with);
        add("killed", name + ", longest", seconds.back() * 1000, "ms", with);
    };
    for (const auto& [when, loss] : {std::pair("before", before_kills), {"while one is killed", while_killed}}) {
        if (loss.seconds == 0) continue;
        json counted = with;
        counted.update({{"absent", loss.absent}, {"missed", loss.missed}, {"seconds", loss.seconds}});
        add("killed", std::string("others lose, ") + when, double(loss.absent + loss.missed), "packets", counted);
    }
    tell("killed to noticed", noticed);
    tell("attached to the first answer", from_attaching);
    tell("attached to its place", on_device);
    tell("killed to the first answer of a new process", back);
    end(scene, "killed", "SIGKILL");
}

}  // namespace millrace::lab
