// The field plan: known plans, and a model in which every field is a version number on either side of the bus.
#include "millrace/chain/frames/field_plan.hpp"

#include <gtest/gtest.h>

#include <array>
#include <bit>
#include <optional>
#include <random>

#include "millrace/chain/configuration.hpp"

namespace millrace::chain {
namespace {

constexpr unsigned kFields = kFieldCount - 1;  // `length` is no field that could be copied
constexpr uint32_t kUnknown = 0;               // the version of a field that was never there

/// Both copies of a packet. Versions rise; the newest of each field is what every reader must see.
class Model {
public:
    Model() {
        newest_.fill(1);
        host_.fill(1);
        device_.fill(kUnknown);
    }
    /// Runs a chain with a plan. What went wrong first; nothing when all readers saw the newest version.
    std::optional<std::string> run(const std::vector<FieldUse>& uses, const FieldPlan& plan) {
        bool parsed = false;
        for (size_t i = 0; i < uses.size(); ++i) {
            const FieldUse& use = uses[i];
            const std::string nf = "NF " + std::to_string(i);
            // Host half before device half, each with its transfers before it, as the engines would.
            if (!copy(device_, host_, plan.before[i].to_host))
                return nf + ": the plan brings what the device does not have";
            if (const auto wrong = use_side(host_, use.host_reads, use.host_writes))
                return nf + " on the host: " + *wrong;
            if (!copy(host_, device_, plan.before[i].to_device))
                return nf + ": the plan brings what the host does not have";
            const bool on_device = !(use.device_reads | use.device_writes).empty();
            if (on_device && !parsed) {
                if (const auto wrong = use_side(device_, field::parsed, field::none))
                    return nf + ", parser on the device: " + *wrong;
                parsed = true;
            }
            if (const auto wrong = use_side(device_, use.device_reads, use.device_writes))
                return nf + " on the device: " + *wrong;
        }
        if (!copy(device_, host_, plan.at_end)) return "at the end: the plan brings what the device does not have";
        if (host_ != newest_) return "at the end the host lacks the newest version of something";
        return std::nullopt;
    }

private:
    using Versions = std::array<uint32_t, kFields>;

    static bool copy(const Versions& from, Versions& to, Fields fields) {
        bool had = true;
        for (unsigned bit = 0; bit < kFields; ++bit) {
            if ((fields.bits >> bit & 1) == 0) continue;
            // An older version may be overwritten, a newer one must not be.
            if (from[bit] < to[bit]) had = false;
            to[bit] = from[bit];
        }
        return had;
    }
    std::optional<std::string> use_side(Versions& side, Fields reads, Fields writes) {
        // A change of length moves every byte of the frame: it reads all and writes all.
        if (writes.overlaps(field::length)) reads |= field::everything, writes |= field::everything;
        for (unsigned bit = 0; bit < kFields; ++bit)
            if ((reads.bits >> bit & 1) && side[bit] != newest_[bit]) return std::string("an old ") + kFieldNames[bit];
        for (unsigned bit = 0; bit < kFields; ++bit)
            if (writes.bits >> bit & 1) side[bit] = ++newest_[bit];
        return std::nullopt;
    }

