#include "millrace/io/tap/tap_port.hpp"

#include <fcntl.h>
#include <linux/if_tun.h>
#include <net/if.h>
#include <sys/ioctl.h>
#include <sys/socket.h>
#include <sys/uio.h>
#include <unistd.h>

#include <algorithm>
#include <array>
#include <cerrno>
#include <cstring>
#include <stdexcept>
#include <utility>

#include "millrace/io/clock.hpp"
#include "millrace/io/kernel/interface_request.hpp"
#include "millrace/io/release.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::io {
namespace {

[[noreturn]] void refuse(const std::string& what, const std::string& hint = {}) {
    throw std::runtime_error(what + ": " + std::strerror(errno) + (hint.empty() ? "" : "; " + hint));
}

/// One queue of the interface, which the first one makes.
Descriptor open_queue(const std::string& interface, bool is_one_of_several) {
    Descriptor file(open("/dev/net/tun", O_RDWR | O_CLOEXEC | O_NONBLOCK));
    if (file.get() < 0) refuse("/dev/net/tun", "taps need it and CAP_NET_ADMIN");
    ifreq request = request_of(interface);
    request.ifr_flags = static_cast<short>(IFF_TAP | IFF_NO_PI | (is_one_of_several ? IFF_MULTI_QUEUE : 0));
    if (ioctl(file.get(), TUNSETIFF, &request) == 0) return file;
    if (errno == EBUSY) refuse("'" + interface + "' is served by another program already");
    if (errno == EPERM) refuse("no interface '" + interface + "'", "it takes the right CAP_NET_ADMIN: run as root");
    if (errno == EINVAL && find_interface(interface).index != 0)
        refuse("'" + interface + "' is there already, and no tap of as many queues",
               "'ip link del " + interface + "' takes it away; a tap with several workers is made by 'ip tuntap add " +
                   interface + " mode tap multi_queue'");
    refuse("no interface '" + interface + "'");
}

/// Has it up, with room for so many frames that wait.
void set_up(const std::string& interface, uint32_t waiting) {
    ifreq request = request_of(interface);
    request.ifr_qlen = static_cast<int>(waiting);
    if (!ask_kernel(SIOCSIFTXQLEN, request)) refuse("the queue of '" + interface + "' keeps its length");
    request = request_of(interface);
    if (!ask_kernel(SIOCGIFFLAGS, request)) refuse("'" + interface + "' does not say whether it is up");
    request.ifr_flags = static_cast<short>(request.ifr_flags | IFF_UP);
    if (!ask_kernel(SIOCSIFFLAGS, request)) refuse("'" + interface + "' does not come up");
}

}  // namespace

TapPort::TapPort(const PortInfo& info, const TapPortOptions& options, const PoolOptions& pool)
    : InterfacePort(info, options.interface.interface, options.mtu), pool_(info_.name, pool),
      queues_(info_.receive_queues) {
    const std::string& name = options.interface.interface;
    const bool are_several = queues_.size() > 1;
    std::vector<int> descriptors;
    for (Queue& queue : queues_) {
        queue.file = open_queue(name, are_several);
        descriptors.push_back(queue.file.get());
    }
    tap_ = std::make_unique<TapInterface>(options.interface, queues_[0].file.get(), options.mtu, options.warn);
    followed_.follow([](const Interface&) {});
    set_up(name, options.waiting);
    const Interface now = find_interface(name);
    index_ = now.index;
    info_.mac = now.mac;
    missed_before_ = dropped_by_sending(index_);
    readable_ = std::make_unique<ReadableQueues>(descriptors);
}

