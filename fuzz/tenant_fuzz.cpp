// Any bytes as what a tenant's process does: its greeting, messages with descriptors and memory, its answers at any
// moment, its device half, and what that says on a GPU. Each batch gets one reply, in order; nothing comes out that the
// terms do not have; nothing goes into the tenant's window but what belongs there; no descriptor stays open.
#include <fcntl.h>
#include <sys/eventfd.h>
#include <sys/mman.h>
#include <sys/socket.h>
#include <unistd.h>

#include <algorithm>
#include <cstdlib>
#include <deque>
#include <filesystem>
#include <optional>

#include "fuzz/entry.hpp"
#include "millrace/tenancy/manager/door.hpp"

namespace tenant_fuzz {

using namespace millrace;
using namespace millrace::tenancy;
using Clock = Attachment::Clock;
constexpr Shape kShape{.packets = 4, .in_bytes = 24, .back_bytes = 12, .outcomes = 2, .lanes = 2};

void require(bool holds) {
    if (!holds) std::abort();
}

/// The input, and zeros behind it.
class Input {
public:
    Input(const uint8_t* data, size_t size) : rest_(data, size) {}
    uint8_t byte() {
        if (rest_.empty()) return 0;
        const uint8_t first = rest_[0];
        rest_ = rest_.subspan(1);
        return first;
    }
    std::vector<uint8_t> bytes(size_t most) {
        const size_t count = std::min(most, rest_.size());
        const std::vector<uint8_t> taken(rest_.begin(), rest_.begin() + static_cast<ptrdiff_t>(count));
        rest_ = rest_.subspan(count);
        return taken;
    }
    size_t number() { return byte() | size_t{byte()} << 8; }
    bool is_empty() const { return rest_.empty(); }

private:
    std::span<const uint8_t> rest_;
};

/// What is sound, but for these bytes of the input.
template <class T>
std::vector<uint8_t> changed(const T& sound, Input& input) {
    std::vector<uint8_t> bytes(sizeof sound);
    std::memcpy(bytes.data(), &sound, sizeof sound);
    const size_t first = input.byte() % bytes.size();
    const std::vector<uint8_t> changes = input.bytes(input.byte());
    bytes.resize(std::max(bytes.size(), first + changes.size()));
    for (size_t i = 0; i < changes.size(); ++i) bytes[first + i] ^= changes[i];
    return bytes;
}

/// A GPU whose kernels have done, at once, whatever the input says. Its addresses are nobody's memory.
class Pretended : public device::Device {
public:
    using Address = device::Address;
    using EventId = device::EventId;
    using Status = device::Status;
    using StreamId = device::StreamId;
    struct Own : device::Window {
        explicit Own(size_t bytes) {
            begin_ = kBytes;
            bytes_ = bytes;
            guard_bytes_ = 1 << 16;
        }
    };
    Input* input = nullptr;  // of what kernels leave

