// Tenants in processes of their own: honest ones, hostile ones, and ones that die in the middle of each request.
#include <fcntl.h>
#include <gtest/gtest.h>
#include <poll.h>
#include <signal.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cstring>
#include <map>
#include <random>
#include <thread>

#include "millrace/show/socket_file.hpp"
#include "tenancy/support.hpp"

namespace millrace::tenancy {
namespace {

using namespace std::chrono_literals;
using test::be_honest;
using test::Doorway;
using test::exchange_batches;
using test::Process;

Expected expected(std::chrono::nanoseconds answer = 10s) {
    Expected one{getuid(), {64, 40, 20, 3, 1}, {}, {}};
    one.patience.answer = answer;
    return one;
}

TEST(Tenants, AnswerEachBatchOnceAndInOrder) {
    for (const Shape& shape :
         {Shape{1, 1, 1, 1, 1}, Shape{64, 40, 20, 3, 1}, Shape{256, 1518, 1518, 30, 4}, Shape{8, 20, 0, 2, 1}}) {
        Expected one = expected();
        one.shape = shape;
        Doorway manager({{"acme.dpi", one}});
        Process tenant([&] { return be_honest(manager.path(), "acme.dpi"); });
        Attachment* const attachment = manager.wait_for("acme.dpi");
        ASSERT_NE(attachment, nullptr);
        const auto seen = exchange_batches(*attachment, 1000, shape.packets);
        EXPECT_EQ(seen.good, 1000u);
        EXPECT_EQ(seen.bad, 0u);
        EXPECT_EQ(attachment->user(), getuid());
        EXPECT_EQ(attachment->lane(0).counters().good.get(), 1000u);
        manager.forget("acme.dpi");
        EXPECT_EQ(tenant.end(), 0) << "it notices that the manager has let go";
    }
}

TEST(Tenants, SeeNoByteThatTheyDidNotDeclare) {
    Doorway manager({{"acme.dpi", expected()}});
    Process tenant([&] {
        Member member(manager.path(), "acme.dpi");
        for (int seen = 0; seen < 4;) {
            const auto batch = member.next(1s);
            if (!batch) return 1;
            ++seen;
            // All that it can read, not only what it is handed.
            const auto* const all = reinterpret_cast<const uint8_t*>(batch->question) -
                                    question_at(member.shape(), 0, batch->number);
            if (memmem(all, kSlots * question_bytes(member.shape()), "SECRET", 6) != nullptr) return 2;
            if (batch->in(0).size() != (seen == 1 ? 40u : 4u)) return 3;
            if (seen == 4 && memmem(batch->question + 1, 40, "declared", 8) != nullptr) return 4;
            batch->outcome(0) = 0;
            member.answer(*batch);
        }
        return 0;
    });
    Attachment* const attachment = manager.wait_for("acme.dpi");
    ASSERT_NE(attachment, nullptr);
    const std::string packet = "this was declared, as 40 bytes of header  SECRET payload SECRET";
    Exchange::Taken taken;
    // The fourth has the first one's slot.
    for (const std::string& text : {packet, std::string("tiny"), std::string("tiny"), std::string("tiny")}) {
        const Shown view = Doorway::shown({reinterpret_cast<const uint8_t*>(text.data()), text.size()});
        ASSERT_TRUE(attachment->lane(0).ask({&view, 1}, 1, Attachment::Clock::now()));
        while (attachment->lane(0).next(taken, Attachment::Clock::now()) == Lane::Reply::waits)
            std::this_thread::yield();
    }
    EXPECT_EQ(tenant.end(), 0);
}

TEST(Tenants, CantWriteToQuestionsNorTakeMemoryAway) {
    const SharedMemory exchange({64, 40, 20, 3, 1});
    const size_t bytes = all_question_bytes(exchange.shape());
    EXPECT_EQ(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, exchange.questions(), 0), MAP_FAILED);
    void* const read = mmap(nullptr, bytes, PROT_READ, MAP_SHARED, exchange.questions(), 0);
    ASSERT_NE(read, MAP_FAILED);
    EXPECT_NE(mprotect(read, bytes, PROT_READ | PROT_WRITE), 0);
    munmap(read, bytes);
    EXPECT_LT(pwrite(exchange.questions(), "x", 1, 0), 0);
    const int again = open(("/proc/self/fd/" + std::to_string(exchange.questions())).c_str(), O_RDWR);
    if (again >= 0) {
        EXPECT_EQ(mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_SHARED, again, 0), MAP_FAILED);
        close(again);
    }
    for (const int memory : {exchange.questions(), exchange.answers()})
        for (const off_t size : {off_t{0}, off_t{1}, off_t{1} << 30}) {
            EXPECT_NE(ftruncate(memory, size), 0);
            EXPECT_NE(fcntl(memory, F_ADD_SEALS, F_SEAL_WRITE), 0) << "a tenant must not seal what the manager writes";
        }
}

