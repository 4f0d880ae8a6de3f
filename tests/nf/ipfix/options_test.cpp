#include <gtest/gtest.h>

#include "support/nf_runner.hpp"

namespace millrace::test {
namespace {

TEST(IpfixOptions, RefuseWhatMakesNoSense) {
    for (const char* options : {"{}",
                                "{collector: ''}",
                                "{collector: '192.0.2.1:'}",
                                "{collector: '192.0.2.1:0'}",
                                "{collector: '192.0.2.1:65536'}",
                                "{collector: '192.0.2.1:http'}",
                                "{collector: '[2001:db8::1'}",
                                "{collector: '[2001:db8::1]4739'}",
                                "{collector: 'a b:4739'}",
                                "{collector: ':4739'}",
                                "{collector: 192.0.2.1, file: flows.ipfix}",
                                "{collector: 192.0.2.1, domain: -1}",
                                "{collector: 192.0.2.1, domain: 4294967296}",
                                "{collector: 192.0.2.1, active-timeout: 0s}",
                                "{collector: 192.0.2.1, idle-timeout: 0s}",
                                "{collector: 192.0.2.1, timeout: 10s}",
                                "{collector: 192.0.2.1, template-refresh: 0s}",
                                "{collector: 192.0.2.1, template-messages: 0}",
                                "{collector: 192.0.2.1, mtu: 575}",
                                "{collector: 192.0.2.1, mtu: 65536}",
                                "{collector: 192.0.2.1, max-flows: 0}",
                                "{collector: 192.0.2.1, when-full: wait}",
                                "{collector: 192.0.2.1, colour: green}"})
        EXPECT_THROW(NfRunner("ipfix", options), ConfigError) << options;
}

TEST(IpfixOptions, AreTakenAsTheyAreWritten) {
    for (const auto& [options, target] : std::initializer_list<std::pair<const char*, const char*>>{
             {"{collector: 192.0.2.1}", "to 192.0.2.1:4739"},
             {"{collector: '192.0.2.1:9996'}", "to 192.0.2.1:9996"},
             {"{collector: '2001:db8::1'}", "to [2001:db8::1]:4739"},
             {"{collector: '[2001:db8::1]'}", "to [2001:db8::1]:4739"},
             {"{collector: '[2001:db8::1]:2055'}", "to [2001:db8::1]:2055"},
             // Nobody is asked for a name where no packets flow.
             {"{collector: 'collector.invalid:4739'}", "to collector.invalid:4739"},
             {"{collector: 192.0.2.1, domain: 4294967295, active-timeout: 1800s, idle-timeout: 10ms, mtu: 9000, "
              "template-refresh: 600s, template-messages: 1, max-flows: 1k, when-full: refuse}",
              "to 192.0.2.1:4739"}}) {
        NfRunner runner("ipfix", options);
        EXPECT_EQ(runner.nf().summary().substr(0, std::strlen(target)), target) << options;
    }
}

TEST(IpfixOptions, SayWhereANameHasNoAddress) {
    nf::Environment environment{.node_name = "nf", .chain_name = "chain", .output_folder = ".", .ports = kTestPorts};
    environment.live = true;
    try {
        NfRunner("ipfix", Config::parse("mtu: 1500\ncollector: collector.invalid", "flows.yaml"), environment);
        FAIL() << "the name has an address";
    } catch (const ConfigError& e) {
        const Diagnostic& told = e.diagnostics().front();
        EXPECT_EQ(told.where.file, "flows.yaml");
        EXPECT_EQ(told.where.line, 2u);
        EXPECT_EQ(told.where.column, 12u);
        EXPECT_NE(told.message.find("'collector.invalid' has no address"), std::string::npos) << told.message;
        EXPECT_NE(told.hint, "");
    }
}

}  // namespace
}  // namespace millrace::test
