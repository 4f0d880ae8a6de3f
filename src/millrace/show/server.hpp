// Answers requests at a Unix socket, in a thread of its own.
#pragma once

#include <chrono>
#include <functional>
#include <memory>
#include <string>
#include <string_view>
#include <thread>
#include <vector>

#include "millrace/show/socket_file.hpp"

namespace millrace::show {

/// Clients send lines, and get a line for each. What they do costs others nothing: how many there are, how long a
/// request is, what waits to be read, and for how long a client may do nothing are bounded.
class Server {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr size_t kMaxClients = 16;              ///< a further one takes the place of the most silent
    static constexpr size_t kMaxRequestBytes = 4096;       ///< with its end
    static constexpr size_t kMaxWaitingBytes = 64u << 20;  ///< of all answers that wait to be read; then: "busy"
    static constexpr std::chrono::seconds kPatience{10};   ///< with a client that neither asks nor reads

    /// Gives the answer to a request, both without the end of the line; may throw, and is called by one thread.
    using Answer = std::function<std::string(std::string_view request)>;
    /// Says that a request went wrong, as `Answer` does.
    using Refusal = std::function<std::string(const std::string& why)>;

    /// Throws as SocketFile does.
    Server(std::string path, Answer answer, Refusal refusal, std::chrono::milliseconds patience = kPatience);
    ~Server();
    Server(const Server&) = delete;
    Server& operator=(const Server&) = delete;

    const std::string& path() const { return socket_.path(); }

private:
    struct Client {
        explicit Client(int descriptor) : socket(std::make_unique<Descriptor>(descriptor)), since(Clock::now()) {}
        std::unique_ptr<Descriptor> socket;
        std::string request;  // as far as it has come; what is behind a line's end is the next one
        std::string answer;   // that is being sent
        size_t sent = 0;
        Clock::time_point since;  // when it did something last
        bool is_leaving = false;  // once it has its answer
        bool is_gone = false;
    };
    void run();
    void accept_one();
    static void receive(Client& client);
    bool answer(Client& client) const;
    void work(Client& client) const;
    static bool send(Client& client);
    std::string answer_to(std::string_view request) const;
    size_t waiting_bytes() const;

    const Answer answer_;
    const Refusal refusal_;
    const std::chrono::milliseconds patience_;
    SocketFile socket_;
    const Descriptor stop_;
    std::vector<Client> clients_;
    std::thread thread_;
};

}  // namespace millrace::show
