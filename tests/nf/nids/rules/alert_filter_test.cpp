// Lines that hold back alerts of other rules: suppress, event_filter, threshold; and lines that belong elsewhere.
#include <gtest/gtest.h>

#include "millrace/nf/nids/alerts/threshold.hpp"
#include "millrace/nf/nids/rules/rule_files.hpp"

namespace millrace::nf::nids {
namespace {

constexpr const char* kRules =
    "alert tcp any any -> any any (sid:1;)\n"
    "alert tcp any any -> any any (threshold:type both, track by_dst, count 9, seconds 9; sid:2;)\n"
    "alert tcp any any -> any any (detection_filter:track by_dst, count 8, seconds 8; sid:3;)\n"
    "alert tcp any any -> any any (gid:7; sid:1;)\n";

struct Read {
    std::vector<Rule> rules;
    std::vector<Diagnostic> errors, warnings;
};

/// The rules above behind `lines`.
Read read(const std::string& lines) {
    RuleFile file = parse_rules(lines + "\n" + kRules, "test.rules", Variables::defaults());
    Read out{std::move(file.rules), std::move(file.errors), {}};
    const auto warn = [&](Diagnostic warning) { out.warnings.push_back(std::move(warning)); };
    apply_alert_filters(file.filters, out.rules, out.errors, warn);
    EXPECT_EQ(out.rules.size(), 4u);
    return out;
}

/// The thresholds' counts, rule by rule; '-' where there is none.
std::string counts(const std::string& lines) {
    const Read file = read(lines);
    EXPECT_TRUE(file.errors.empty()) << file.errors[0].message;
    std::string out;
    for (const Rule& rule : file.rules) out += (rule.threshold ? std::to_string(rule.threshold->count) : "-") + " ";
    return out;
}

TEST(AlertFilters, TakeThePlaceOfTheThresholdOfTheRuleTheyName) {
    EXPECT_EQ(counts(""), "- 9 8 - ");
    EXPECT_EQ(counts("event_filter gen_id 1, sig_id 1, type limit, track by_src, count 5, seconds 60"), "5 9 8 - ");
    EXPECT_EQ(counts("threshold gen_id 1, sig_id 2, type limit, track by_src, count 5, seconds 60"), "- 5 8 - ");
    const char* lines = "event_filter \\\n gen_id 7, sig_id 1, type limit, track by_src, \\\n count 5, seconds 60";
    EXPECT_EQ(counts(lines), "- 9 8 5 ");
}

TEST(AlertFilters, LeaveThresholdsAloneWhenTheyAreForAll) {
    const std::string all = "event_filter gen_id 1, sig_id 0, type limit, track by_src, count 5, seconds 60";
    const std::string one = "event_filter gen_id 1, sig_id 1, type limit, track by_src, count 6, seconds 60";
    EXPECT_EQ(counts(all), "5 9 8 - ");
    EXPECT_EQ(counts(all + "\n" + one), "6 9 8 - ");
    EXPECT_EQ(counts(one + "\n" + all), "6 9 8 - ");
    EXPECT_EQ(counts("event_filter gen_id 0, sig_id 0, type limit, track by_src, count 5, seconds 60"), "5 9 8 5 ");
}

TEST(AlertFilters, AreAnErrorBesideADetectionFilter) {
    const Read file = read("# why\nevent_filter gen_id 1, sig_id 3, type limit, track by_src, count 5, seconds 60");
    ASSERT_EQ(file.errors.size(), 1u);
    EXPECT_EQ(file.errors[0].where.line, 2u);
    EXPECT_NE(file.errors[0].message.find("detection_filter"), std::string::npos);
}

TEST(AlertFilters, WarnWhenTheyConcernNoRule) {
    const Read file = read("suppress gen_id 1, sig_id 99");
    ASSERT_EQ(file.warnings.size(), 1u);
    EXPECT_EQ(file.warnings[0].where.line, 1u);
    EXPECT_EQ(file.warnings[0].severity, Diagnostic::Severity::warning);
    EXPECT_TRUE(read("suppress gen_id 1, sig_id 1").warnings.empty());
}

bool suppressed(const std::string& line, uint8_t src, uint8_t dst, uint8_t version = 4) {
    const Read file = read(line);
    EXPECT_TRUE(file.errors.empty()) << line << ": " << file.errors[0].message;
    Event event;
    event.ip_version = version;
    event.src[0] = event.dst[0] = version == 4 ? 10 : 0x20;
    event.src[version == 4 ? 3 : 15] = src;
    event.dst[version == 4 ? 3 : 15] = dst;
    return is_suppressed(file.rules[0], event);
}

TEST(AlertFilters, SuppressAllAlertsOfARuleOrThoseOfAddresses) {
    const std::string rule = "suppress gen_id 1, sig_id 1";
    EXPECT_TRUE(suppressed(rule, 1, 2));
    EXPECT_FALSE(suppressed("suppress gen_id 1, sig_id 2", 1, 2));
    EXPECT_TRUE(suppressed(rule + ", track by_src, ip 10.0.0.1", 1, 2));
    EXPECT_FALSE(suppressed(rule + ", track by_src, ip 10.0.0.1", 2, 1));
    EXPECT_TRUE(suppressed(rule + ", track by_dst, ip 10.0.0.0/30", 9, 3));
    EXPECT_FALSE(suppressed(rule + ", track by_dst, ip 10.0.0.0/30", 3, 4));
    EXPECT_TRUE(suppressed(rule + ", track by_either, ip [10.0.0.0/24,!10.0.0.1]", 1, 2));
    EXPECT_FALSE(suppressed(rule + ", track by_either, ip [10.0.0.0/24,!10.0.0.1]", 1, 1));
    EXPECT_TRUE(suppressed(rule + ", track by_src, ip 2000::/120", 255, 0, 6));
    EXPECT_FALSE(suppressed(rule + ", track by_src, ip 2000::/121", 255, 0, 6));
    EXPECT_FALSE(suppressed(rule + ", track by_src, ip 10.0.0.1", 1, 2, 6)) << "another version of IP";
    const std::string either = rule + ", track by_src, ip 10.0.0.1\n" + rule + ", track by_src, ip 10.0.0.2";
    EXPECT_TRUE(suppressed(either, 2, 9)) << "any of them";
}

void expect_error(const std::string& line, uint32_t column, const std::string& part, const std::string& hint) {
    const Read file = read("\n  " + line);
    ASSERT_EQ(file.errors.size(), 1u) << line;
    EXPECT_EQ(file.errors[0].where.line, 2u) << line;
    EXPECT_EQ(file.errors[0].where.column, column) << line;
    EXPECT_NE(file.errors[0].message.find(part), std::string::npos) << file.errors[0].message;
    EXPECT_NE(file.errors[0].hint.find(hint), std::string::npos) << file.errors[0].hint;
}

TEST(AlertFilters, SayWhereTheyAreBroken) {
    expect_error("suppress", 11, "gen_id NUMBER", "suppress gen_id 1");
    expect_error("suppress sig_id 1, gen_id 1", 12, "gen_id NUMBER", "suppress gen_id 1");
    expect_error("suppress gen_id 1", 20, "sig_id NUMBER", "suppress gen_id 1");
    expect_error("suppress gen_id x, sig_id 1", 19, "not a number", "");
    expect_error("suppress gen_id 0, sig_id 1", 12, "gen_id 0", "");
    expect_error("suppress gen_id 1, sig_id 1, ip 10.0.0.1", 32, "'track by_src'", "track by_src, ip");
    expect_error("suppress gen_id 1, sig_id 1, track by_rule, ip 10.0.0.1", 38, "not one of", "track by_src, ip");
    expect_error("suppress gen_id 1, sig_id 1, track by_src", 32, "'ip ADDRESS'", "track by_src, ip");
    expect_error("suppress gen_id 1, sig_id 1, track by_src, ip 10.0.0.300", 49, "not an address", "");
    expect_error("event_filter gen_id 1, sig_id 1", 34, "needs type", "");
    expect_error("event_filter gen_id 1, sig_id 1, type often, track by_src, count 1, seconds 1", 41, "not one of", "");
}

TEST(AlertFilters, SayWhereLinesOfOtherFilesBelong) {
    expect_error("ipvar HOME_NET 10.0.0.0/8", 3, "'ipvar' begins no rule", "variables:");
    expect_error("include other.rules", 3, "'include' begins no rule", "rules:");
    expect_error("config classification: a,b,1", 3, "'config' begins no rule", "classification:");
    expect_error("rate_filter gen_id 1, sig_id 1, track by_src, count 1, seconds 1, new_action drop, timeout 1", 3,
                 "'rate_filter' begins no rule", "detection_filter");
}

}  // namespace
}  // namespace millrace::nf::nids
