// Bundles: changes that come in together, or not at all.
#include "millrace/openflow/session/bundles.hpp"
#include "openflow/conversation.hpp"
#include "openflow/flow_messages.hpp"

namespace millrace::test {
namespace {

using Strings = std::vector<std::string>;

std::string hex_of(uint64_t value, unsigned digits) {
    std::ostringstream text;
    text << std::hex << std::setw(static_cast<int>(digits)) << std::setfill('0') << value;
    return text.str();
}

/// A message of the ONF's with this xid.
std::string onf(uint32_t type, const std::string& body, uint32_t xid = 5) {
    return with_its_length("04040000" + hex_of(xid, 8) + "4f4e4600" + hex_of(type, 8) + body);
}
std::string control(uint16_t type, uint32_t id = 7, uint16_t flags = 3) {
    return onf(2300, hex_of(id, 8) + hex_of(type, 4) + hex_of(flags, 4));
}
std::string add(const std::string& inner, uint32_t id = 7, uint16_t flags = 3) {
    return onf(2301, hex_of(id, 8) + "0000" + hex_of(flags, 4) + inner);
}
/// A flow of a group or to port 2, told apart by its priority.
std::string flow(unsigned priority, const std::string& actions = kOutput2, unsigned command = 0, unsigned flags = 0) {
    std::string hex = flow_mod(kAnyMatch, command >= 3 ? "" : apply(actions));
    return hex.replace(50, 2, hex_of(command, 2))
        .replace(60, 4, hex_of(priority, 4))
        .replace(72, 20, std::string(16, 'f') + hex_of(flags, 4));
}
const std::string kToGroup9 = "0016000800000009";

TEST(Bundles, ComeToWorkWhenTheyAreCommittedAndNotBefore) {
    Conversation with;
    EXPECT_EQ(to_hex(with.answer(control(0)).body), "4f4e4600000008fc0000000700010003");
    with.say(add(flow(1)) + add(flow(2)) + add(flow(1, kOutput2, 4)));
    EXPECT_TRUE(with.said().empty());
    EXPECT_TRUE(with.flows().empty());
    EXPECT_EQ(to_hex(with.answer(control(2)).body), "4f4e4600000008fc0000000700030003");
    with.say(control(4) + message("echo"), false);
    EXPECT_EQ(with.flows(), (Strings{"priority=2,actions=output:2"}))
        << "in order: what was added first has gone again";
    EXPECT_TRUE(with.said().empty()) << "the answer waits for the flows to be at work, and the echo for the answer";
    with.say(ByteView());
    const std::vector<Said> said = with.said();
    ASSERT_EQ(said.size(), 2u);
    EXPECT_EQ(to_hex(said[0].body), "4f4e4600000008fc0000000700050003");
    EXPECT_EQ(said[1].type, Type::echo_reply);
    EXPECT_EQ(with.answer(control(4)).error(), error::bundle_bad_id) << "it is not there any more";
}

TEST(Bundles, AreOpenedByTheFirstMessageToo) {
    Conversation with;
    with.say(add(flow(1)));
    EXPECT_EQ(with.answer(control(4)).type, Type::experimenter);
    EXPECT_EQ(with.flows().size(), 1u);
    with.say(control(0, 8) + add(flow(2), 8));
    with.said();
    EXPECT_EQ(with.answer(control(6, 8)).number(12, 2), 7) << "discarded";
    EXPECT_EQ(with.flows().size(), 1u);
}

TEST(Bundles, ChangeNothingWhereOneOfTheirChangesFails) {
    Conversation with;
    with.say(message("group_add") + flow(5, "0016000800000007", 0, 1) + flow(6));
    with.said();
    const Strings before = with.flows();
    ASSERT_EQ(before.size(), 2u);
    const std::string no_group = flow(3, kToGroup9);
    // The group goes with its flow, others are added and changed; then comes what cannot be.
    std::string remove_group = message("group_add");
    remove_group = with_its_length(remove_group.substr(0, 32).replace(16, 4, "0002"));
    with.say(add(flow(1)) + add(remove_group.replace(8, 8, "00000005")) + add(flow(6, kSetEthDst + kOutput2, 2)) +
             add(flow(6, "", 4)) + add(flow(9)) + add(no_group));
    EXPECT_TRUE(with.said().empty());
    with.say(control(4));
    const std::vector<Said> said = with.said();
    ASSERT_EQ(said.size(), 2u) << "no flow is told to have been removed";
    EXPECT_EQ(said[0].error(), error::action_group);
    EXPECT_EQ(said[0].xid, 5u);
    EXPECT_EQ(to_hex(ByteView(said[0].body).subspan(4)), no_group.substr(0, 128));
    EXPECT_EQ(said[1].error(), error::bundle_failed);
    EXPECT_EQ(to_hex(ByteView(said[1].body).subspan(4, 4)), "4f4e4600");
    EXPECT_EQ(with.flows(), before);
    EXPECT_EQ(with.datapath.control().groups().size(), 1u);
    // All is as it was, to those that change it, too.
    with.say(flow(5, "", 4));
    EXPECT_EQ(with.said().size(), 0u) << "it goes with the next generation";
    EXPECT_EQ(with.flows(), (Strings{before[1]}));
    with.say(flow(6, "", 4));
    EXPECT_TRUE(with.flows().empty());
}

TEST(Bundles, TellWhatIsWrong) {
    Conversation with;
    const auto error_of = [&](const std::string& hex) { return with.answer(hex).error(); };
    EXPECT_EQ(error_of(control(4)), error::bundle_bad_id);
    EXPECT_EQ(error_of(control(2)), error::bundle_bad_id);
    EXPECT_EQ(error_of(control(6)), error::bundle_bad_id);
    EXPECT_EQ(error_of(control(8)), error::bundle_bad_type);
    EXPECT_EQ(error_of(control(1)), error::bundle_bad_type);
    EXPECT_EQ(error_of(control(0, 7, 4)), error::bundle_bad_flags);
    with.say(control(0));
    with.said();
    EXPECT_EQ(error_of(control(0)), error::bundle_exists);
    EXPECT_EQ(error_of(control(4, 7, 1)), error::bundle_bad_flags);
    EXPECT_EQ(error_of(add(flow(1), 7, 1)), error::bundle_bad_flags);
    EXPECT_EQ(error_of(add(message("barrier").replace(8, 8, "00000005"))), error::bundle_unsupported);
    EXPECT_EQ(error_of(add(add(flow(1)))), error::bundle_unsupported);
    EXPECT_EQ(error_of(add(flow(1).replace(8, 8, "00000006"))), error::bundle_bad_xid);
    EXPECT_EQ(error_of(add(flow(1).replace(0, 2, "05"))), error::bad_version);
    EXPECT_EQ(error_of(add(flow(1).replace(4, 4, "0007"))), error::bundle_bad_length);
    EXPECT_EQ(error_of(add(flow(1).replace(4, 4, "ffff"))), error::bundle_bad_length);
    EXPECT_EQ(error_of(add(flow(1).substr(0, 80).replace(4, 4, "0028"))), error::bundle_bad_length);
    EXPECT_EQ(error_of(add("0400")), error::bundle_bad_length);
    EXPECT_EQ(error_of(add(flow(1, "00000010000000630000000000000000"))).type, 2) << "as the message by itself";
    EXPECT_EQ(error_of(onf(2302, "0000000000000000")), error::bad_experimenter_type);
    EXPECT_EQ(error_of(onf(2300, "00000007")), error::bad_length);
    EXPECT_EQ(error_of(with_its_length("04040000000000050000232000000000")), error::bad_experimenter);
    with.say(control(2));
    with.said();
    EXPECT_EQ(error_of(control(2)), error::bundle_closed);
    EXPECT_EQ(error_of(add(flow(1))), error::bundle_closed);
    EXPECT_EQ(with.answer(control(4)).type, Type::experimenter) << "there is nothing in it, which is well";
    EXPECT_TRUE(with.flows().empty());
    for (uint32_t id = 0; id < Bundles::kMax; ++id) with.say(control(0, id));
    with.said();
    EXPECT_EQ(error_of(control(0, 1000)), error::bundle_out_of_bundles);
}

TEST(Bundles, AreNotForSlaves) {
    Conversation with;
    with.say(control(0));
    with.say("041800180000000100000003000000000000000000000006");
    with.said();
    for (const std::string& hex : {control(0), control(4), add(flow(1))})
        EXPECT_EQ(with.answer(hex).error(), error::is_slave);
    EXPECT_TRUE(with.flows().empty());
}

TEST(Bundles, TakeNoMoreMemoryThanAllOfASwitchTogetherMay) {
    BundleMemory memory;
    constexpr size_t kBytes = size_t{1} << 20;
    const auto fill = [&](Bundles& bundles) {
        size_t added = 0;
        try {
            for (; added < 1000; ++added) bundles.add(1, 0, {}, kBytes);
        } catch (const Error& error) {
            EXPECT_EQ(error, error::bundle_too_many);
        }
        return added;
    };
    {
        Bundles first(memory), second(memory);
        EXPECT_GT(fill(first), 50u);
        EXPECT_EQ(fill(second), 0u);
        first.take(1, 0);
        EXPECT_EQ(memory.used, 0u);
        EXPECT_GT(fill(second), 50u);
        second.discard(1);
        EXPECT_EQ(memory.used, 0u);
        EXPECT_GT(fill(first), 50u);
    }
    EXPECT_EQ(memory.used, 0u) << "with the controller its bundles go";
}

TEST(Bundles, OfManyFlowsAreOneVersion) {
    Conversation with;
    constexpr unsigned kFlows = 60'000;
    for (unsigned i = 0; i < kFlows; ++i) with.say(add(flow(i + 1)), false);
    const uint64_t before = with.datapath.control().versions().first;
    with.say(control(4), false);
    EXPECT_EQ(with.datapath.control().flow_count(), kFlows);
    EXPECT_EQ(with.datapath.control().progress(before), flow_switch::Control::Progress::at_work);
    with.say(ByteView());
    EXPECT_EQ(with.said().size(), 1u);
}

TEST(Bundles, ThatAreCutOrChangedAnywhereDoNoHarm) {
    const std::string whole = add(flow(1)) + control(4);
    const Bytes bytes = from_hex(whole);
    for (size_t at = 0; at < bytes.size(); ++at) {
        for (const uint8_t value : {0x00, 0x01, 0x7f, 0xff}) {
            Conversation with;
            Bytes changed = bytes;
            changed[at] = value;
            with.say(changed);
            with.said();
            EXPECT_LE(with.flows().size(), 1u);
        }
        Conversation with;
        with.say(ByteView(bytes).first(at));
        EXPECT_TRUE(with.flows().empty());
    }
}

}  // namespace
}  // namespace millrace::test
