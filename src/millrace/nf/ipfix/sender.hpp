// How messages of IPFIX leave the machine.
#pragma once

#include <cstdint>
#include <memory>
#include <span>

#include "millrace/base/reporter.hpp"
#include "millrace/nf/ipfix/options.hpp"

namespace millrace::nf::ipfix {

/// Sends whole messages, and waits for nobody unless it is asked to.
class Sender {
public:
    virtual ~Sender() = default;
    /// 0, or the errno with which this message, and no other, was not taken. ECONNREFUSED is of one before: it was
    /// taken and refused, and this one may be tried again.
    virtual int send(std::span<const uint8_t> message) = 0;
    /// ECONNREFUSED where the last message that was taken has been refused since; 0.
    virtual int refused() { return 0; }
    /// Waits until the system may have room for another message, for kPatienceMs at most. False: it has none.
    virtual bool wait_for_room() { return false; }
    static constexpr int kPatienceMs = 200;
    /// Most bytes of a message.
    virtual size_t most_bytes() const = 0;
};

/// Resolves the collector's name, if it has one. Throws ConfigError.
std::unique_ptr<Sender> make_udp_sender(const ExportOptions& to);
/// One message behind the other, as RFC 5655 has it.
std::unique_ptr<Sender> make_file_sender(const ExportOptions& to, Reporter reporter);
/// Takes nothing: where no packets flow nobody is told of any.
std::unique_ptr<Sender> make_no_sender(const ExportOptions& to);

}  // namespace millrace::nf::ipfix
