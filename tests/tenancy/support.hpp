// Tenants that are processes of their own, for tests.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/tenancy/manager/door.hpp"
#include "millrace/tenancy/member/member.hpp"
#include "support/test_folder.hpp"

namespace millrace::tenancy::test {

/// A process that runs `work` and ends with what it returns; 99 where it throws. Killed with the object.
class Process {
public:
    explicit Process(const std::function<int()>& work);
    ~Process();
    Process(const Process&) = delete;
    Process& operator=(const Process&) = delete;
    void signal(int number) const;
    /// Waits for it: its exit status, or 128 and the signal that ended it.
    int end();

private:
    pid_t number_;
};

/// A door, and who has come in.
class Doorway {
public:
    explicit Doorway(std::map<std::string, Expected> expected);
    std::string path() const { return folder_ / "tenants.sock"; }
    Door& door() { return *door_; }
    /// Waits until a tenant of that name is attached, for five seconds at most; null then.
    Attachment* wait_for(const std::string& name);
    void forget(const std::string& name) { in_.erase(name); }

    /// One packet of whose bytes a tenant may see these, and change as many as its shape has.
    static Shown shown(std::span<const uint8_t> bytes) { return {{}, bytes, 0xffff}; }

private:
    millrace::test::TestFolder folder_;
    std::unique_ptr<Door> door_;
    std::map<std::string, std::unique_ptr<Attachment>> in_;
};

/// Asks batch after batch, `count` in all, as fast as answers come; each reply counted, and each good answer checked:
/// an honest tenant gives each byte plus 1 back, and the first byte modulo the outcomes as outcome.
struct Outcome {
    uint64_t asked = 0, good = 0, absent = 0, bad = 0;  ///< bad: good answers whose bytes are not the honest one's
};
Outcome exchange_batches(Attachment& attachment, uint64_t count, uint32_t packets = 32);

/// Until the manager lets go; `at_each` is called before each answer with its number, from 1.
int be_honest(const std::string& manager, const std::string& name, const std::function<void(uint64_t)>& at_each = {});

/// Whether it comes true in time.
bool wait_until(const std::function<bool()>& what, std::chrono::seconds most = std::chrono::seconds(120));

/// Runs a network function as `millrace tenant` does: attaches again and again for `life`, or until the manager is
/// gone.
int serve(const std::string& manager, const std::string& name, const std::string& kind, const std::string& options,
          std::chrono::seconds life = std::chrono::seconds(60));

}  // namespace millrace::tenancy::test
