// The kinds of ports at network interfaces, for tests of what all of them do.
#pragma once

#include <ostream>

#include "io/interfaces/cable.hpp"
#include "io/interfaces/xdp.hpp"

namespace millrace::io::test {

/// How a kind of port is made, and where it differs from others.
struct InterfaceKind {
    const char* name;
    const char* key;               ///< of the YAML
    uint32_t mtu;                  ///< of a cable that it is tried with; it takes no longer ones
    std::vector<uint16_t> queues;  ///< that it may have at an interface with one
    uint16_t segment;              ///< payload of the longest TCP segment that it gives out of a longer one
    bool is_xdp;
    std::string port(const std::string& options = "") const {
        return "{ " + std::string(key) + ": left" + options + " }";
    }
    friend void PrintTo(const InterfaceKind& kind, std::ostream* out) { *out << kind.name; }
};

inline const InterfaceKind kInterfaceKinds[] = {
    {"af_packet", "af_packet", 9000, {1, 3, 4}, 1448, false},
    {"af_xdp", "af_xdp", 1500, {1}, 1426, true},
};

class InterfacePort : public testing::TestWithParam<InterfaceKind> {
protected:
    void SetUp() override {
        if (geteuid() == 0 && GetParam().is_xdp && !no_xdp().empty()) GTEST_SKIP() << no_xdp();
    }
    /// Port `a` at the interface `left`, whose cable is there.
    static std::vector<std::unique_ptr<Port>> at_left(const std::string& options = "") {
        return ports("a: " + GetParam().port(options) + "\n");
    }
};

/// What comes at the other end by that many frames or in five seconds: some kinds send on a thread of the kernel.
inline std::vector<Bytes> received(const OtherEnd& peer, size_t count) {
    std::vector<Bytes> all;
    becomes([&] {
        for (Bytes& frame : peer.received()) all.push_back(std::move(frame));
        return all.size() >= count;
    });
    return all;
}

/// In pieces: every other frame in one, the others behind 40 bytes of a head.
inline std::vector<FramePieces> in_pieces(const std::vector<Bytes>& frames) {
    std::vector<FramePieces> pieces;
    for (uint32_t i = 0; i < frames.size(); ++i) {
        const auto head = static_cast<uint16_t>(i % 2 == 0 ? frames[i].size() : 40);
        pieces.push_back(
            {frames[i].data(), frames[i].data() + head, head, static_cast<uint16_t>(frames[i].size() - head), i});
    }
    return pieces;
}

}  // namespace millrace::io::test
