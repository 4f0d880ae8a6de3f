// Who has room on a device for what was promised, by a profile that is made up; and what is said to those who have not.
#include "millrace/chain/promises/shared_device.hpp"

#include <gtest/gtest.h>

namespace millrace::chain {
namespace {

/// Chains c0, c1, … of one function each; `keys` are the options of the first, the second, ….
Configuration load_chains(const std::vector<std::string>& keys, const std::string& more = "") {
    std::string ports = "ports: {out: {sink: {}}", chains;
    for (size_t i = 0; i < keys.size(); ++i) {
        ports += ", in" + std::to_string(i) + ": {sink: {}}";
        chains += "  c" + std::to_string(i) + ":\n    {input: in" + std::to_string(i) + ", output: out, nfs: [mirror]" +
                  (keys[i].empty() ? "" : ", " + keys[i]) + "}\n";
    }
    return parse_configuration("version: 1\ndevice: sim\n" + more + ports + "}\nchains:\n" + chains, "test.yaml");
}

/// Tenants t0, t1, …, all in one chain, with these keys.
Configuration load_tenants(const std::vector<std::string>& keys, const std::string& more = "") {
    std::string tenants, nodes;
    for (size_t i = 0; i < keys.size(); ++i) {
        const std::string name = "t" + std::to_string(i);
        tenants += (i > 0 ? ", {name: " : "{name: ") + name + "}";
        nodes += "      - {tenant: " + name + ", outcomes: {ok: next}, absent: drop" +
                 (keys[i].empty() ? "" : ", " + keys[i]) + "}\n";
    }
    return parse_configuration("version: 1\ndevice: sim\n" + more + "tenants: [" + tenants +
                                   "]\nports: {in: {sink: {}}, out: {sink: {}}}\nchains:\n  c:\n    input: in\n    "
                                   "output: out\n    nfs:\n" +
                                   nodes,
                               "test.yaml");
}

/// k1 = 1 us: each multiprocessor does a million a second; b1 = 20 us, k2 = 0.02 ns, b2 = 1 us.
constexpr schedule::Model kModel{{20'000, 1'000}, {1'000, 0.02}, 1, 1, 4096};
constexpr schedule::Gpu kGpu{64, 8, 8};

schedule::Profile profile_of(const schedule::Model& model = kModel) {
    return {"simulated GPU", "kept.json", kGpu, {{"[mirror]", 512, model, {}}}};
}

std::vector<Diagnostic> broken(const Configuration& configuration, unsigned workers = 1) {
    const schedule::Profile profile = profile_of();
    return broken_promises(share_device(demand_of(configuration, &profile, workers)));
}
std::string line_of(const Diagnostic& one) {
    return one.where.file + ":" + std::to_string(one.where.line) + ":" + std::to_string(one.where.column) + " " +
           one.message + " | " + one.hint;
}

TEST(SharedDevice, HasChainsThatWereMeasured) {
    const auto shared = [](const std::string& keys) {
        const schedule::Profile profile = profile_of();
        return share_device(demand_of(load_chains({keys, ""}), &profile, 1));
    };
    const SharedDevice good = shared("rate: 10M, latency: 200us");
    EXPECT_TRUE(broken_promises(good).empty());
    ASSERT_EQ(good.sharers.size(), 2u) << "who was promised nothing gets of what is left";
    EXPECT_EQ(good.sharers[1].who, "chain 'c1'");
    ASSERT_TRUE(good.plan.assignments[0]);
    EXPECT_LE(good.plan.assignments[0]->latency_ns, 200'000);
    EXPECT_EQ(good.plan.used_sms(), 64u);
    EXPECT_EQ(broken_promises(shared("rate: 10M, latency: 40us")).size(), 1u);
    EXPECT_EQ(broken_promises(shared("rate: 1000M")).size(), 1u);
}

TEST(SharedDevice, SaysOfWhomNobodyKnows) {
    schedule::Profile other = profile_of();
    other.chains[0].functions = "[router]";
    for (const schedule::Profile* const unknown : std::initializer_list<const schedule::Profile*>{&other, nullptr}) {
        const Demand demand = demand_of(load_chains({"rate: 1000M", ""}), unknown, 1);
        EXPECT_TRUE(broken_promises(share_device(demand)).empty());
        ASSERT_EQ(demand.warnings.size(), 1u);
        EXPECT_EQ(line_of(demand.warnings[0]).find("test.yaml:"), 0u);
        EXPECT_NE(demand.warnings[0].message.find("it was not measured"), std::string::npos);
        EXPECT_TRUE(demand.chains.empty());
    }
    const Demand tenants = demand_of(load_tenants({"rate: 1k"}), &other, 1);
    EXPECT_TRUE(tenants.chains.empty());
    EXPECT_EQ(tenants.tenants.at("t0").who, "tenant 't0'");
    EXPECT_TRUE(share_device(tenants).sharers.empty()) << "nobody is there";
}

// Golden: the second one has no room.
TEST(SharedDevice, RefusesTheSecondAndSaysWhatWouldMendIt) {
    const auto refused = broken(load_chains({"rate: 40M, latency: 1ms", "rate: 30M, latency: 1ms"}));
    ASSERT_EQ(refused.size(), 1u);
    EXPECT_EQ(refused[0].severity, Diagnostic::Severity::error);
    EXPECT_EQ(line_of(refused[0]),
              "test.yaml:8:52 chain 'c1' can't keep this; SMs: 40 are needed, and of 64 there are 16 left; promised "
              "besides: chain 'c0' in line 6, 40000000 packets a second within 1 ms, for which 48 SMs are needed | "
              "'rate: 14M' has room; 'admission: warn' lets it in all the same; by kept.json");
}

TEST(SharedDevice, AdmitsItAllTheSameWhereTheFileSaysSo) {
    const auto warned = broken(
        load_chains({"rate: 40M, latency: 1ms", "rate: 30M, latency: 1ms"}, "admission: warn\n"));
    ASSERT_EQ(warned.size(), 1u);
    EXPECT_EQ(warned[0].severity, Diagnostic::Severity::warning);
    EXPECT_EQ(warned[0].hint.find("admission: warn"), std::string::npos) << warned[0].hint;
}

TEST(SharedDevice, HasRoomForAsManyAsItHasAndRefusesTheNext) {
    // Eight take turns on each of eight partitions.
    std::vector<std::string> keys(64, "rate: 700k, latency: 20ms");
    EXPECT_TRUE(broken(load_chains(keys)).empty()) << "of these there is room for 64";
    keys.back() = "rate: 30M, latency: 20ms";
    const auto refused = broken(load_chains(keys));
    ASSERT_EQ(refused.size(), 1u);
    EXPECT_NE(refused[0].message.find("chain 'c63' can't keep this; "), std::string::npos) << refused[0].message;
    EXPECT_NE(refused[0].message.find("and 59 more"), std::string::npos) << refused[0].message;
    EXPECT_NE(refused[0].hint.find("has room"), std::string::npos) << refused[0].hint;
    // What was promised to nobody takes no room from it, though it stands before.
    keys.assign(64, "");
    keys.back() = "rate: 40M, latency: 1ms";
    EXPECT_TRUE(broken(load_chains(keys)).empty());
}

TEST(SharedDevice, AnswersForAThousandInTime) {
    const Configuration made = load_chains(std::vector<std::string>(1000, "rate: 1M, latency: 20ms"));
    const auto begin = std::chrono::steady_clock::now();
    const auto refused = broken(made);
    EXPECT_EQ(refused.size(), 1000u - 56) << "seven take turns on each of eight partitions";
    EXPECT_NE(refused.front().hint.find("has room"), std::string::npos) << refused.front().hint;
    EXPECT_LT(std::chrono::steady_clock::now() - begin, std::chrono::seconds(20));
}

TEST(SharedDevice, HasRoomForTheBatchesOfEachWorker) {
    const Configuration made = load_chains({"rate: 10M, latency: 120us"});
    EXPECT_TRUE(broken(made, 1).empty());
    EXPECT_EQ(broken(made, 8).size(), 1u) << "each worker has batches of its own, and each of these a start";
}

TEST(SharedDevice, NamesWhatWouldHaveRoomTruthfully) {
    const auto keys = [](const std::string& rate, const std::string& latency) {
        return std::vector<std::string>{"rate: 40M, latency: 1ms", "rate: " + rate + ", latency: " + latency};
    };
    const std::string hint = broken(load_chains(keys("30M", "1ms"))).at(0).hint;
    const size_t from = hint.find("'rate: ") + 7;
    const std::string rate = hint.substr(from, hint.find('\'', from) - from);
    EXPECT_TRUE(broken(load_chains(keys(rate, "1ms"))).empty()) << rate;
    const std::string late = broken(load_chains(keys("1M", "45us"))).at(0).hint;
    const size_t at = late.find("'latency: ") + 10;
    const std::string latency = late.substr(at, late.find('\'', at) - at);
    EXPECT_TRUE(broken(load_chains(keys("1M", latency))).empty()) << late;
}

// --- tenants, who come one after the other ---

std::optional<NoRoom> come(const Configuration& configuration, const std::vector<std::string>& present,
                           const std::string& next, const schedule::Model& model = kModel,
                           const schedule::Gpu& gpu = kGpu) {
    TenantsOnDevice on_device{gpu, {}};
    for (const std::string& name : present) on_device.tenants.push_back({name, kModel});
    return refusal_of(demand_of(configuration, nullptr, 1), on_device, {next, model});
}

TEST(TenantsOnADevice, AreRefusedByNameWhereThereIsNoRoom) {
    const std::vector<std::string> keys(2, "rate: 40M, latency: 1ms");
    const Configuration made = load_tenants(keys);
    EXPECT_FALSE(come(made, {}, "t0"));
    EXPECT_FALSE(come(made, {}, "t1")) << "whoever comes first";
    const auto refused = come(made, {"t0"}, "t1");
    ASSERT_TRUE(refused);
    EXPECT_EQ(
        line_of(refused->whole),
        "test.yaml:11:64 tenant 't1' is refused: 40000000 packets a second within 1 ms have no room; SMs: 48 are "
        "needed, and of 64 there are 16 left; promised besides: tenant 't0' in line 10, 40000000 packets a second "
        "within 1 ms, for which 48 SMs are needed | 'rate: 14M' has room; 'admission: warn' lets it in all the "
        "same");
    EXPECT_EQ(refused->whole.severity, Diagnostic::Severity::warning);
    EXPECT_EQ(refused->text,
              "its promise has no room; SMs: 48 are needed, and of 64 there are 16 left; 'rate: 14M' has room")
        << "names nobody else";
    EXPECT_TRUE(come(made, {"t1"}, "t0"));
    EXPECT_FALSE(come(made, {"t1"}, "t1")) << "it takes its own place";
    EXPECT_FALSE(come(load_tenants(keys, "admission: warn\n"), {"t0"}, "t1"));
    EXPECT_FALSE(come(load_tenants({keys[0], ""}), {"t0"}, "t1")) << "nothing was promised to it";
    EXPECT_FALSE(come(load_tenants({"", keys[0]}), {"t0"}, "t1")) << "nothing was promised to the other";
}

TEST(TenantsOnADevice, AreRefusedWhereNobodyCanSayWhatTheyTake) {
    const auto refused = come(load_tenants({"rate: 1, latency: 10s"}), {}, "t0", schedule::Model{});
    ASSERT_TRUE(refused);
    EXPECT_NE(refused->text.find("could not be measured"), std::string::npos) << refused->text;
    EXPECT_FALSE(come(load_tenants({""}), {}, "t0", schedule::Model{})) << "nothing was promised";
}

TEST(TenantsOnADevice, TheSixtyFourthHasRoomWhenOneLeaves) {
    // Seven take turns on each of nine partitions.
    const schedule::Gpu gpu{72, 8, 8};
    const std::vector<std::string> keys(64, "rate: 1M, latency: 20ms");
    std::vector<std::string> names;
    for (size_t i = 0; i < keys.size(); ++i) names.push_back("t" + std::to_string(i));
    const Configuration made = load_tenants(keys);
    std::vector<std::string> present;
    size_t fit = 0;
    for (const std::string& name : names)
        if (!come(made, present, name, kModel, gpu)) {
            present.push_back(name);
            ++fit;
        }
    EXPECT_EQ(fit, 63u);
    const auto refused = come(made, present, names.back(), kModel, gpu);
    ASSERT_TRUE(refused);
    present.erase(present.begin() + 20);
    EXPECT_FALSE(come(made, present, names.back(), kModel, gpu)) << "one has left";
}

TEST(TenantsOnADevice, NeverTakeWhatOthersWerePromised) {
    // Equal parts get smaller with each that comes.
    const Configuration made = load_tenants(std::vector<std::string>(3, "rate: 25M, latency: 1ms"), "sharing: fair\n");
    EXPECT_FALSE(come(made, {}, "t0"));
    EXPECT_FALSE(come(made, {"t0"}, "t1"));
    const auto refused = come(made, {"t0", "t1"}, "t2");
    ASSERT_TRUE(refused);
    EXPECT_NE(refused->whole.message.find("could not keep its own"), std::string::npos) << refused->whole.message;
    EXPECT_NE(refused->text.find("another one would break"), std::string::npos) << refused->text;
}

}  // namespace
}  // namespace millrace::chain