/// A step at which a tenant can end.
struct Step {
    const char* name;
    std::function<void(const std::string& manager)> work;  ///< ends with SIGKILL
    bool attaches;
};
[[noreturn]] void die_at_once() {
    kill(getpid(), SIGKILL);
    _exit(98);
}
Hello hello_as(const std::string& name) {
    Hello hello;
    name.copy(hello.name, kMaxName);
    return hello;
}

std::vector<Step> steps() {
    const auto batch_of = [](Member& member) {
        while (true)
            if (const auto batch = member.next(1s)) return *batch;
    };
    return {
        {"connected", [](const std::string& manager) { show::connect_to(manager), die_at_once(); }, false},
        {"half a greeting",
         [](const std::string& manager) {
             const Hello hello = hello_as("mallory");
             send(show::connect_to(manager), &hello, sizeof hello / 2, 0);
             die_at_once();
         },
         false},
        {"greeted, before it is heard",
         [](const std::string& manager) {
             const Hello hello = hello_as("mallory");
             send(show::connect_to(manager), &hello, sizeof hello, 0);
             die_at_once();
         },
         false},
        {"welcomed",
         [](const std::string& manager) {
             const Hello hello = hello_as("mallory");
             const int socket = show::connect_to(manager);
             send(socket, &hello, sizeof hello, 0);
             pollfd waiting{socket, POLLIN, 0};
             poll(&waiting, 1, -1);
             die_at_once();
         },
         true},
        {"attached",
         [](const std::string& manager) {
             const Member member(manager, "mallory");
             die_at_once();
         },
         true},
        {"asked",
         [=](const std::string& manager) {
             Member member(manager, "mallory");
             batch_of(member);
             die_at_once();
         },
         true},
        {"half an answer",
         [=](const std::string& manager) {
             Member member(manager, "mallory");
             const auto batch = batch_of(member);
             batch.outcome(0) = 1;
             std::memset(batch.back(0).data(), 0xee, batch.back(0).size());
             die_at_once();
         },
         true},
        {"answered",
         [=](const std::string& manager) {
             Member member(manager, "mallory");
             const auto batch = batch_of(member);
             for (uint32_t i = 0; i < batch.count; ++i) batch.outcome(i) = 0;
             member.answer(batch);
             die_at_once();
         },
         true},
        {"many answered",
         [](const std::string& manager) {
             be_honest(manager, "mallory", [](uint64_t number) {
                 if (number == 20) die_at_once();
             });
         },
         true},
    };
}

TEST(Tenants, KilledAtAnyStepCostOthersNothing) {
    Doorway manager({{"acme.dpi", expected()}, {"mallory", expected()}});
    Process neighbour([&] { return be_honest(manager.path(), "acme.dpi"); });
    Attachment* const other = manager.wait_for("acme.dpi");
    ASSERT_NE(other, nullptr);
    for (const Step& step : steps()) {
        SCOPED_TRACE(step.name);
        Process tenant([&] { return step.work(manager.path()), 0; });
        Attachment* const own = step.attaches ? manager.wait_for("mallory") : nullptr;
        if (step.attaches) {
            ASSERT_NE(own, nullptr);
            const auto seen = exchange_batches(*own, 100);
            EXPECT_EQ(own->parting(), Parting::gone);
            EXPECT_EQ(seen.good + seen.absent, seen.asked) << "each batch has one reply";
            EXPECT_EQ(own->lane(0).counters().lost.get(), seen.absent);
            EXPECT_LT(seen.asked, 100u);
        }
        EXPECT_EQ(tenant.end(), 128 + SIGKILL);
        const auto seen = exchange_batches(*other, 200);
        EXPECT_EQ(seen.good, 200u);
        EXPECT_EQ(seen.bad, 0u);
        manager.forget("mallory");
        // And it may come again.
        Process again([&] { return be_honest(manager.path(), "mallory"); });
        const auto begin = Attachment::Clock::now();
        Attachment* const back = manager.wait_for("mallory");
        ASSERT_NE(back, nullptr);
        EXPECT_EQ(exchange_batches(*back, 10).good, 10u);
        EXPECT_LT(Attachment::Clock::now() - begin, 5s);
        manager.forget("mallory");
    }
}

