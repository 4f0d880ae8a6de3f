#include "millrace/nf/ipfix/sender.hpp"

#include <netdb.h>
#include <netinet/in.h>
#include <poll.h>
#include <sys/socket.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <string_view>

#include "millrace/base/files/output_file.hpp"

namespace millrace::nf::ipfix {
namespace {

constexpr size_t kIpv4AndUdp = 28, kIpv6AndUdp = 48;

class UdpSender : public Sender {
public:
    UdpSender(const sockaddr_storage& address, socklen_t bytes, uint32_t mtu)
        : address_(address), bytes_(bytes), mtu_(mtu),
          socket_(::socket(address.ss_family, SOCK_DGRAM | SOCK_NONBLOCK | SOCK_CLOEXEC, 0)) {
        connect();
    }
    ~UdpSender() override {
        if (socket_ >= 0) ::close(socket_);
    }
    UdpSender(const UdpSender&) = delete;
    UdpSender& operator=(const UdpSender&) = delete;

    int send(std::span<const uint8_t> message) override {
        // Without a way to the collector there may be one later.
        if (!connected_ && !connect()) return errno;
        return ::send(socket_, message.data(), message.size(), MSG_DONTWAIT | MSG_NOSIGNAL) < 0 ? errno : 0;
    }
    int refused() override {
        int error = 0;
        socklen_t bytes = sizeof error;
        return ::getsockopt(socket_, SOL_SOCKET, SO_ERROR, &error, &bytes) == 0 && error == ECONNREFUSED ? error : 0;
    }
    bool wait_for_room() override {
        pollfd room{socket_, POLLOUT, 0};
        return ::poll(&room, 1, kPatienceMs) > 0;
    }
    size_t most_bytes() const override { return mtu_ - (address_.ss_family == AF_INET6 ? kIpv6AndUdp : kIpv4AndUdp); }

private:
    /// Only a socket that is connected is told that nobody listens there.
    bool connect() {
        return connected_ = ::connect(socket_, reinterpret_cast<const sockaddr*>(&address_), bytes_) == 0;
    }
    const sockaddr_storage address_;
    const socklen_t bytes_;
    const uint32_t mtu_;
    const int socket_;
    bool connected_ = false;
};

class FileSender : public Sender {
public:
    FileSender(const ExportOptions& to, Reporter reporter) : to_(to), reporter_(std::move(reporter)) {}

    /// The file is made for the first message. What could not be written whole leaves it without a message's end: then
    /// nothing more is written.
    int send(std::span<const uint8_t> message) override {
        if (broken_) return EIO;
        try {
            if (!file_.is_open()) file_ = OutputFile(to_.file, OutputFile::Begin::empty, Readers::group, to_.where);
        } catch (const std::exception& e) {
            return give_up(e.what(), EIO);
        }
        const std::string_view bytes(reinterpret_cast<const char*>(message.data()), message.size());
        if (write_bytes(file_.descriptor(), bytes) == bytes.size()) return 0;
        const int error = errno;
        return give_up(to_.file + ": records of flows could not be written: " + std::strerror(error), error);
    }
    size_t most_bytes() const override { return to_.mtu - kIpv4AndUdp; }

private:
    int give_up(const std::string& why, int error) {
        broken_ = true;
        reporter_.trouble({to_.where, why, "its records are lost, and counted"});
        return error;
    }
    const ExportOptions to_;
    const Reporter reporter_;
    OutputFile file_;
    bool broken_ = false;
};

class NoSender : public Sender {
public:
    explicit NoSender(uint32_t mtu) : mtu_(mtu) {}
    int send(std::span<const uint8_t>) override { return ENOTCONN; }
    size_t most_bytes() const override { return mtu_ - kIpv6AndUdp; }

private:
    const uint32_t mtu_;
};

}  // namespace

std::unique_ptr<Sender> make_udp_sender(const ExportOptions& to) {
    addrinfo hints{};
    hints.ai_socktype = SOCK_DGRAM;
    hints.ai_flags = AI_NUMERICSERV;
    addrinfo* list = nullptr;
    if (const int failed = ::getaddrinfo(to.host.c_str(), to.port.c_str(), &hints, &list); failed != 0)
        throw ConfigError(Diagnostic{to.where,
                                     "the collector '" + to.host + "' has no address: " + gai_strerror(failed),
                                     "names are looked up once, at the start: write an address, or see to the name"});
    const std::unique_ptr<addrinfo, void (*)(addrinfo*)> found(list, ::freeaddrinfo);
    sockaddr_storage address{};
    std::memcpy(&address, found->ai_addr, found->ai_addrlen);
    return std::make_unique<UdpSender>(address, found->ai_addrlen, to.mtu);
}

std::unique_ptr<Sender> make_file_sender(const ExportOptions& to, Reporter reporter) {
    return std::make_unique<FileSender>(to, std::move(reporter));
}

std::unique_ptr<Sender> make_no_sender(const ExportOptions& to) { return std::make_unique<NoSender>(to.mtu); }

}  // namespace millrace::nf::ipfix
