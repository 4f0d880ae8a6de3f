// What a device half does with a packet and did not declare: found on the host, by running it again on packets that
// differ in one field.
#pragma once

#include <set>
#include <string>
#include <utility>
#include <vector>

#include "millrace/nftest/packets/packet_builder.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::nftest {

/// One promise that was broken.
struct Undeclared {
    size_t packet = 0;  ///< its place among the frames
    std::string message, hint;
};

/// Holds a device half against its declarations.
///
/// A field is read where other bytes in it change anything else: the decision, the port, events, other bytes. It is
/// written where its bytes change. So a read is found only where a packet makes it matter.
class DeclarationCheck {
public:
    DeclarationCheck(const nf::Type& type, nf::NetworkFunction& nf) : type_(type), nf_(&nf) {}
    /// Goes on with the same function's next generation: what was told stays told.
    void follow(nf::NetworkFunction& nf) { nf_ = &nf; }
    /// Runs each frame alone; leaves the NF's state as it was. Tells of each field once, in all calls together. The
    /// first frame is called packet `first`, from 0.
    std::vector<Undeclared> check(const std::vector<Frame>& frames, uint16_t in_port, size_t first = 0);

private:
    enum class Kind { read, write, read_beyond, write_beyond, outcome };
    struct Result;
    class KeptState;
    Result run(const Frame& frame, const Layers& layers, uint16_t in_port, unsigned lanes, uint8_t fill);
    void check_packet(const Frame& frame, const Layers& layers, uint16_t in_port, unsigned lanes, size_t number,
                      const KeptState& state);
    void check_reads(const Frame& frame, const Layers& layers, uint16_t in_port, unsigned lanes, size_t number,
                     const KeptState& state, const Result& base);
    void tell(Kind kind, uint32_t field, size_t number);

    const nf::Type& type_;
    nf::NetworkFunction* nf_;
    std::set<std::pair<Kind, uint32_t>> told_;
    std::vector<Undeclared> found_;
};

}  // namespace millrace::nftest