/// Reads into the queue's next buffer.
TapPort::Read TapPort::read_frame(uint16_t number) {
    Queue& queue = queues_[number];
    if (queue.next == nullptr && !pool_.allocate(&queue.next, 1)) return Read::no_room;
    // One byte more than fits says that a frame is longer.
    uint8_t beyond = 0;
    const iovec pieces[] = {{rte_pktmbuf_mtod(queue.next, void*), pool_.max_frame_bytes()}, {&beyond, 1}};
    const ssize_t bytes = readv(queue.file.get(), pieces, std::size(pieces));
    if (bytes < 0) return errno == EINTR ? Read::useless : Read::nothing;
    if (bytes < static_cast<ssize_t>(eth::kHeaderBytes) || bytes > static_cast<ssize_t>(pool_.max_frame_bytes())) {
        receiving(number).drop(bytes < static_cast<ssize_t>(eth::kHeaderBytes) ? PortDrop::too_short
                                                                               : PortDrop::too_long);
        return Read::useless;
    }
    queue.next->data_len = static_cast<uint16_t>(bytes);
    queue.next->pkt_len = static_cast<uint32_t>(bytes);
    queue.next->port = info_.index;
    return Read::frame;
}

uint16_t TapPort::receive(uint16_t number, rte_mbuf** mbufs, uint16_t count) {
    Queue& queue = queues_[number];
    if (!queue.goes_on && !readable_->take(number)) return 0;
    queue.goes_on = true;
    const uint64_t now_ns = wall_clock_ns();
    uint64_t bytes = 0;
    uint16_t n = 0;
    while (n < count) {
        const Read read = read_frame(number);
        if (read == Read::useless) continue;
        if (read == Read::no_room) increase(queue.starved, 1);
        if (read == Read::nothing) {
            queue.goes_on = false;
            readable_->is_empty(number);
        }
        if (read != Read::frame) break;
        set_packet_metadata(queue.next, now_ns, number + 1u + queue.received++ * info_.receive_queues);
        bytes += queue.next->pkt_len;
        mbufs[n++] = std::exchange(queue.next, nullptr);
    }
    if (n != 0) receiving(number).count(n, bytes);
    return n;
}

/// Whether it is done with.
bool TapPort::send_frame(uint16_t number, rte_mbuf* mbuf) {
    QueueCounters& counters = sending(number);
    std::array<iovec, 64> pieces;
    size_t count = 0;
    for (rte_mbuf* segment = mbuf; segment != nullptr && count < pieces.size(); segment = segment->next)
        pieces[count++] = {rte_pktmbuf_mtod(segment, void*), segment->data_len};
    if (mbuf->nb_segs > count) {
        counters.drop(PortDrop::too_many_segments);
        return true;
    }
    if (!fits_mtu(rte_pktmbuf_mtod(mbuf, const uint8_t*), mbuf->data_len, mbuf->pkt_len, info_.mtu)) {
        counters.drop(PortDrop::over_mtu);
        return true;
    }
    if (writev(queues_[number].file.get(), pieces.data(), static_cast<int>(count)) >= 0) {
        counters.count(1, mbuf->pkt_len);
        return true;
    }
    if (errno == EAGAIN || errno == EINTR) return false;
    // EIO: the interface is down; EBADFD: it was taken away.
    const bool is_down = errno == EIO || errno == EBADFD;
    counters.drop(is_down ? PortDrop::link_down : errno == ENOBUFS ? PortDrop::tx_full : PortDrop::tx_error);
    return true;
}

uint16_t TapPort::send(uint16_t queue, rte_mbuf** mbufs, uint16_t count) {
    uint16_t taken = 0;
    while (taken < count && send_frame(queue, mbufs[taken])) ++taken;
    release_packets(mbufs, taken);
    return taken;
}

PortCounters TapPort::with_missed(PortCounters result) const {
    followed_.count_changes(result.details);
    for (const Queue& queue : queues_)
        if (queue.starved != 0) result.details["pool-empty"] += queue.starved;
    // An interface that is gone tells no more.
    if (const uint64_t now = dropped_by_sending(index_); now > missed_before_ + missed_) missed_ = now - missed_before_;
    if (missed_ != 0) result.drops[drop_name(PortDrop::missed)] += missed_;
    return result;
}

PortCounters TapPort::counters() const { return closed_ ? last_ : with_missed(Port::counters()); }

void TapPort::close() {
    if (closed_) return;
    last_ = with_missed(Port::counters());
    closed_ = true;
    readable_.reset();
    followed_.leave();
    tap_->leave();
    for (Queue& queue : queues_) {
        if (queue.next != nullptr) rte_pktmbuf_free(std::exchange(queue.next, nullptr));
        queue.file = Descriptor();
    }
}

}  // namespace millrace::io
