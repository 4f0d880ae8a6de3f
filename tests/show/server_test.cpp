// Clients that keep to the protocol are served; others harm nobody.
#include "millrace/show/server.hpp"

#include <sys/resource.h>

#include <random>

#include "show/support.hpp"

namespace millrace::show {
namespace {

std::string refuse(const std::string& why) { return "refused: " + why; }

/// Answers with what it is asked; "N bytes" with so many.
std::string echo(std::string_view request) {
    if (request == "throw") throw std::runtime_error("as asked");
    if (request.ends_with(" bytes")) return std::string(std::stoul(std::string(request)), 'x');
    return "answer to " + std::string(request);
}

class ServerTest : public testing::Test {
protected:
    const test::TestFolder folder_;
    const std::string path_ = folder_ / "run.sock";
    std::unique_ptr<Server> server_ = std::make_unique<Server>(path_, echo, refuse);

    void expect_service() { EXPECT_EQ(ask(path_, "hello"), "answer to hello"); }
};

TEST_F(ServerTest, AnswersLineByLine) {
    expect_service();
    const Raw client(path_);
    ASSERT_TRUE(client.send("one\ntwo\nthree"));
    EXPECT_EQ(client.read(2), "answer to one\nanswer to two\n");
    ASSERT_TRUE(client.send("\nthrow\n\n"));
    EXPECT_EQ(client.read(3), "answer to three\nrefused: as asked\nanswer to \n");
    // A line without an end, as of `printf … | socat - UNIX:…`.
    ASSERT_TRUE(client.send("four"));
    client.send_no_more();
    EXPECT_EQ(client.read(), "answer to four\n");
    EXPECT_TRUE(client.is_closed());
}

TEST_F(ServerTest, AnswersAThousandRequestsThatCameAtOnce) {
    const Raw client(path_);
    std::string requests, answers;
    for (unsigned i = 0; i < 1000; ++i) {
        requests += std::to_string(i) + "\n";
        answers += "answer to " + std::to_string(i) + "\n";
    }
    ASSERT_TRUE(client.send(requests));
    client.send_no_more();
    EXPECT_EQ(client.read(), answers);
}

TEST_F(ServerTest, RefusesRequestsThatAreTooLong) {
    const Raw whole(path_), endless(path_);
    ASSERT_TRUE(whole.send(std::string(Server::kMaxRequestBytes - 1, 'a') + "\n"));
    EXPECT_EQ(whole.read(1).size(), Server::kMaxRequestBytes - 1 + 11);
    endless.send(std::string(1 << 20, 'b'));
    EXPECT_EQ(endless.read(1).substr(0, 9), "refused: ");
    EXPECT_TRUE(endless.is_closed());
    expect_service();
}

TEST_F(ServerTest, OutlivesGarbage) {
    std::mt19937 random(7);
    for (unsigned round = 0; round < 300; ++round) {
        const Raw client(path_);
        std::string bytes(random() % 9000, '\0');
        for (char& byte : bytes) byte = static_cast<char>(random() % 7 == 0 ? '\n' : random());
        client.send(bytes);
        if (round % 3 == 0) client.send_no_more();
        if (round % 2 == 0) client.read(1, 100);
    }
    expect_service();
}

TEST_F(ServerTest, HasRoomForOneMoreThoughAThousandAreConnected) {
    rlimit limit{};
    ASSERT_EQ(getrlimit(RLIMIT_NOFILE, &limit), 0);
    rlimit wanted = limit;
    wanted.rlim_cur = std::min<rlim_t>(4096, limit.rlim_max);
    ASSERT_EQ(setrlimit(RLIMIT_NOFILE, &wanted), 0);
    {
        std::vector<std::unique_ptr<Raw>> silent;
        for (unsigned i = 0; i < 1000; ++i) {
            silent.push_back(std::make_unique<Raw>(path_));
            if (i % 3 == 0) silent.back()->send("half a req");
            if (i % 100 == 0) expect_service();
        }
        expect_service();
        EXPECT_TRUE(silent.front()->is_closed()) << "the most silent has made room";
    }
    expect_service();
    setrlimit(RLIMIT_NOFILE, &limit);
}

TEST_F(ServerTest, ServesOthersWhileSomeDoNotRead) {
    constexpr size_t kBytes = 6'000'000;
    const auto request = std::to_string(kBytes) + " bytes\n";
    std::vector<std::unique_ptr<Raw>> slow;
    std::string told;
    for (unsigned i = 0; i < 14 && told.empty(); ++i) {
        slow.push_back(std::make_unique<Raw>(path_));
        ASSERT_TRUE(slow.back()->send(request));
        if (slow.size() < 10) {
            expect_service();
            continue;
        }
        // What waits to be read is bounded, whoever asks.
        const std::string answer = ask(path_, "hello");
        if (answer.starts_with("refused: ")) told = answer;
    }
    EXPECT_NE(told.find("busy"), std::string::npos) << told;
    EXPECT_EQ(slow.front()->read(1).size(), kBytes + 1) << "all of it is there for who reads at last";
    slow.clear();
    for (unsigned i = 0; i < 100 && ask(path_, "hello") != "answer to hello"; ++i) usleep(10'000);
    expect_service();
}

TEST_F(ServerTest, GivesUpWhoDoesNothing) {
    server_.reset();
    server_ = std::make_unique<Server>(path_, echo, refuse, std::chrono::milliseconds(200));
    const Raw silent(path_), half(path_), unread(path_);
    half.send("half a req");
    unread.send("30000000 bytes\n");
    EXPECT_TRUE(silent.is_closed());
    EXPECT_TRUE(half.is_closed());
    usleep(600'000);
    EXPECT_LT(unread.read(1).size(), 30'000'000u) << "it has not read for so long";
    expect_service();
}

TEST_F(ServerTest, OutlivesClientsThatGoWithoutTheirAnswer) {
    for (unsigned i = 0; i < 500; ++i) {
        const Raw client(path_);
        client.send(i % 2 == 0 ? "1000000 bytes\n" : "one\ntwo\nthr");
    }
    expect_service();
}

TEST_F(ServerTest, EndsWhileClientsAreConnected) {
    const Raw silent(path_), slow(path_);
    slow.send("9000000 bytes\n");
    expect_service();
    server_.reset();
    EXPECT_THROW(ask(path_, "hello"), std::runtime_error);
}

TEST(Client, IsToldWhenNobodyAnswers) {
    const test::TestFolder folder;
    EXPECT_THROW(ask(folder / "none.sock", "hello"), std::runtime_error);
    const SocketFile mute(folder / "mute.sock");
    EXPECT_THROW(ask(folder / "mute.sock", "hello", std::chrono::seconds(1)), std::runtime_error);
}

}  // namespace
}  // namespace millrace::show
