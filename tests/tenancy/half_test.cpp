// Device halves on their way to the manager: what comes is what was sent, or is refused by name.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>

#include "millrace/isolation/kernel.hpp"
#include "millrace/isolation/ptx/reader.hpp"
#include "millrace/show/socket_file.hpp"
#include "millrace/tenancy/gpu/half.hpp"
#include "millrace/tenancy/manager/placer.hpp"
#include "tenancy/support.hpp"

namespace millrace::tenancy {
namespace {

constexpr uint32_t kOutcomes = 2;
constexpr uint64_t kMax = 1 << 20;

DeviceHalf some_half(size_t arrays = 2) {
    DeviceHalf half;
    half.function = "millrace_acme_1_process";
    half.ptx = ".version 9.0";
    half.to_terms = {1, 0};
    half.tables.resize(16 + 16 * arrays);
    for (size_t i = 0; i < arrays; ++i) half.arrays.push_back({16 * i, std::vector<uint8_t>(100 + i, uint8_t(i))});
    return half;
}

/// Why it is refused; "" where it is not.
std::string refusal_of(const std::function<void()>& reads) {
    try {
        reads();
    } catch (const std::runtime_error& e) {
        return e.what();
    }
    return {};
}
std::string refusal_of(const std::vector<uint8_t>& bytes) {
    return refusal_of([&] { read_half(bytes, kOutcomes); });
}

TEST(DeviceHalves, ComeAsTheyWereSent) {
    for (const size_t arrays : {size_t{0}, size_t{1}, size_t{kMaxArrays}}) {
        DeviceHalf sent = some_half(arrays);
        sent.stages = {arrays > 0, arrays != 1};
        const auto memory = sealed_memory(half_bytes(sent));
        const DeviceHalf came = read_half(memory->get(), kMax, kOutcomes);
        EXPECT_EQ(came.function, sent.function);
        EXPECT_EQ(came.ptx, sent.ptx);
        EXPECT_EQ(came.to_terms, sent.to_terms);
        EXPECT_EQ(came.stages, sent.stages);
        EXPECT_EQ(came.tables, sent.tables);
        ASSERT_EQ(came.arrays.size(), arrays);
        for (size_t i = 0; i < arrays; ++i) {
            EXPECT_EQ(came.arrays[i].member, sent.arrays[i].member);
            EXPECT_EQ(came.arrays[i].bytes, sent.arrays[i].bytes);
        }
        EXPECT_GE(came.image_bytes(), 100 * arrays);
    }
}

TEST(DeviceHalves, ThatAreCutShortOrGoOnAreRefused) {
    std::vector<uint8_t> bytes = half_bytes(some_half());
    for (size_t length = 0; length < bytes.size(); ++length)
        ASSERT_NE(refusal_of(std::vector<uint8_t>(bytes.begin(), bytes.begin() + static_cast<ptrdiff_t>(length))), "")
            << length;
    EXPECT_EQ(refusal_of(bytes), "");
    bytes.push_back(0);
    EXPECT_EQ(refusal_of(bytes), "the device half goes on behind its arrays");
}

TEST(DeviceHalves, WhoseNumbersLieAreRefusedByName) {
    struct Case {
        const char* why;
        std::function<void(HalfHead&)> lie;
    };
    const Case cases[] = {
        {"is none of Millrace", [](HalfHead& head) { head.magic ^= 1; }},
        {"has version 2, the manager 5", [](HalfHead& head) { head.version = 2; }},
        {"another version of Millrace", [](HalfHead& head) { ++head.layout; }},
        {"without an end", [](HalfHead& head) { std::memset(head.function, 'a', sizeof head.function); }},
        {"bytes of PTX", [](HalfHead& head) { head.ptx_bytes = kMaxPtxBytes + 1; }},
        {"tables of more than", [](HalfHead& head) { head.tables_bytes = UINT64_MAX; }},
        {"ends before its PTX", [](HalfHead& head) { head.ptx_bytes = 1 << 20; }},
        {"more than 64 arrays", [](HalfHead& head) { head.arrays = 0xffffffff; }},
        {"no number of outcomes", [](HalfHead& head) { head.outcomes = 0; }},
        {"no number of outcomes", [](HalfHead& head) { head.outcomes = 31; }},
        {"not agreed on", [](HalfHead& head) { head.to_terms[1] = kOutcomes; }},
        {"stages in its process that there are none of", [](HalfHead& head) { head.stages = 4; }},
        {"stages in its process that there are none of", [](HalfHead& head) { head.stages = 0xff; }},
        {"stages in its process that there are none of", [](HalfHead& head) { head.reserved = 1; }},
    };
    for (const Case& one : cases) {
        std::vector<uint8_t> bytes = half_bytes(some_half());
        HalfHead head;
        std::memcpy(&head, bytes.data(), sizeof head);
        one.lie(head);
        std::memcpy(bytes.data(), &head, sizeof head);
        EXPECT_NE(refusal_of(bytes).find(one.why), std::string::npos) << one.why << ": " << refusal_of(bytes);
    }
    for (const uint64_t member : {uint64_t{41}, UINT64_MAX - 3}) {
        std::vector<uint8_t> bytes = half_bytes(some_half());
        std::memcpy(bytes.data() + sizeof(HalfHead) + offsetof(ArrayHead, member), &member, sizeof member);
        EXPECT_EQ(refusal_of(bytes), "the device half has an array whose address stands outside of the tables");
    }
    for (const uint64_t length : {uint64_t{1} << 40, UINT64_MAX}) {
        std::vector<uint8_t> bytes = half_bytes(some_half());
        std::memcpy(bytes.data() + sizeof(HalfHead) + offsetof(ArrayHead, bytes), &length, sizeof length);
        EXPECT_EQ(refusal_of(bytes), "the device half ends before its arrays' bytes");
    }
}

TEST(DeviceHalves, WithAnyByteChangedAreRefusedOrWhole) {
    const std::vector<uint8_t> sound = half_bytes(some_half());
    size_t refused = 0;
    for (size_t at = 0; at < sound.size(); ++at)
        for (const uint8_t flip : {0x01, 0x80, 0xff}) {
            std::vector<uint8_t> bytes = sound;
            bytes[at] ^= flip;
            try {
                const DeviceHalf half = read_half(bytes, kOutcomes);
                ASSERT_LE(half.ptx.size() + half.tables.size() + half.function.size(), bytes.size());
                for (const DeviceHalf::Array& array : half.arrays) ASSERT_LE(array.member + 8, half.tables.size());
                for (const uint8_t outcome : half.to_terms) ASSERT_LT(outcome, kOutcomes);
            } catch (const std::runtime_error&) {
                ++refused;
            }
        }
    EXPECT_GT(refused, 100u);
}

TEST(DeviceHalves, InMemoryThatCouldChangeAreRefused) {
    const std::vector<uint8_t> bytes = half_bytes(some_half());
    const auto refusal = [](int memory, uint64_t most = kMax) {
        return refusal_of([&] { read_half(memory, most, kOutcomes); });
    };
    const char* const changes = "the device half lies in memory that could change";
    for (const int seals : {0, F_SEAL_SHRINK | F_SEAL_GROW, F_SEAL_SHRINK | F_SEAL_WRITE, F_SEAL_GROW | F_SEAL_WRITE}) {
        const Descriptor memory(memfd_create("half", MFD_ALLOW_SEALING));
        ASSERT_EQ(write(memory.get(), bytes.data(), bytes.size()), static_cast<ssize_t>(bytes.size()));
        ASSERT_EQ(fcntl(memory.get(), F_ADD_SEALS, seals), 0);
        EXPECT_EQ(refusal(memory.get()), changes) << seals;
    }
    const Descriptor null(open("/dev/null", O_RDONLY));
    EXPECT_EQ(refusal(null.get()), changes);
    EXPECT_EQ(refusal(-1), changes);
    const auto sealed = sealed_memory(bytes);
    EXPECT_EQ(refusal(sealed->get(), bytes.size()), "");
    EXPECT_NE(refusal(sealed->get(), bytes.size() - 1).find("bytes, and the manager takes"), std::string::npos);
}

/// A tenant is attached and `sends`; then the manager listens until there is nothing to hear.
void attach_and(const std::function<void(Member&)>& sends, const std::function<void(Attachment&)>& then) {
    Expected expected{getuid(), {8, 16, 8, 2, 1}, {}, {}};
    expected.patience.unasked = 2;
    test::Doorway manager({{"acme", expected}});
    std::optional<Member> member;
    std::thread tenant([&] { member.emplace(manager.path(), "acme"); });
    Attachment* const attachment = manager.wait_for("acme");
    tenant.join();
    ASSERT_TRUE(attachment != nullptr && member);
    sends(*member);
    for (int i = 0; i < 20; ++i) attachment->listen();
    then(*attachment);
}

TEST(DeviceHalves, AreOfferedOnce) {
    const auto memory = sealed_memory(half_bytes(some_half()));
    attach_and([&](Member& member) { member.offer(memory->get()); },
               [](Attachment& attachment) {
                   const auto came = attachment.take_offer();
                   ASSERT_NE(came, nullptr);
                   EXPECT_EQ(read_half(came->get(), kMax, kOutcomes).function, some_half().function);
                   EXPECT_EQ(attachment.take_offer(), nullptr);
                   EXPECT_EQ(attachment.unasked(), 0u);
                   EXPECT_TRUE(attachment.attached());
               });
    attach_and(
        [&](Member& member) {
            for (int i = 0; i < 4; ++i) member.offer(memory->get());
        },
        [](Attachment& attachment) {
            EXPECT_EQ(attachment.unasked(), 3u);
            EXPECT_EQ(attachment.parting(), Parting::flood);
        });
}

TEST(DeviceHalves, OfferedWithoutMemoryOrByOtherWordsAreWhatNobodyAskedFor) {
    attach_and(
        [&](Member& member) {
            const Offer empty;
            send(member.socket(), &empty, sizeof empty, 0);
        },
        [](Attachment& attachment) {
            EXPECT_EQ(attachment.take_offer(), nullptr);
            EXPECT_EQ(attachment.unasked(), 1u);
        });
    attach_and(
        [&](Member& member) {
            Offer old;
            old.version = 2;
            send(member.socket(), &old, sizeof old, 0);
            send(member.socket(), "what", 4, 0);
        },
        [](Attachment& attachment) {
            EXPECT_EQ(attachment.take_offer(), nullptr);
            EXPECT_GT(attachment.unasked(), 0u);
        });
}

TEST(Notices, TellATenantWhatHasBecomeOfIt) {
    attach_and([](Member&) {}, [](Attachment&) {});
    test::Doorway manager({{"acme", {getuid(), {8, 16, 8, 2, 1}, {}, {}}}});
    std::optional<Member> member;
    std::thread tenant([&] { member.emplace(manager.path(), "acme"); });
    Attachment* const attachment = manager.wait_for("acme");
    tenant.join();
    EXPECT_TRUE(member->attached());
    EXPECT_FALSE(member->placement());
    attachment->tell(Notice::Kind::kept, "line 3: bar.sync");
    EXPECT_TRUE(member->attached());
    const auto kept = member->placement();
    ASSERT_TRUE(kept);
    EXPECT_EQ(kept->kind, Notice::Kind::kept);
    EXPECT_STREQ(kept->text, "line 3: bar.sync");
    EXPECT_FALSE(member->placement()) << "told once";
    attachment->tell(Notice::Kind::parted, "it did not answer in time");
    EXPECT_FALSE(member->attached());
    EXPECT_FALSE(member->attached()) << "and stays so";
    EXPECT_EQ(member->why(), "it did not answer in time");
}

TEST(Refusals, AreToldByLineAsFarAsThereIsRoom) {
    std::vector<Diagnostic> refusals;
    refusals.push_back({{"acme.ptx", 12, 3}, "bar.sync is not permitted", "others wait"});
    EXPECT_EQ(refusal_text(refusals), "acme.ptx:12:3: bar.sync is not permitted (others wait)");
    refusals.assign(1000, refusals.front());
    const std::string text = refusal_text(refusals);
    EXPECT_LT(text.size(), sizeof Notice().text);
    EXPECT_NE(text.find("\nand 9"), std::string::npos) << text;
    refusals.assign(2, {{}, std::string(100'000, 'a'), ""});
    EXPECT_LT(refusal_text(refusals).size(), sizeof Notice().text);
}

/// Why a function can't be called as a network function; "" where it can.
std::string why_not(const std::string& head) {
    const auto module = isolation::ptx::read(
        ".version 9.0\n.target sm_90\n.address_size 64\n" + head + "\n{\nret;\n}\n", "acme.ptx");
    return isolation::why_not_process(module, "acme");
}

TEST(Refusals, TellOfAFunctionThatTakesOrGivesSomethingElse) {
    const std::string result = "(.param .align 4 .b8 r[8])", two = "(.param .b64 a, .param .b64 b)";
    EXPECT_EQ(why_not(".visible .func " + result + " acme" + two), "");
    EXPECT_NE(why_not(".visible .func " + result + " other" + two), "");
    EXPECT_NE(why_not(".func " + result + " acme" + two), "");
    EXPECT_NE(why_not(".visible .entry acme" + two), "");
    for (const char* parameters :
         {"()", "(.param .b64 a)", "(.param .b64 a, .param .b32 b)", "(.param .b64 a, .param .b64 b, .param .b64 c)",
          "(.param .align 8 .b8 a[8], .param .b64 b)"})
        EXPECT_NE(why_not(".visible .func " + result + " acme" + parameters), "") << parameters;
    for (const char* results : {"", "(.param .b64 r)", "(.param .b8 r[8])", "(.param .align 4 .b8 r[16])",
                                "(.param .align 4 .b8 r[4])", "(.param .align 4 .b32 r[2])"})
        EXPECT_NE(why_not(std::string(".visible .func ") + results + " acme" + two), "") << results;
}

}  // namespace
}  // namespace millrace::tenancy
