// Network interfaces of the kernel: what they are now, and being told when that changes.
#pragma once

#include <array>
#include <cstdint>
#include <functional>
#include <span>
#include <string>
#include <thread>
#include <vector>

#include "millrace/base/descriptor.hpp"
#include "millrace/base/text/config.hpp"

namespace millrace::io {

/// A packet socket that is at no interface and hears nothing yet. Throws std::runtime_error with the right that is
/// missing.
int open_packet_socket();

/// An interface as the kernel describes it now.
struct Interface {
    int index = 0;             ///< 0: there is none of that name
    bool is_up = false;        ///< the administrator wants it up, and frames can leave by it
    bool is_ethernet = false;  ///< its frames have Ethernet headers
    uint32_t mtu = 0;
    uint32_t speed_mbps = 0;  ///< 0: unknown
    std::array<uint8_t, 6> mac{};
};

/// Bytes of a frame above its MTU: Ethernet header and two VLAN tags.
inline constexpr uint32_t kFrameOverhead = 14 + 8;
/// Of a frame's addresses, before its VLAN tag.
inline constexpr uint32_t kAddressBytes = 12;

/// Asks the kernel, in the calling thread's network namespace.
Interface find_interface(const std::string& name);

/// The same. Throws std::runtime_error when there is none, or no Ethernet on it.
Interface ethernet_interface(const std::string& name);

/// What stands behind an interface.
struct InterfaceDriver {
    uint32_t receive_queues = 1, send_queues = 1;
    bool is_card = false;     ///< hardware: its frames have crossed a wire, and what senders leave to cards is done
    bool is_tap = false;      ///< a program of this machine stands behind it
    bool takes_tags = false;  ///< VLAN tags of what it receives are beside the frames
    bool joins = false;       ///< what it receives is put together to longer frames (GRO)
    bool card_joins = false;  ///< the same, by the card (LRO)
    bool checks = false;      ///< it looks at checksums of what it receives
    bool sums = false;        ///< it finishes checksums of what it sends
    bool cuts = false;        ///< it cuts long frames that it sends (TSO, GSO)
};
InterfaceDriver driver_of(const std::string& name);

/// Addresses that Linux has at an interface, as text, but for IPv6 ones of the link.
std::vector<std::string> addresses_of(const std::string& name);

/// How many frames the interface of this index has lost that Linux was to send by it; 0 when there is none.
uint64_t dropped_by_sending(int interface);

/// Has an interface receive frames for anybody for as long as the packet socket is open. False: it does not.
bool make_promiscuous(int packet_socket, int interface);

/// The interface's name that `value` is. Throws ConfigError for what no interface can be called.
std::string interface_name(const Config& value);

/// Calls `changed` whenever the interface of this name in this network namespace comes, goes or changes, from a thread
/// of its own, which sleeps in between. The first call comes at once. Throws std::runtime_error when the kernel does
/// not tell.
class InterfaceWatch {
public:
    InterfaceWatch(std::string name, std::function<void()> changed);
    ~InterfaceWatch();
    InterfaceWatch(const InterfaceWatch&) = delete;
    InterfaceWatch& operator=(const InterfaceWatch&) = delete;

private:
    void run();
    bool is_of_it(std::span<const uint8_t> messages) const;
    void tell();

    const std::string name_;
    const std::function<void()> changed_;
    int index_ = 0;  // the interface's, when it was last looked at
    Descriptor events_, stop_;
    std::thread thread_;
};

}  // namespace millrace::io