TEST(Tenants, AreNamedAndDetachedForWhatTheyDo) {
    struct Case {
        Parting parting;
        std::function<int(const std::string&)> work;
        std::chrono::nanoseconds patience;
    };
    const std::vector<Case> cases = {
        {Parting::late,
         [](const std::string& manager) {
             Member member(manager, "mallory");
             while (member.attached()) std::this_thread::sleep_for(1ms);
             return 0;
         },
         2ms},
        {Parting::wrong,
         [](const std::string& manager) {
             Member member(manager, "mallory");
             while (member.attached())
                 if (const auto batch = member.next(10ms)) {
                     for (uint32_t i = 0; i < batch->count; ++i) batch->outcome(i) = 3;  // of 0, 1, 2
                     member.answer(*batch);
                 }
             return 0;
         },
         10s},
        {Parting::flood,
         [](const std::string& manager) {
             Member member(manager, "mallory");
             while (send(member.socket(), "more", 4, MSG_NOSIGNAL) > 0) {
             }
             return 0;
         },
         10s},
        {Parting::gone,
         [](const std::string& manager) {
             Member member(manager, "mallory");
             return 0;
         },
         10s},
    };
    for (const Case& one : cases) {
        SCOPED_TRACE(name_of(one.parting));
        Doorway manager({{"acme.dpi", expected()}, {"mallory", expected(one.patience)}});
        Process neighbour([&] { return be_honest(manager.path(), "acme.dpi"); });
        Process tenant([&] { return one.work(manager.path()); });
        Attachment *const own = manager.wait_for("mallory"), *const other = manager.wait_for("acme.dpi");
        ASSERT_NE(own, nullptr);
        ASSERT_NE(other, nullptr);
        const auto seen = exchange_batches(*own, 100'000);
        EXPECT_EQ(own->parting(), one.parting);
        EXPECT_EQ(own->name(), "mallory");
        EXPECT_EQ(seen.good, 0u);
        EXPECT_EQ(seen.absent, seen.asked);
        EXPECT_FALSE(own->lane(0).ask({}, 1, Attachment::Clock::now()));
        EXPECT_EQ(exchange_batches(*other, 500).good, 500u);
        manager.forget("mallory");
        EXPECT_EQ(tenant.end(), 0);
    }
}

TEST(Tenants, StoppedOnesAreLateAndOthersAreNot) {
    Doorway manager({{"mallory", expected(5ms)}});
    Process tenant([&] { return be_honest(manager.path(), "mallory"); });
    Attachment* const own = manager.wait_for("mallory");
    ASSERT_NE(own, nullptr);
    tenant.signal(SIGSTOP);
    exchange_batches(*own, 1000);
    EXPECT_EQ(own->parting(), Parting::late);
    EXPECT_GE(own->lane(0).counters().late.get(), 4u);
}

// What is in the answers changes all the time, and may be anything at any moment.
TEST(Tenants, WriteAnythingAnywhereAndOnlyDeclaredOutcomesGetThrough) {
    Expected wild = expected(1ms);
    wild.patience.wrong = wild.patience.late = 1u << 30;
    Doorway manager({{"mallory", wild}});
    Process tenant([&] {
        Member member(manager.path(), "mallory");
        std::mt19937_64 random(1);
        while (member.attached())
            if (const auto batch = member.next(1ms)) {
                auto* const all = reinterpret_cast<uint8_t*>(batch->answer);
                for (int i = 0; i < 200; ++i) {
                    const uint64_t value = random() % 4 == 0 ? batch->number : random() % 5;
                    std::memcpy(all + random() % (answer_bytes(member.shape()) - 8), &value, 8);
                }
                if (random() % 2 == 0) member.answer(*batch);
            }
        return 0;
    });
    Attachment* const own = manager.wait_for("mallory");
    ASSERT_NE(own, nullptr);
    const std::vector<uint8_t> bytes(40);
    const std::span<const uint8_t> view(bytes);
    const std::vector<Shown> packets(64, Doorway::shown(view));
    Exchange::Taken taken;
    std::map<Lane::Reply, uint64_t> replies;
    for (uint64_t asked = 0, told = 0; told < 2000;) {
        while (asked < 2000 && own->lane(0).ask(packets, asked, Attachment::Clock::now())) ++asked;
        const auto reply = own->lane(0).next(taken, Attachment::Clock::now());
        if (reply == Lane::Reply::waits) continue;
        ASSERT_EQ(taken.id, told++);
        ++replies[reply];
        if (reply != Lane::Reply::good) continue;
        ASSERT_EQ(taken.count, 64u);
        for (uint32_t i = 0; i < taken.count; ++i) ASSERT_LT(taken.outcomes[i], 3u);
    }
    EXPECT_GT(replies[Lane::Reply::late] + replies[Lane::Reply::wrong], 10u);
    EXPECT_TRUE(own->attached());
}

}  // namespace
}  // namespace millrace::tenancy
