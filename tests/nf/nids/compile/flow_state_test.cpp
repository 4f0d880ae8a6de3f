// What rules ask of flows, and leave with them, as tables.
#include <gtest/gtest.h>

#include <fmt/format.h>

#include "millrace/nf/nids/compile/compiled_rules.hpp"
#include "millrace/nf/nids/rules/rule_files.hpp"

namespace millrace::nf::nids {
namespace {

CompiledRules compile_text(const std::string& text, const FlowNames& before = {}) {
    RuleFile file = parse_rules(text, "test.rules", Variables::defaults());
    EXPECT_TRUE(file.errors.empty());
    return compile(std::move(file.rules), false, before);
}

std::string asking_for(size_t ints) {
    std::string text;
    for (size_t i = 0; i < ints; ++i)
        text += fmt::format("alert udp any any -> any any (flowint:n{},>,1; sid:{};)\n", i, i + 1);
    return text;
}

TEST(FlowState, HasRoomForSoManyFlowints) {
    for (const uint32_t ints : {0u, 1u, 31u, 32u}) {
        const CompiledRules compiled = compile_text(asking_for(ints));
        EXPECT_EQ(compiled.state.names.ints.size(), ints);
        EXPECT_EQ(compiled.state.asks_numbers, ints > 0);
        EXPECT_EQ(compiled.rules.size(), ints);
    }
    try {
        compile_text(asking_for(33));
        FAIL() << "33 have no room";
    } catch (const ConfigError& error) {
        ASSERT_EQ(error.diagnostics().size(), 1u);
        const Diagnostic& first = error.diagnostics()[0];
        EXPECT_EQ(first.where.file, "test.rules");
        EXPECT_EQ(first.where.line, 33u);
        EXPECT_NE(first.message.find("'n32' has no room"), std::string::npos) << first.message;
        EXPECT_NE(first.hint.find("disable"), std::string::npos);
    }
}

TEST(FlowState, LeavesOutFlowintsThatNobodyAsksFor) {
    const CompiledRules compiled = compile_text(
        "alert udp any any -> any any (content:\"a\"; flowint:unasked,+,1; sid:1;)\n"
        "alert udp any any -> any any (content:\"b\"; flowint:source,+,1; sid:2;)\n"
        "alert udp any any -> any any (content:\"c\"; flowint:asked,=,between; sid:3;)\n"
        "alert udp any any -> any any (content:\"d\"; flowint:between,=,source; sid:4;)\n"
        "alert udp any any -> any any (content:\"e\"; flowint:asked,isset; sid:5;)\n");
    EXPECT_EQ(compiled.rules.size(), 5u);
    EXPECT_EQ(compiled.state.names.ints.size(), 3u);
    EXPECT_FALSE(compiled.state.names.ints.contains("unasked"));
    EXPECT_EQ(compiled.compiled[0].state_rule, 0u);
    EXPECT_FALSE(compiled.compiled[0].asks_flow());
    for (size_t rule = 1; rule < 5; ++rule) EXPECT_GT(compiled.compiled[rule].state_rule, 0u);
    EXPECT_EQ(compiled.compiled[4].state_rule, 4u) << "who asks comes last";
    EXPECT_FALSE(compile_text("alert udp any any -> any any (flowint:a,+,1; sid:1;)").state.asks_numbers);
}

TEST(FlowState, KeepsTheNumbersOfNamesWhileThereIsRoom) {
    FlowNames before;
    before.ints = {{"n1", 0}, {"gone", 1}};
    const FlowNames names = compile_text(asking_for(3), before).state.names;
    EXPECT_EQ(names.ints, (NameNumbers{{"n1", 0}, {"gone", 1}, {"n0", 2}, {"n2", 3}}));
    EXPECT_EQ(compile_text(asking_for(32), before).state.names.ints.size(), 32u) << "else they are numbered anew";
}

TEST(FlowState, LeavesBitsOfHostsToWhoeverTellsAlerts) {
    const auto reason = [](const std::string& action, const std::string& options, bool drops) {
        RuleFile file = parse_rules(action + " udp any any -> any any (content:\"a\"; " + options +
                                        " sid:1;)\nalert udp any any -> any any (xbits:isset,a,track ip_dst; sid:2;)",
                                    "test", Variables::defaults());
        const CompiledRules compiled = compile(std::move(file.rules), drops);
        if (compiled.unsupported.empty()) {
            EXPECT_EQ(compiled.compiled[0].state_rule, 1u) << options;
            EXPECT_EQ(compiled.compiled[0].action & CompiledRule::kSilent, 0) << options;
            EXPECT_FALSE(compiled.state.asks_numbers);
        }
        return compiled.unsupported.empty() ? std::string() : compiled.unsupported[0].unsupported;
    };
    const std::string sets = "xbits:set,a,track ip_src; ", asks = "xbits:isset,a,track ip_src; ";
    EXPECT_EQ(reason("alert", sets + "noalert;", false), "");
    EXPECT_EQ(reason("alert", asks, true), "");
    EXPECT_EQ(reason("drop", asks, false), "") << "it alerts";
    EXPECT_EQ(reason("drop", sets, true), "");
    EXPECT_EQ(reason("drop", asks, true), "xbits that say what is dropped");
    EXPECT_EQ(reason("sdrop", sets, true), "xbits of a rule that drops without an alert");
    EXPECT_EQ(reason("pass", sets, false), "xbits of a pass rule");
    EXPECT_EQ(reason("alert", asks + "flowbits:set,b;", false), "xbits that say what is left with a flow");
    EXPECT_EQ(reason("alert", sets + "flowbits:set,b;", false), "");
    EXPECT_EQ(reason("alert", asks + "flowbits:isset,b;", false), "");
}

TEST(FlowState, LeavesOutBitsOfHostsThatNobodyAsksFor) {
    const CompiledRules compiled = compile_text(
        "alert udp any any -> any any (content:\"a\"; xbits:set,unasked,track ip_src; sid:1;)\n"
        "alert udp any any -> any any (content:\"b\"; xbits:set,unasked,track ip_src; noalert; sid:2;)\n");
    EXPECT_EQ(compiled.rules.size(), 2u);
    EXPECT_EQ(compiled.of_flows(), 0u);
    EXPECT_EQ(compiled.compiled[0].action, 0);
    EXPECT_EQ(compiled.compiled[1].action & CompiledRule::kSilent, CompiledRule::kSilent) << "nobody need be told";
}

}  // namespace
}  // namespace millrace::nf::nids
