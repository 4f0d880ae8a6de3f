// Lets tenants' processes in at a Unix socket: who they are the kernel says, and a list says who may be whom.
#pragma once

#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/show/socket_file.hpp"
#include "millrace/tenancy/manager/attachment.hpp"

namespace millrace::tenancy {

/// A tenant that may attach.
struct Expected {
    uid_t user = 0;  ///< whose processes may be it
    Shape shape;
    Terms terms;
    Patience patience;
    /// What PTX its device half may be, for the GPU that it runs on then; empty: it runs in its process alone.
    std::string architecture = {};
    ConfinedTerms confined = {};  ///< there
};

/// Tells somebody who wants to attach why the manager has nothing to do with it. Never waits.
void send_refusal(int socket, const std::string& why);

class Door {
public:
    using Clock = Attachment::Clock;
    static constexpr size_t kMaxGuests = 16;                     ///< that have not said who they are
    static constexpr std::chrono::milliseconds kGreeting{1000};  ///< within which they must

    /// `mode`: of the socket. Throws as show::SocketFile does.
    Door(std::string path, std::map<std::string, Expected> expected, mode_t mode = 0600);

    /// From now on these may attach.
    void expect(std::map<std::string, Expected> expected) { expected_ = std::move(expected); }
    /// Whether a tenant of that name is attached already.
    using IsThere = std::function<bool(const std::string& name)>;
    /// Why a process of a tenant may not attach now, though it is one; empty: it may.
    using WhyNot = std::function<std::string(const std::string& name, pid_t process)>;
    /// Hears who has come, and never waits. Each refusal is told with a reason.
    std::vector<std::unique_ptr<Attachment>> let_in(
        Clock::time_point now, const IsThere& is_there,
        const WhyNot& why_not = [](const std::string&, pid_t) { return std::string(); });

    uint64_t refused() const { return refused_; }
    const std::string& path() const { return socket_.path(); }
    int socket() const { return socket_.descriptor(); }  ///< readable when somebody has come
    /// Whether somebody has come who has not said yet who it is.
    bool has_guests() const { return !guests_.empty(); }

private:
    struct Guest {
        std::unique_ptr<Descriptor> socket;
        Clock::time_point since;
        Hello hello;
        size_t heard = 0;  ///< bytes of it
    };
    void accept_all(Clock::time_point now);
    std::unique_ptr<Attachment> greet(Guest& guest, const IsThere& is_there, const WhyNot& why_not);
    void refuse(const Guest& guest, const std::string& why);

    show::SocketFile socket_;
    std::map<std::string, Expected> expected_;
    std::vector<Guest> guests_;
    uint64_t refused_ = 0;
};

}  // namespace millrace::tenancy
