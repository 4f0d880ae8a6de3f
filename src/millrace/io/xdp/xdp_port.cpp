#include "millrace/io/xdp/xdp_port.hpp"

#include <sys/mman.h>

#include <algorithm>
#include <bit>
#include <stdexcept>

namespace millrace::io {
namespace {

constexpr uint32_t kShortRoom = 2048, kLongRoom = 4096;  // the kernel has no others
constexpr size_t kWorkerBytes = size_t{16} << 20;        // for frames that one worker receives
constexpr uint32_t kLeastRooms = 256, kSendRooms = 1024;

/// As long as a frame may be in a room.
constexpr uint32_t frame_of(uint32_t room) { return room - XdpSocket::kHeadroom; }

/// Of each of the interface's queues.
uint32_t receive_rooms(const PortInfo& info, const XdpOptions& options) {
    if (options.descriptors != 0) return options.descriptors;
    const uint32_t each = (options.interface_queues + info.receive_queues - 1) / info.receive_queues;
    return std::max(static_cast<uint32_t>(kWorkerBytes / options.room_bytes / each), kLeastRooms);
}

/// Refuses a program that does not see frames as they come.
void check(const RedirectProgram& program, const std::string& name) {
    const InterfaceDriver driver = driver_of(name);
    if (!program.is_in_driver() && driver.joins)
        throw std::runtime_error("the driver of '" + name +
                                 "' has no XDP, so that frames would come joined (GRO), too "
                                 "long for AF_XDP; 'ethtool -K " +
                                 name + " gro off' ends that, or take af_packet");
    if (!program.tells_tags() && driver.takes_tags && driver.is_card)
        throw std::runtime_error("the card of '" + name +
                                 "' takes VLAN tags out of frames, and this kernel does not tell "
                                 "AF_XDP of them; 'ethtool -K " +
                                 name + " rxvlan off' leaves them in");
}

}  // namespace

XdpPort::Memory::Memory(size_t bytes) {
    void* const memory = mmap(nullptr, bytes, PROT_READ | PROT_WRITE, MAP_PRIVATE | MAP_ANONYMOUS, -1, 0);
    if (memory == MAP_FAILED)
        throw std::runtime_error("no memory for " + std::to_string(bytes >> 10) + " KiB of frames");
    madvise(memory, bytes, MADV_HUGEPAGE);
    all = {static_cast<uint8_t*>(memory), bytes};
}

XdpPort::Memory::~Memory() { munmap(all.data(), all.size()); }

XdpPort::Channel::Channel(const XdpOptions& options, uint32_t receive_rooms, uint32_t send_rooms)
    : memory(size_t{receive_rooms + send_rooms} * options.room_bytes),
      receiver(memory.all, options.room_bytes, receive_rooms),
      sender(memory.all, options.room_bytes, receive_rooms, send_rooms) {}

void XdpPort::describe(PortInfo& info, XdpOptions& options) {
    const Interface now = ethernet_interface(options.interface);
    const InterfaceDriver driver = driver_of(options.interface);
    const std::string& name = options.interface;
    if (options.queues_given && info.receive_queues > driver.receive_queues)
        throw std::runtime_error("'queues' asks for " + std::to_string(info.receive_queues) + ", but the interface '" +
                                 name + "' receives by " + std::to_string(driver.receive_queues) +
                                 "; ask for fewer, or give it more by 'ethtool -L " + name + "'");
    options.max_frame_bytes = std::max(options.max_frame_bytes, now.mtu + kFrameOverhead);
    if (options.max_frame_bytes > frame_of(kLongRoom))
        throw std::runtime_error("frames of " + std::to_string(options.max_frame_bytes) +
                                 " bytes are too long for AF_XDP, "
                                 "whose longest have " +
                                 std::to_string(frame_of(kLongRoom)) + "; 'ip link set " + name + " mtu " +
                                 std::to_string(frame_of(kLongRoom) - kFrameOverhead) + "' or less, or take af_packet");
    options.room_bytes = options.max_frame_bytes > frame_of(kShortRoom) ? kLongRoom : kShortRoom;
    options.interface_queues = driver.receive_queues;
    options.leaves_checksums = !driver.is_card;
    options.may_lose_tags = driver.takes_tags;
    info.mac = now.mac;
    info.mtu = now.mtu;
    const auto most = [&](uint32_t own) { return static_cast<uint16_t>(std::min<uint32_t>(info.receive_queues, own)); };
    info.send_queues = most(std::min(driver.send_queues, driver.receive_queues));
    info.receive_queues = most(driver.receive_queues);
}

XdpPort::XdpPort(const PortInfo& info, const XdpOptions& options, const PoolOptions& pool)
    : InterfacePort(info, options.interface, info.mtu, options.room_bytes - kFrameOverhead), options_(options),
      pool_(info_.name, pool), receive_rooms_(receive_rooms(info_, options)),
      send_rooms_(std::min(receive_rooms_, kSendRooms)) {
    for (uint16_t q = 0; q < info_.receive_queues; ++q) queues_.push_back(std::make_unique<Queue>());
    for (uint32_t c = 0; c < options_.interface_queues; ++c) {
        Channel& channel = *channels_.emplace_back(
            std::make_unique<Channel>(options_, receive_rooms_, c < info_.send_queues ? send_rooms_ : 0));
        queues_[c % info_.receive_queues]->channels.push_back(&channel);
        if (c < info_.send_queues) queues_[c]->sends_by = &channel;
    }
    for (const auto& queue : queues_) queue->out_runs.resize(std::bit_ceil(queue->channels.size() * receive_rooms_));
    open(find_interface(options_.interface).index);
    SendResult none;
    for (const auto& channel : channels_) channel->receiver.take_next();
    for (uint16_t q = 0; q < info_.send_queues; ++q) queues_[q]->sends_by->sender.take_next(none);
    info_.detail += sockets_.front()->is_zero_copy() ? " (zero-copy)" : " (copied)";
    followed_.follow([this](const Interface& now) { update(now); });
}

/// Makes a program and sockets at this interface, and leaves the latter to the workers.
void XdpPort::open(int interface) {
    auto program = std::make_unique<RedirectProgram>(interface, "'" + options_.interface + "'",
                                                     options_.interface_queues);
    check(*program, options_.interface);
    Descriptor promiscuous(options_.promiscuous ? open_packet_socket() : -1);
    if (options_.promiscuous && !make_promiscuous(promiscuous.get(), interface))
        throw std::runtime_error("the interface does not become promiscuous");
    std::vector<std::unique_ptr<XdpSocket>> sockets;
    for (uint32_t c = 0; c < channels_.size(); ++c) {
        sockets.push_back(std::make_unique<XdpSocket>(XdpSocketOptions{
            .interface = interface,
            .queue = c,
            .memory = channels_[c]->memory.all,
            .room_bytes = options_.room_bytes,
            .receive_frames = receive_rooms_,
            .send_frames = c < info_.send_queues ? send_rooms_ : 0,
            .mode = options_.mode,
            .state = {.tells_tags = program->tells_tags(), .leaves_checksums = options_.leaves_checksums}}));
        program->redirect(c, sockets.back()->descriptor());
    }
    for (uint32_t c = 0; c < channels_.size(); ++c) {
        sockets[c]->users = c < info_.send_queues ? 2 : 1;
        channels_[c]->receiver.go_over_to(sockets[c].get());
        if (c < info_.send_queues) channels_[c]->sender.go_over_to(sockets[c].get());
    }
    for (const auto& queue : queues_) queue->has_next.wake();
    std::move(sockets.begin(), sockets.end(), std::back_inserter(sockets_));
    program_ = std::move(program);
    promiscuous_ = std::move(promiscuous);
    interface_ = interface;
    tells_tags_.store(program_->tells_tags(), std::memory_order_relaxed);
}

void XdpPort::free_left_sockets() {
    std::erase_if(sockets_, [&](const auto& socket) {
        if (socket->users.load(std::memory_order_acquire) != 0) return false;
        left_.add(socket->counts());
        return true;
    });
}

/// What the interface has become.
void XdpPort::update(const Interface& now) {
    free_left_sockets();
    if (now.index != interface_) interface_ = 0;
    if (now.index == 0 || interface_ != 0) return;
    const uint32_t queues = driver_of(options_.interface).receive_queues;
    if (queues != options_.interface_queues)
        throw std::runtime_error("it receives by " + std::to_string(queues) + " queues now, and had " +
                                 std::to_string(options_.interface_queues));
    open(now.index);
}

void XdpPort::begin_sleep(uint16_t queue_number, WakeUps& wake_ups) {
    constexpr std::chrono::milliseconds kStuck{1};
    Queue& queue = *queues_[queue_number];
    wake_ups.on(queue.has_next.prepare());
    for (const Channel* channel : queue.channels) wake_ups.on(channel->receiver.socket().descriptor());
    if (queue.sends_by != nullptr && queue.sends_by->sender.is_stuck()) wake_ups.within(kStuck);
}

void XdpPort::end_sleep(uint16_t queue) { queues_[queue]->has_next.done(); }

PortCounters XdpPort::counters() const {
    const std::lock_guard lock(followed_.control());
    if (closed_) return last_;
    PortCounters result = Port::counters();
    followed_.count_changes(result.details);
    XdpCounts all = left_;
    for (const auto& socket : sockets_) all.add(socket->counts());
    const auto add = [](auto& to, const char* name, uint64_t n) {
        if (n != 0) to[name] += n;
    };
    // What the kernel lost for another reason than room was too long for one.
    const uint64_t missed = std::min(all.lost, all.no_room + all.ring_full);
    add(result.drops, drop_name(PortDrop::missed), missed);
    add(result.drops, drop_name(PortDrop::too_long), all.lost - missed);
    add(result.details, "descriptors-empty", all.no_room);
    add(result.details, "ring-full", all.ring_full);
    for (const auto& channel : channels_) add(result.details, "checksum-finished", channel->receiver.finished());
    for (const auto& queue : queues_) add(result.details, "pool-empty", queue->starved);
    return result;
}

std::vector<std::span<uint8_t>> XdpPort::memory() const {
    std::vector<std::span<uint8_t>> all = Port::memory();
    for (const auto& channel : channels_) all.push_back(channel->memory.all);
    return all;
}

void XdpPort::close() {
    if (closed_) return;
    followed_.leave();
    for (uint16_t q = 0; q < info_.send_queues; ++q) {
        SendResult result;
        queues_[q]->sends_by->sender.send(result);
        queues_[q]->sends_by->sender.drop_rest(PortDrop::tx_full, result);
        count(q, result);
    }
    PortCounters last = counters();
    const std::lock_guard lock(followed_.control());
    last_ = std::move(last);
    closed_ = true;
    program_.reset();  // before the sockets, to which it would send what comes
    sockets_.clear();
    promiscuous_.reset();
}

}  // namespace millrace::io
