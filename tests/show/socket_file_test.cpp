// Who gets a path, who does not, and what becomes of it.
#include "millrace/show/socket_file.hpp"

#include <sys/un.h>

#include <atomic>
#include <filesystem>
#include <fstream>
#include <thread>

#include "show/support.hpp"

namespace millrace::show {
namespace {

namespace fs = std::filesystem;

/// What a process leaves that was killed.
void leave_socket(const std::string& path) {
    const Descriptor made(socket(AF_UNIX, SOCK_STREAM, 0));
    sockaddr_un address{};
    address.sun_family = AF_UNIX;
    path.copy(address.sun_path, path.size());
    ASSERT_EQ(bind(made.get(), reinterpret_cast<const sockaddr*>(&address), sizeof address), 0);
    ASSERT_EQ(listen(made.get(), 1), 0);
}

bool answers(const std::string& path) {
    try {
        const Descriptor client(connect_to(path));
        return true;
    } catch (const std::runtime_error&) {
        return false;
    }
}

TEST(SocketFile, IsItsUsersAloneWhateverTheUmaskAndGoesWithItsProcess) {
    const test::TestFolder folder;
    const std::string path = folder / "run.sock";
    const mode_t before = umask(0);
    {
        const SocketFile file(path);
        struct stat there{};
        ASSERT_EQ(lstat(path.c_str(), &there), 0);
        EXPECT_TRUE(S_ISSOCK(there.st_mode));
        EXPECT_EQ(there.st_mode & 0777, 0600u);
        EXPECT_EQ(there.st_uid, geteuid());
        EXPECT_TRUE(answers(path));
    }
    umask(before);
    EXPECT_FALSE(fs::exists(fs::symlink_status(path)));
    EXPECT_TRUE(fs::is_empty(fs::path(path).parent_path())) << "nothing is left";
}

TEST(SocketFile, ReplacesThatOfADeadProcessAndLeavesThatOfALivingOne) {
    const test::TestFolder folder;
    const std::string path = folder / "run.sock";
    leave_socket(path);
    EXPECT_FALSE(answers(path));
    const SocketFile file(path);
    EXPECT_TRUE(answers(path));
    EXPECT_THROW(SocketFile second(path), Taken);
    EXPECT_TRUE(answers(path)) << "the first is none the worse";
    // It lives, but nobody takes its connections: their queue is full.
    std::vector<std::unique_ptr<Descriptor>> queue;
    for (unsigned i = 0; i < 200; ++i) {
        queue.push_back(std::make_unique<Descriptor>(socket(AF_UNIX, SOCK_STREAM | SOCK_NONBLOCK, 0)));
        sockaddr_un address{};
        address.sun_family = AF_UNIX;
        path.copy(address.sun_path, path.size());
        if (connect(queue.back()->get(), reinterpret_cast<const sockaddr*>(&address), sizeof address) != 0) break;
    }
    ASSERT_LT(queue.size(), 200u);
    EXPECT_THROW(SocketFile third(path), Taken);
}

TEST(SocketFile, LeavesWhatIsNoSocket) {
    const test::TestFolder folder;
    const std::string file = folder / "file", link = folder / "link", dangling = folder / "dangling";
    std::ofstream(file) << "precious";
    leave_socket(folder / "dead.sock");
    fs::create_symlink(folder / "dead.sock", link);
    fs::create_symlink(folder / "nowhere", dangling);
    fs::create_directory(folder / "folder");
    for (const char* name : {"file", "link", "dangling", "folder"}) {
        EXPECT_THROW(SocketFile made(folder / name), std::runtime_error) << name;
        EXPECT_TRUE(fs::exists(fs::symlink_status(folder / name))) << name;
    }
    EXPECT_EQ(fs::file_size(file), 8u);
    EXPECT_FALSE(fs::exists(folder / "nowhere"));
    EXPECT_THROW(SocketFile made(folder / "missing/run.sock"), std::runtime_error);
    EXPECT_THROW(SocketFile made(""), std::runtime_error);
    EXPECT_THROW(SocketFile made(folder / std::string(200, 'x')), std::runtime_error);
}

TEST(SocketFile, DoesNotTakeAwayAnothersOnItsWayOut) {
    const test::TestFolder folder;
    const std::string path = folder / "run.sock";
    auto first = std::make_unique<SocketFile>(path);
    ASSERT_EQ(unlink(path.c_str()), 0);
    const SocketFile second(path);
    first.reset();
    EXPECT_TRUE(answers(path));
}

/// Many processes begin at once where a dead one has left its socket.
TEST(SocketFile, GoesToOneOfMany) {
    const test::TestFolder folder;
    const std::string path = folder / "run.sock";
    for (unsigned round = 0; round < 20; ++round) {
        if (!fs::exists(fs::symlink_status(path))) leave_socket(path);
        std::atomic<unsigned> won{0}, refused{0};
        std::atomic<bool> begin{false};
        std::vector<std::unique_ptr<SocketFile>> files(16);
        std::vector<std::thread> threads;
        for (auto& file : files)
            threads.emplace_back([&] {
                while (!begin) std::this_thread::yield();
                try {
                    file = std::make_unique<SocketFile>(path);
                    ++won;
                } catch (const Taken&) {
                    ++refused;
                }
            });
        begin = true;
        for (std::thread& thread : threads) thread.join();
        EXPECT_EQ(won, 1u);
        EXPECT_EQ(refused, 15u);
        EXPECT_TRUE(answers(path));
    }
}

}  // namespace
}  // namespace millrace::show
