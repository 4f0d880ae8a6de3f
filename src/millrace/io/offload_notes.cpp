#include "millrace/io/offload_notes.hpp"

#include "millrace/io/kernel/interface.hpp"
#include "millrace/io/xdp/kernel_functions.hpp"

namespace millrace::io {
namespace {

std::vector<Offload> of_packet_socket(const InterfaceDriver& driver, const std::string& interface) {
    return {
        {"GRO", driver.joins,
         "joined frames go on uncut where all functions look at headers only; else the port cuts them, which copies "
         "each segment once more (docs/configuration.md#ports)",
         true},
        {"LRO", driver.card_joins,
         "as GRO, but what the card has joined does not always leave as it came; 'ethtool -K " + interface +
             " lro off' where packets are forwarded",
         true},
        {"receive checksums", driver.checks, "not used: functions check what they rely on"},
        {"send checksums", driver.sums,
         "of frames that a sender on this machine left unfinished and that go on uncut; others leave finished"},
        {"segmentation", driver.cuts, "uncut frames leave as they are, and are cut there"},
        {"VLAN stripping", driver.takes_tags,
         "the kernel has tags beside frames, and the port puts them back: each such frame is moved by 4 bytes", true}};
}

std::vector<Offload> of_xdp(const InterfaceDriver& driver, const std::string& interface) {
    const bool told = kernel_function(kVlanTagFunction) != 0;
    return {
        {"GRO", driver.joins, "joins nothing beside the port's program; a driver that has no XDP is refused"},
        {"LRO", driver.card_joins, "the kernel has it off beside an XDP program, or refuses that"},
        {"receive checksums", driver.checks, "not used: AF_XDP does not tell of them"},
        {"send checksums", driver.sums, "not used: the port finishes what a sender left unfinished"},
        {"segmentation", driver.cuts, "not used: long frames are cut before, which copies each segment"},
        {"VLAN stripping", driver.takes_tags,
         told ? "the port puts tags back: each such frame is moved by 4 bytes"
              : "this kernel does not tell AF_XDP of tags: a card is refused, and of a veth they are lost; 'ethtool "
                "-K " +
                    interface + " rxvlan off' leaves them in",
         true}};
}

}  // namespace

std::vector<Offload> offloads_of(const std::string& kind, const std::string& interface) {
    if ((kind != "af_packet" && kind != "af_xdp") || find_interface(interface).index == 0) return {};
    const InterfaceDriver driver = driver_of(interface);
    return kind == "af_xdp" ? of_xdp(driver, interface) : of_packet_socket(driver, interface);
}

std::string offload_summary(const std::vector<Offload>& offloads) {
    std::string names[2];
    for (const Offload& offload : offloads) names[offload.on] += (names[offload.on].empty() ? "" : ", ") + offload.name;
    return (names[1].empty() ? "none on" : "on: " + names[1]) + (names[0].empty() ? "" : "; off: " + names[0]);
}

}  // namespace millrace::io
