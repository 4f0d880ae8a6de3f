#include "millrace/show/client.hpp"

#include <poll.h>
#include <sys/socket.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "millrace/show/socket_file.hpp"

namespace millrace::show {
namespace {

/// A run that never ends its line is no run.
constexpr size_t kMaxBytes = size_t{1} << 30;

}  // namespace

std::string ask(const std::string& path, const std::string& request, std::chrono::seconds patience) {
    const Descriptor socket(connect_to(path));
    const std::string line = request + '\n';
    if (::send(socket.get(), line.data(), line.size(), MSG_NOSIGNAL) != static_cast<ssize_t>(line.size()))
        throw std::runtime_error(path + ": the run takes no request: " + std::strerror(errno));
    std::string answer;
    char bytes[1 << 16];
    while (answer.empty() || answer.back() != '\n') {
        pollfd waiting{socket.get(), POLLIN, 0};
        if (poll(&waiting, 1, static_cast<int>(std::chrono::milliseconds(patience).count())) <= 0)
            throw std::runtime_error(path + ": the run does not answer");
        const ssize_t n = recv(socket.get(), bytes, sizeof bytes, 0);
        if (n <= 0 || answer.size() > kMaxBytes) throw std::runtime_error(path + ": the run's answer breaks off");
        answer.append(bytes, static_cast<size_t>(n));
    }
    answer.pop_back();
    return answer;
}

}  // namespace millrace::show