    std::string describe() const override { return "pretended"; }
    std::string model() const override { return "pretended"; }
    Status state() const override { return Status::ok; }
    Address allocate(size_t bytes, const std::string&) override {
        require(bytes < size_t{1} << 30);
        return next_ += Address{1} << 30;
    }
    void free(Address) override {}
    void* allocate_host(size_t bytes) override { return std::malloc(bytes); }
    void free_host(void* memory) override { std::free(memory); }
    bool pin(void*, size_t) override { return false; }
    void unpin(void*) override {}
    schedule::Gpu partitions() override { return schedule::partitions_of(0); }
    StreamId create_stream(bool) override { return 1; }
    std::shared_ptr<device::LoadedProgram> load(std::shared_ptr<const chain::Program>,
                                                std::vector<device::Step>) override {
        std::abort();
    }
    std::shared_ptr<device::Resident> start_resident(std::shared_ptr<device::LoadedProgram>, unsigned) override {
        std::abort();
    }
    std::shared_ptr<device::LoadedTask> load(const device::Task&, const nf::Image&) override {
        return std::make_shared<device::LoadedTask>();
    }
    std::string ptx_architecture() const override { return "sm_90"; }
    std::unique_ptr<device::Window> make_window(size_t bytes, const std::string&) override {
        window_ = {device::Window::kBytes, device::Window::kBytes + bytes};
        return std::make_unique<Own>(bytes);
    }
    std::shared_ptr<device::LoadedFenced> load_fenced(const std::string& ptx, const std::string&) override {
        require(!ptx.empty());
        return std::make_shared<device::LoadedFenced>();
    }
    Status copy_to_device(StreamId, Address to, const void*, size_t bytes) override {
        require(to >= 2 * device::Window::kBytes || (to >= window_.first && to + bytes <= window_.second));
        return Status::ok;
    }
    Status copy_to_host(StreamId, void* to, Address, size_t bytes) override {
        const std::vector<uint8_t> left = input->bytes(bytes);
        std::memset(to, 0, bytes);
        std::copy(left.begin(), left.end(), static_cast<uint8_t*>(to));
        return Status::ok;
    }
    Status copy_rows_to_device(StreamId, Address, size_t, const void*, size_t, size_t, size_t) override {
        std::abort();
    }
    Status copy_rows_to_host(StreamId, void*, size_t, Address, size_t, size_t, size_t) override { std::abort(); }
    Status launch(StreamId, const device::LoadedProgram&, size_t, const device::BatchView&) override { std::abort(); }
    Status launch(StreamId, const device::LoadedTask&, const device::TaskBatch&) override { return Status::ok; }
    Status launch_fenced(StreamId, const device::LoadedFenced&, const device::FencedBatch& batch) override {
        require(batch.packets >= window_.first && batch.tables >= window_.first && batch.decisions >= batch.packets);
        require(batch.packets + batch.count * batch.stride <= batch.decisions);
        require(batch.decisions + batch.count * sizeof(Decision) <= window_.second);
        return Status::ok;
    }
    Status record(StreamId, EventId& event) override {
        event = 1;
        return Status::ok;
    }
    Status wait(StreamId, Device&, EventId) override { return Status::ok; }
    Status query(EventId) override { return Status::ok; }
    uint64_t time_ns(EventId) override { return 0; }

private:
    Address next_ = 2 * device::Window::kBytes;
    std::pair<Address, Address> window_;
};

/// What all inputs share.
struct Scene {
    Scene() {
        expected.user = geteuid();
        expected.shape = kShape;
        expected.terms.sees = (field::eth_dst | field::eth_src | field::eth_type).bits;
        expected.terms.changes = field::eth_dst.bits;
        expected.patience = {.answer = std::chrono::milliseconds(10), .wrong = 2, .late = 1, .unasked = 3};
        expected.architecture = "sm_90";
        expected.confined.sees = Fields{expected.terms.sees};
        expected.confined.changes = Fields{expected.terms.changes};
        expected.confined.shape = kShape;
        expected.confined.memory_bytes = 1 << 18;
        std::filesystem::create_directories(folder);
        door.emplace(folder + "/tenants.sock", std::map<std::string, Expected>{{"acme", expected}});
    }
    ~Scene() {
        door.reset();
        std::filesystem::remove_all(folder);
    }
    const std::string folder = std::filesystem::temp_directory_path() / ("tenant_fuzz." + std::to_string(getpid()));
    Expected expected;
    std::optional<Door> door;
    Pretended device;
    Streams streams{device};
    TrustedKernels kernels{device};
};

/// Sends bytes, and these descriptors.
void say(int socket, std::span<const uint8_t> bytes, std::span<const int> descriptors) {
    iovec part{const_cast<uint8_t*>(bytes.data()), bytes.size()};
    alignas(cmsghdr) char control[CMSG_SPACE(16 * sizeof(int))] = {};
    msghdr message{};
    message.msg_iov = &part;
    message.msg_iovlen = 1;
    if (!descriptors.empty()) {
        message.msg_control = control;
        message.msg_controllen = CMSG_SPACE(descriptors.size_bytes());
        cmsghdr* const head = CMSG_FIRSTHDR(&message);
        head->cmsg_level = SOL_SOCKET;
        head->cmsg_type = SCM_RIGHTS;
        head->cmsg_len = CMSG_LEN(descriptors.size_bytes());
        std::memcpy(CMSG_DATA(head), descriptors.data(), descriptors.size_bytes());
    }
    sendmsg(socket, &message, MSG_NOSIGNAL | MSG_DONTWAIT);
}

/// Memory with these bytes, sealed well, partly, not at all, or without end.
Descriptor memory_with(std::span<const uint8_t> bytes, uint8_t how) {
    Descriptor memory(memfd_create("tenant_fuzz", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    require(write(memory.get(), bytes.data(), bytes.size()) == static_cast<ssize_t>(bytes.size()));
    if (how % 8 == 7) require(ftruncate(memory.get(), off_t{1} << 40) == 0);
    const int kSeals[] = {F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE, F_SEAL_SHRINK | F_SEAL_GROW, 0};
    require(fcntl(memory.get(), F_ADD_SEALS, how % 8 == 7 ? kSeals[0] : kSeals[how % 8 < 5 ? 0 : how % 8 - 4]) == 0);
    return memory;
}

/// One tenant that was let in.
class Visit {
public:
    Visit(Scene& scene, Input& input, Attachment& attachment, Descriptor socket)
        : scene_(scene), input_(input), attachment_(attachment), socket_(std::move(socket)) {}

    void play() {
        while (!input_.is_empty()) {
            const uint8_t what = input_.byte();
            number_ = what >> 7;
            Lane& lane = attachment_.lane(number_);
            switch (what % 8) {
                case 0: ask(lane); break;
                case 1: answer(); break;
                case 2: hear(lane); break;
                case 3: write_anywhere(); break;
                case 4: send_message(); break;
                case 5: offer_half(); break;
                case 6:
                    if (lane.waiting() > 0) came(lane.give_up());
                    break;
                default: socket_ = Descriptor(); attachment_.listen();
            }
        }
        attachment_.part(Parting::gone);
        for (number_ = 0; number_ < kShape.lanes; ++number_) {
            Lane& lane = attachment_.lane(number_);
            while (lane.waiting() > 0) hear(lane);
            require(asked_[number_].empty());
            const LaneCounters& counters = lane.counters();
            require(counters.asked.get() ==
                    counters.good.get() + counters.wrong.get() + counters.late.get() + counters.lost.get());
        }
    }

private:
    struct Batch {
        uint64_t id;
        size_t packets;
    };
    void ask(Lane& lane) {
        const size_t most = lane.room();
        std::vector<std::vector<uint8_t>> bytes;
        std::vector<Shown> shown;
        const size_t packets = input_.byte() % (kShape.packets + 1);
        for (size_t i = 0; i < packets; ++i) bytes.emplace_back(input_.byte() % (kShape.in_bytes + 1), uint8_t(i));
        for (const auto& one : bytes) {
            About about{};
            about.length = 60;
            if (lane.takes(60, about.layers, Fields{scene_.expected.terms.sees}))
                shown.push_back({about, one, static_cast<uint16_t>(input_.byte())});
        }
        if (shown.size() > most) return;
        scene_.device.input = &input_;
        if (lane.ask(shown, next_id_, now_)) asked_[number_].push_back({next_id_, shown.size()});
        ++next_id_;
    }
    void answer() {
        const uint64_t number = lane_numbers_[number_] + input_.byte() % 8;
        Answer& there = attachment_.memory().answer(number_, number);
        for (uint32_t i = 0; i < kShape.packets; ++i) there.words[i] = input_.byte() & 0x83;
        there.number.store(number, std::memory_order_release);
    }
    void hear(Lane& lane) {
        now_ += std::chrono::milliseconds(input_.byte() % 16);
        Exchange::Taken taken;
        const Lane::Reply reply = lane.next(taken, now_);
        if (reply == Lane::Reply::waits) return;
        ++lane_numbers_[number_];
        const size_t packets = came(taken.id);
        if (reply != Lane::Reply::good) return;
        require(taken.count == packets && taken.back.size() == packets * kShape.back_bytes);
        for (size_t i = 0; i < packets; ++i) require(taken.outcomes[i] < kShape.outcomes);
    }
    /// Of which batch it was the oldest's turn; its packets.
    size_t came(uint64_t id) {
        require(!asked_[number_].empty());
        const Batch oldest = asked_[number_].front();
        require(oldest.id == id);
        asked_[number_].pop_front();
        return oldest.packets;
    }
    /// As a tenant may at any time, all over its memory.
    void write_anywhere() {
        const size_t all = all_answer_bytes(kShape);
        const std::vector<uint8_t> bytes = input_.bytes(input_.byte());
        uint8_t* const begin = reinterpret_cast<uint8_t*>(&attachment_.memory().answer(0, 0)) - sizeof(Rest);
        const size_t at = input_.number() % (all - bytes.size());
        std::copy(bytes.begin(), bytes.end(), begin + at);
    }
    void send_message() {
        const uint8_t how = input_.byte();
        const std::vector<uint8_t> bytes = changed(Offer(), input_);
        const std::vector<uint8_t> content = input_.bytes(how % 16);
        const Descriptor memory = memory_with(content, how / 16), event(eventfd(0, EFD_CLOEXEC));
        std::vector<int> descriptors;
        for (unsigned i = 0; i < how % 4u * (how % 4u); ++i)
            descriptors.push_back(i % 2 == 0 ? memory.get() : event.get());
        say(socket_.get(), bytes, descriptors);
        listen();
    }
    void offer_half() {
        const uint8_t how = input_.byte();
        std::vector<uint8_t> half = input_.bytes(input_.number());
        // Inputs can't know what headers this was compiled with.
        if (how < 128 && half.size() >= sizeof(HalfHead)) {
            HalfHead head;
            std::memcpy(&head, half.data(), sizeof head);
            head.magic = kHalfMagic;
            head.version = kVersion;
            head.layout = packet_layout();
            std::memcpy(half.data(), &head, sizeof head);
        }
        const Descriptor memory = memory_with(half, how);
        const Offer offer;
        const int descriptor = memory.get();
        say(socket_.get(), {reinterpret_cast<const uint8_t*>(&offer), sizeof offer}, {&descriptor, 1});
        listen();
    }
    void listen() {
        attachment_.listen();
        require(attachment_.unasked() <= scene_.expected.patience.unasked + 1 || !attachment_.attached());
        if (const auto memory = attachment_.take_offer()) place(memory->get());
    }
    /// As Placer does.
    void place(int memory) {
        const ConfinedTerms& terms = scene_.expected.confined;
        try {
            const DeviceHalf half = read_half(memory, terms.memory_bytes + kMaxPtxBytes, kShape.outcomes);
            require(half.ptx.size() <= kMaxPtxBytes && half.tables.size() <= kMaxTablesBytes);
            for (const DeviceHalf::Array& array : half.arrays) require(array.member + 8 <= half.tables.size());
            require(!half.to_terms.empty());
            for (const uint8_t outcome : half.to_terms) require(outcome < kShape.outcomes);
            const DeviceHalf same = read_half(half_bytes(half), kShape.outcomes);
            require(same.function == half.function && same.ptx == half.ptx && same.tables == half.tables &&
                    same.to_terms == half.to_terms && same.stages == half.stages &&
                    same.arrays.size() == half.arrays.size());
            attachment_.place(
                std::make_shared<ConfinedFunction>(scene_.device, scene_.streams, scene_.kernels, half, terms, "acme"));
        } catch (const ConfigError& e) {
            require(!e.diagnostics().empty());
        } catch (const std::runtime_error& e) {
            require(e.what()[0] != 0);
        }
    }

    Scene& scene_;
    Input& input_;
    Attachment& attachment_;
    Descriptor socket_;
    uint32_t number_ = 0;  // of the lane
    uint64_t next_id_ = 1;
    Clock::time_point now_{};
    std::deque<Batch> asked_[kShape.lanes];
    uint64_t lane_numbers_[kShape.lanes] = {1, 1};  // of the oldest batch, where none went to a device
};

void play(Scene& scene, Input& input) {
    Descriptor socket(show::connect_to(scene.folder + "/tenants.sock"));
    require(socket.get() >= 0);
    Hello sound;
    std::strcpy(sound.name, "acme");
    const std::vector<uint8_t> hello = changed(sound, input);
    const size_t first = input.byte() % (hello.size() + 1);
    Clock::time_point now{};
    std::vector<std::unique_ptr<Attachment>> in;
    for (const auto part : {std::span(hello).first(first), std::span(hello).subspan(first)}) {
        say(socket.get(), part, {});
        for (auto& one : scene.door->let_in(now, [](const std::string&) { return false; }))
            in.push_back(std::move(one));
    }
    require(in.size() <= 1);
    if (!in.empty()) Visit(scene, input, *in.front(), std::move(socket)).play();
    else socket = Descriptor();
    require(scene.door->let_in(now + 2 * Door::kGreeting, [](const std::string&) { return false; }).empty());
    require(!scene.door->has_guests());
}

/// The number that a descriptor gets which is opened now: the same as long as none stays open.
int next_descriptor() {
    const int next = eventfd(0, EFD_CLOEXEC);
    close(next);
    return next;
}

MILLRACE_FUZZER(tenant)(const uint8_t* data, size_t size) {
    static Scene scene;
    const int before = next_descriptor();
    Input input(data, size);
    play(scene, input);
    require(next_descriptor() == before);
    return 0;
}

}  // namespace tenant_fuzz
