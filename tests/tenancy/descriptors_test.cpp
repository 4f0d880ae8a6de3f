// Descriptors and memory that strangers send or leave behind: none stays open in who listens to them.
#include <gtest/gtest.h>
#include <fcntl.h>
#include <sys/socket.h>
#include <unistd.h>

#include <filesystem>
#include <latch>

#include "lab/compared/forwarding_device.hpp"
#include "millrace/device/sim/sim_device.hpp"
#include "millrace/show/socket_file.hpp"
#include "millrace/tenancy/manager/placer.hpp"
#include "tenancy/on_the_gpu.hpp"
#include "tenancy/support.hpp"

namespace millrace::tenancy {
namespace {

const Shape kShape{8, 16, 8, 2, 1};

size_t open_descriptors() {
    size_t count = 0;
    for ([[maybe_unused]] const auto& one : std::filesystem::directory_iterator("/proc/self/fd")) ++count;
    return count;
}

/// An attachment, and the tenant's end of its socket.
struct Pair {
    explicit Pair(uint32_t unasked = 1000) {
        int ends[2];
        EXPECT_EQ(socketpair(AF_UNIX, SOCK_STREAM | SOCK_CLOEXEC, 0, ends), 0);
        tenant = Descriptor(ends[0]);
        Patience patience;
        patience.unasked = unasked;
        attachment = std::make_shared<Attachment>("acme", getuid(), getpid(), std::make_unique<Descriptor>(ends[1]),
                                                  kShape, Terms(), patience);
    }
    Descriptor tenant;
    std::shared_ptr<Attachment> attachment;
};

/// Sends so many descriptors of one file, as a stranger may.
void send_descriptors(int socket, const void* bytes, size_t size, size_t count) {
    iovec part{const_cast<void*>(bytes), size};
    alignas(cmsghdr) char control[CMSG_SPACE(64 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    message.msg_control = control;
    message.msg_controllen = CMSG_SPACE(count * sizeof(int));
    cmsghdr* const head = CMSG_FIRSTHDR(&message);
    head->cmsg_level = SOL_SOCKET;
    head->cmsg_type = SCM_RIGHTS;
    head->cmsg_len = CMSG_LEN(count * sizeof(int));
    const int null = 0;
    for (size_t i = 0; i < count; ++i) std::memcpy(CMSG_DATA(head) + i * sizeof null, &null, sizeof null);
    ASSERT_EQ(sendmsg(socket, &message, 0), static_cast<ssize_t>(size));
}

TEST(Descriptors, OfTenantsAreClosedBeyondTheOneThatIsAskedFor) {
    for (const size_t count : {1, 2, 3, 64}) {
        Pair pair;
        const size_t before = open_descriptors();
        for (int i = 0; i < 100; ++i) {
            const Offer offer;
            send_descriptors(pair.tenant.get(), &offer, sizeof offer, count);
            pair.attachment->listen();
            pair.attachment->take_offer();
        }
        EXPECT_EQ(open_descriptors(), before) << count;
        EXPECT_EQ(pair.attachment->unasked(), 99u) << "one is asked for";
    }
}

TEST(Descriptors, OfManagersAreClosedBeyondTheThreeThatAreAskedFor) {
    const millrace::test::TestFolder folder;
    const show::SocketFile socket(folder / "manager.sock");
    for (const size_t count : {1, 3, 4, 64}) {
        const size_t before = open_descriptors();
        std::thread manager([&] {
            int accepted = -1;
            while (accepted < 0) accepted = accept4(socket.descriptor(), nullptr, nullptr, SOCK_CLOEXEC);
            const Descriptor guest(accepted);
            Welcome welcome;
            welcome.shape = kShape;
            send_descriptors(guest.get(), &welcome, sizeof welcome, count);
        });
        EXPECT_THROW(Member(socket.path(), "acme"), std::runtime_error) << "it is no memory";
        manager.join();
        EXPECT_EQ(open_descriptors(), before) << count;
    }
}

/// Flags of an open file are shared by all who have it: so a tenant can make calls wait that were not to.
TEST(Descriptors, WhateverATenantDoesToThemKeepNoWorkerWaiting) {
    test::Process manager([] {
        alarm(10);
        const auto memory = std::make_shared<const SharedMemory>(kShape);
        for (const int theirs : {memory->questions(), memory->answers(), memory->event()}) {
            fcntl(theirs, F_SETFL, 0);
            const uint64_t most = UINT64_MAX - 1;  // of an event's counter
            if (write(theirs, &most, sizeof most) > 0) lseek(theirs, 0, SEEK_SET);
        }
        const Mapping answers(memory->answers(), all_answer_bytes(kShape), true);
        reinterpret_cast<Rest*>(answers.at(0))->sleeps.store(1);
        Exchange exchange(memory);
        // More than there is room for words that nobody reads.
        for (uint64_t i = 0; i < 200'000; ++i) {
            if (!exchange.ask({}, i)) return 1;
            exchange.give_up();
        }
        return 0;
    });
    EXPECT_EQ(manager.end(), 0) << "142: it waited for ever";
}

/// A device that places nothing until it is let.
class Patient : public lab::ForwardingDevice {
public:
    Patient() : ForwardingDevice(std::make_shared<device::sim::SimDevice>()) {}
    std::string ptx_architecture() const override { return "sm_90"; }
    std::unique_ptr<device::Window> make_window(size_t, const std::string&) override {
        asked.count_down();
        let.wait();
        throw device::DeviceError("no room");
    }
    std::latch asked{1}, let{1};
};

TEST(Descriptors, OfTenantsThatAreGoneDoNotWaitForThePlacer) {
    const auto device = std::make_shared<Patient>();
    Placer placer(device, {.admit = [](Attachment&, const ConfinedFunction&) { return true; },
                           .chains = [] { return std::vector<Placer::Chain>(); },
                           .tell = [](const std::string&, const std::string&) {}});
    ConfinedTerms terms;
    terms.shape = kShape;
    terms.memory_bytes = 1 << 20;
    const std::vector<uint8_t> half = half_bytes(test::half_of(test::reads_and_marks(0, 1), "marker"));
    const auto put = [&](const Pair& pair) { placer.put(pair.attachment, sealed_memory(half), terms); };
    const Pair first;
    put(first);
    device->asked.wait();
    const size_t before = open_descriptors();
    for (int i = 0; i < 100; ++i) {
        const Pair next;
        put(next);
        next.attachment->part(Parting::gone);
    }
    EXPECT_LT(open_descriptors(), before + 10) << "the last one's may be there";
    device->let.count_down();
    Notice notice;
    ASSERT_EQ(recv(first.tenant.get(), &notice, sizeof notice, MSG_WAITALL), static_cast<ssize_t>(sizeof notice));
    EXPECT_EQ(notice.kind, Notice::Kind::kept);
    EXPECT_STREQ(notice.text, "no room");
}

}  // namespace
}  // namespace millrace::tenancy