    Versions newest_, host_, device_;
};

FieldUse on_device(Fields reads, Fields writes) {
    return {.host_reads = {}, .host_writes = {}, .device_reads = reads, .device_writes = writes};
}
FieldUse on_host(Fields reads, Fields writes) {
    return {.host_reads = reads, .host_writes = writes, .device_reads = {}, .device_writes = {}};
}

Fields random_fields(std::mt19937& rng) {
    // Few fields, many, or a single one; `length` now and then.
    Fields fields{static_cast<uint32_t>(rng()) & (rng() % 2 ? static_cast<uint32_t>(rng()) : ~0u) &
                  field::everything.bits};
    if (rng() % 3 == 0) fields.bits = 1u << rng() % kFields;
    if (rng() % 10 == 0) fields |= field::length;
    return fields;
}

std::vector<FieldUse> random_chain(std::mt19937& rng) {
    std::vector<FieldUse> uses(1 + rng() % 8);
    for (FieldUse& use : uses) {
        const unsigned side = rng() % 5;  // 0, 1: host; 2, 3: device; 4: both
        if (side <= 1 || side == 4)
            use.host_reads = random_fields(rng), use.host_writes = rng() % 2 ? random_fields(rng) : field::none;
        if (side >= 2)
            use.device_reads = random_fields(rng), use.device_writes = rng() % 2 ? random_fields(rng) : field::none;
    }
    return uses;
}

std::string describe(const std::vector<FieldUse>& uses, const FieldPlan& plan) {
    std::string text;
    for (size_t i = 0; i < uses.size(); ++i)
        text += "\nNF " + std::to_string(i) + ": host reads " + field_names(uses[i].host_reads) + " writes " +
                field_names(uses[i].host_writes) + "; device reads " + field_names(uses[i].device_reads) + " writes " +
                field_names(uses[i].device_writes) + "; before it to host " + field_names(plan.before[i].to_host) +
                ", to device " + field_names(plan.before[i].to_device);
    return text + "\nat the end to host " + field_names(plan.at_end);
}

TEST(FieldPlan, MovesNothingForAChainThatStaysOnTheHost) {
    const FieldPlan plan = plan_fields(
        {on_host(field::everything, field::headers), on_host(field::five_tuple, field::length)});
    EXPECT_EQ(plan.to_device_total(), field::none);
    EXPECT_EQ(plan.to_host_total(), field::none);
}

TEST(FieldPlan, BringsWhatIsReadOnceAndTakesBackWhatWasWritten) {
    const FieldPlan plan = plan_fields(
        {on_device(field::ip_src, field::ip_ttl), on_device(field::ip_src | field::ip_ttl, field::none)});
    EXPECT_EQ(plan.before[0].to_device, field::ip_src | field::parsed);
    EXPECT_EQ(plan.before[1].to_device, field::none);
    EXPECT_EQ(plan.at_end, field::ip_ttl);
}

TEST(FieldPlan, SendsAFieldAcrossAgainWhenTheOtherSideHasWrittenIt) {
    const FieldPlan plan = plan_fields({on_device(field::ip_dst, field::none), on_host(field::none, field::ip_dst),
                                        on_device(field::ip_dst, field::ip_dst), on_host(field::ip_dst, field::none)});
    EXPECT_EQ(plan.before[2].to_device, field::ip_dst);
    EXPECT_EQ(plan.before[3].to_host, field::ip_dst);
    EXPECT_EQ(plan.at_end, field::none);
}

TEST(FieldPlan, MovesTheWholeFrameWhenItsLengthChanges) {
    const FieldPlan plan = plan_fields({on_device(field::ip_dst, field::length)});
    EXPECT_EQ(plan.before[0].to_device, field::everything);
    EXPECT_EQ(plan.at_end, field::everything);
}

TEST(FieldPlan, OfTheExampleMovesPayloadsInAndWholeFramesBackOnlyForIpsec) {
    LoadOptions options;
    options.device = "sim";
    options.output_folder = testing::TempDir();
    const auto plan_of = [&](const std::string& nfs) {
        return parse_configuration(
                   "version: 1\nports: {in: {null: {}}, out: {null: {}}}\nchains: {c: {input: in, output: out, nfs: " +
                       nfs + "}}\n",
                   "(test)", options)
            .chains[0]
            ->plan;
    };
    const std::string firewall = "{firewall: {default: permit, rules: [deny tcp from any to any port 22]}}";
    const std::string nids = "{nids: {rule: ['alert tcp any any -> any any (msg:\"a\"; content:\"a\"; sid:1;)']}}";
    const std::string router =
        "{router: {routes: [{prefix: 0.0.0.0/0, via: a}], next-hops: {a: {mac: \"02:00:00:00:00:01\"}}}}";
    const std::string ipsec = "{ipsec: {sas: [], default: bypass}}";

    const FieldPlan heads = plan_of("[" + firewall + ", " + router + "]");
    EXPECT_FALSE(heads.to_device_total().overlaps(field::payload));
    EXPECT_LE(prefix_bytes(heads.to_device_total()), 80u);
    EXPECT_TRUE(heads.at_end.contains(field::eth_dst | field::eth_src | field::ip_ttl | field::ip_checksum));
    EXPECT_FALSE(heads.at_end.overlaps(field::ip_dst | field::l4));

    const FieldPlan watched = plan_of("[" + firewall + ", " + nids + ", " + router + "]");
    EXPECT_TRUE(watched.to_device_total().contains(field::payload));
    EXPECT_EQ(watched.at_end, heads.at_end) << "the NIDS writes nothing";

    const FieldPlan whole = plan_of("[" + firewall + ", " + nids + ", " + router + ", " + ipsec + "]");
    EXPECT_EQ(whole.to_device_total(), field::everything);
    EXPECT_EQ(whole.at_end, field::everything);
    for (const FieldPlan::Step& step : whole.before)
        EXPECT_EQ(step.to_host, field::none) << "nothing goes back and forth in between";
    EXPECT_EQ(plan_of("[mirror]").to_device_total(), field::eth_dst | field::eth_src | field::parsed);
    EXPECT_EQ(plan_of("[mirror]").at_end, field::eth_dst | field::eth_src);
}

TEST(FieldPlan, GivesEveryReaderTheNewestVersionInAnyChain) {
    std::mt19937 rng(1);
    for (int i = 0; i < 20000; ++i) {
        const std::vector<FieldUse> uses = random_chain(rng);
        const FieldPlan plan = plan_fields(uses);
        const auto wrong = Model().run(uses, plan);
        ASSERT_FALSE(wrong.has_value()) << *wrong << describe(uses, plan);
        const FieldPlan all = plan_everything(uses);
        const auto wrong_all = Model().run(uses, all);
        ASSERT_FALSE(wrong_all.has_value()) << "everything: " << *wrong_all << describe(uses, all);
    }
}

TEST(FieldPlan, HoldsNoTransferThatCouldBeLeftOut) {
    std::mt19937 rng(2);
    size_t removed = 0;
    for (int i = 0; i < 1500; ++i) {
        const std::vector<FieldUse> uses = random_chain(rng);
        const FieldPlan plan = plan_fields(uses);
        const auto check = [&](Fields FieldPlan::Step::* side, size_t step) {
            const Fields fields = step == uses.size() ? plan.at_end : plan.before[step].*side;
            for (unsigned bit = 0; bit < kFieldCount; ++bit) {
                if ((fields.bits >> bit & 1) == 0) continue;
                FieldPlan less = plan;
                Fields& thinner = step == uses.size() ? less.at_end : less.before[step].*side;
                thinner.bits &= ~(1u << bit);
                ++removed;
                ASSERT_TRUE(Model().run(uses, less).has_value())
                    << "step " << step << " need not move " << kFieldNames[bit] << describe(uses, plan);
            }
        };
        for (size_t step = 0; step < uses.size(); ++step) {
            check(&FieldPlan::Step::to_device, step);
            check(&FieldPlan::Step::to_host, step);
        }
        check(&FieldPlan::Step::to_host, uses.size());
        if (HasFatalFailure()) return;
    }
    EXPECT_GT(removed, 10000u);
}

TEST(FieldPlan, NeverMovesMoreThanMovingEverythingDoes) {
    std::mt19937 rng(3);
    const auto moved = [](const FieldPlan& plan) {
        int fields = std::popcount(plan.at_end.bits);
        for (const FieldPlan::Step& step : plan.before)
            fields += std::popcount(step.to_device.bits) + std::popcount(step.to_host.bits);
        return fields;
    };
    for (int i = 0; i < 5000; ++i) {
        const std::vector<FieldUse> uses = random_chain(rng);
        ASSERT_LE(moved(plan_fields(uses)), moved(plan_everything(uses))) << describe(uses, plan_fields(uses));
    }
}

TEST(FieldPlan, BringsHeadersForFunctionsThatLookAtNone) {
    const FieldPlan plan = plan_fields({FieldUse::on_device(field::none, field::none)});
    EXPECT_EQ(plan.to_device_total(), field::parsed) << "or a device could not tell malformed packets from others";
    EXPECT_TRUE(plan.to_host_total().empty());
}

TEST(FieldPlan, NamesFieldsForPeople) {
    EXPECT_EQ(field_names(field::none), "nothing");
    EXPECT_EQ(field_names(field::everything), "whole frame");
    EXPECT_EQ(field_names(field::ip_ttl | field::ip_checksum), "ip.ttl, ip.checksum");
}

TEST(FieldPlan, PutsEveryFieldWithinTheHeadThatItAsksFor) {
    EXPECT_EQ(prefix_bytes(field::none), 0u);
    EXPECT_EQ(prefix_bytes(field::eth_dst), 16u);
    EXPECT_EQ(prefix_bytes(field::payload), kWholeFrame);
    EXPECT_EQ(prefix_bytes(field::tcp_options), kWholeFrame);
    // Ethernet with a tag, IPv6, TCP: the last byte of the checksum is byte 76.
    EXPECT_EQ(prefix_bytes(field::l4_checksum), 80u);
    for (unsigned bit = 0; bit < kFieldCount; ++bit)
        EXPECT_LE(prefix_bytes(Fields{1u << bit}), prefix_bytes(Fields{1u << bit} | field::l4_checksum))
            << kFieldNames[bit];
}

}  // namespace
}  // namespace millrace::chain
