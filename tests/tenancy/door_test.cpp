// Who is let in, and what happens to all others.
#include <gtest/gtest.h>
#include <sys/socket.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cstring>
#include <filesystem>
#include <map>
#include <thread>

#include "millrace/show/socket_file.hpp"
#include "tenancy/support.hpp"

namespace millrace::tenancy {
namespace {

using namespace std::chrono_literals;
using test::be_honest;
using test::Doorway;
using test::Process;

Expected of(uid_t user) {
    Expected one{user, {8, 16, 8, 2, 1}, {}, {}};
    one.patience.answer = 10s;
    return one;
}

/// What the manager says to these words, "" where it lets them in.
std::string answer_to(Doorway& manager, const Hello& hello) {
    const Descriptor socket(show::connect_to(manager.path()));
    send(socket.get(), &hello, sizeof hello, 0);
    const auto in = manager.door().let_in(Attachment::Clock::now(), [](const std::string&) { return false; });
    Welcome welcome;
    EXPECT_EQ(recv(socket.get(), &welcome, sizeof welcome, MSG_DONTWAIT), ssize_t{sizeof welcome});
    EXPECT_EQ(in.size(), welcome.refused == 0 ? 1u : 0u);
    return welcome.why;
}

Hello hello_of(const std::string& name) {
    Hello hello;
    name.copy(hello.name, kMaxName);
    return hello;
}

TEST(Door, AsksForTheRightWords) {
    Doorway manager({{"acme.dpi", of(getuid())}});
    EXPECT_EQ(answer_to(manager, hello_of("acme.dpi")), "");
    EXPECT_NE(answer_to(manager, hello_of("acme")), "");
    EXPECT_NE(answer_to(manager, hello_of("")), "");
    Hello hello = hello_of("acme.dpi");
    hello.version = 2;
    EXPECT_EQ(answer_to(manager, hello), "the tenant speaks version 2, the manager 5");
    hello.version = kVersion;
    hello.magic ^= 1;
    EXPECT_EQ(answer_to(manager, hello), "this is no tenant of Millrace");
    hello.magic = kMagic;
    std::memset(hello.name, 'a', sizeof hello.name);
    EXPECT_EQ(answer_to(manager, hello), "the name has no end");
    EXPECT_EQ(manager.door().refused(), 5u);
}

TEST(Door, KnowsUsersByTheKernelAndNotByTheirWord) {
    if (geteuid() != 0) GTEST_SKIP() << "only root can be somebody else";
    constexpr uid_t kNobody = 65534;
    Doorway manager({{"acme.dpi", of(kNobody)}, {"ours", of(0)}});
    chmod(std::filesystem::path(manager.path()).parent_path().c_str(), 0755);
    Process own([&] { return be_honest(manager.path(), "acme.dpi"); });
    Process guest([&] { return setuid(kNobody) == 0 ? be_honest(manager.path(), "ours") : 1; });
    Process tenant([&] { return setuid(kNobody) == 0 ? be_honest(manager.path(), "acme.dpi") : 1; });
    Attachment* const attachment = manager.wait_for("acme.dpi");
    ASSERT_NE(attachment, nullptr);
    ASSERT_EQ(attachment->user(), kNobody);
    EXPECT_EQ(test::exchange_batches(*attachment, 100, 8).good, 100u);
    for (int i = 0; i < 1000 && manager.door().refused() < 2; ++i) {
        manager.door().let_in(Attachment::Clock::now(), [](const std::string&) { return false; });
        std::this_thread::sleep_for(1ms);
    }
    EXPECT_EQ(own.end(), 99) << "root is not this tenant's user";
    EXPECT_EQ(guest.end(), 99);
    manager.forget("acme.dpi");
    EXPECT_EQ(tenant.end(), 0);
}

TEST(Door, LetsATenantInOnce) {
    Doorway manager({{"acme.dpi", of(getuid())}});
    const Hello hello = hello_of("acme.dpi");
    const Descriptor first(show::connect_to(manager.path())), second(show::connect_to(manager.path()));
    for (const int socket : {first.get(), second.get()}) send(socket, &hello, sizeof hello, 0);
    const auto nobody = [](const std::string&) { return false; };
    EXPECT_EQ(manager.door().let_in(Attachment::Clock::now(), nobody).size(), 1u);
    EXPECT_EQ(manager.door().refused(), 1u);
    const Descriptor third(show::connect_to(manager.path()));
    send(third.get(), &hello, sizeof hello, 0);
    EXPECT_TRUE(manager.door().let_in(Attachment::Clock::now(), [](const std::string&) { return true; }).empty());
    EXPECT_EQ(manager.door().refused(), 2u);
}

TEST(Door, TellsATenantWhyItMayNotComeNow) {
    Doorway manager({{"acme.dpi", of(getuid())}});
    const Hello hello = hello_of("acme.dpi");
    const Descriptor first(show::connect_to(manager.path()));
    send(first.get(), &hello, sizeof hello, 0);
    const auto nobody = [](const std::string&) { return false; };
    const auto no_room = [](const std::string& name, pid_t process) {
        return name == "acme.dpi" && process == getpid() ? std::string(200, 'x') : "";
    };
    EXPECT_TRUE(manager.door().let_in(Attachment::Clock::now(), nobody, no_room).empty());
    EXPECT_EQ(manager.door().refused(), 1u);
    Welcome welcome;
    ASSERT_EQ(recv(first.get(), &welcome, sizeof welcome, MSG_WAITALL), static_cast<ssize_t>(sizeof welcome));
    EXPECT_EQ(welcome.refused, 1u);
    EXPECT_EQ(std::string(welcome.why), std::string(127, 'x')) << "as much as there is room for";
    const Descriptor second(show::connect_to(manager.path()));
    send(second.get(), &hello, sizeof hello, 0);
    const auto room = [](const std::string&, pid_t) { return std::string(); };
    EXPECT_EQ(manager.door().let_in(Attachment::Clock::now(), nobody, room).size(), 1u);
}

TEST(Door, IsNotHeldByThoseWhoSayNothing) {
    Doorway manager({{"acme.dpi", of(getuid())}});
    std::vector<std::unique_ptr<Descriptor>> silent;
    for (size_t i = 0; i < Door::kMaxGuests; ++i)
        silent.push_back(std::make_unique<Descriptor>(show::connect_to(manager.path())));
    const Descriptor honest(show::connect_to(manager.path()));
    const Hello hello = hello_of("acme.dpi");
    send(honest.get(), &hello, sizeof hello, 0);
    const auto nobody = [](const std::string&) { return false; };
    const auto now = Attachment::Clock::now();
    EXPECT_TRUE(manager.door().let_in(now, nobody).empty());
    manager.door().let_in(now + Door::kGreeting + 1ms, nobody);
    EXPECT_EQ(manager.door().let_in(now + Door::kGreeting + 2ms, nobody).size(), 1u);
}

TEST(Member, TrustsNoManagerWithMemoryThatCouldGo) {
    const millrace::test::TestFolder folder;
    const show::SocketFile socket(folder / "false.sock");
    Process tenant([&] {
        try {
            Member member(folder / "false.sock", "acme.dpi");
        } catch (const std::runtime_error& e) {
            return std::string(e.what()).find("no memory that could be trusted") != std::string::npos ? 7 : 8;
        }
        return 0;
    });
    int accepted = -1;
    while (accepted < 0) accepted = accept4(socket.descriptor(), nullptr, nullptr, 0);
    const Descriptor guest(accepted);
    Welcome welcome;
    welcome.shape = {8, 16, 8, 2, 1};
    send(guest.get(), &welcome, sizeof welcome, 0);
    EXPECT_EQ(tenant.end(), 7);
}

}  // namespace
}  // namespace millrace::tenancy
