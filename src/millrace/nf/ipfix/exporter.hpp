// The exporting process (RFC 7011): records become messages, and somebody is told what was lost.
#pragma once

#include <array>
#include <functional>
#include <memory>
#include <string>
#include <vector>

#include "millrace/nf/ipfix/message.hpp"
#include "millrace/nf/ipfix/sender.hpp"

namespace millrace::nf::ipfix {

/// Why records were not sent.
enum class Unsent : uint8_t {
    refused,      ///< the collector's host has answered that nobody listens there
    unreachable,  ///< there is no way to it
    queue_full,   ///< the system had no room for a message
    failed,       ///< anything else: a file that can't be written
    count,
};

/// Flow records, and what they have counted.
struct RecordSum {
    uint64_t records = 0, packets = 0, octets = 0;
    RecordSum& operator+=(const RecordSum& other) {
        records += other.records;
        packets += other.packets;
        octets += other.octets;
        return *this;
    }
};

/// One observation domain, one transport session. Memory for one message, whatever happens to the collector. Not for
/// several threads at once.
class Exporter {
public:
    /// `wall_ns`: the time of day, since the epoch.
    Exporter(const ExportOptions& options, std::unique_ptr<Sender> sender, std::vector<std::string> ports,
             std::function<uint64_t()> wall_ns);
    ~Exporter();
    Exporter(const Exporter&) = delete;
    Exporter& operator=(const Exporter&) = delete;

    /// A record; the message leaves when it is full.
    void add(const Note& note);
    /// Sends what waits.
    void send_rest();
    /// From now on it waits for room in the system, as long as there is any in time: nobody else waits for it.
    void wait_for_room() { waits_ = true; }
    /// Takes what was sent for sent, or for refused where its answer has come: some time after the last message.
    void settle_last();
    /// The last message: with the statistics of all, and of what has been refused since.
    void finish();
    Sender& sender() { return *sender_; }

    /// Packets that flows had no room for, and what the device could not tell: for the statistics.
    void set_ignored(uint64_t packets, const RecordSum& not_told);

    const RecordSum& sent() const { return sent_; }
    const RecordSum& unsent(Unsent why) const { return unsent_[static_cast<size_t>(why)]; }
    uint64_t messages() const { return messages_; }
    uint64_t message_bytes() const { return message_bytes_; }

private:
    void tell_templates();
    void tell_templates_if_due();
    void send_message();
    void settle(const RecordSum& sum, int error);

    const ExportOptions options_;
    const std::unique_ptr<Sender> sender_;
    const std::vector<std::string> ports_;
    const std::function<uint64_t()> wall_ns_;
    Message message_;
    Bytes flow_, record_;
    RecordSum in_message_, last_sent_;  ///< the latter is not known to have been refused yet
    RecordSum sent_, not_told_;
    std::array<RecordSum, static_cast<size_t>(Unsent::count)> unsent_{};
    uint64_t messages_ = 0, message_bytes_ = 0, ignored_packets_ = 0;
    uint64_t templates_ns_ = 0, messages_since_templates_ = 0;
    uint32_t sequence_ = 0;
    bool told_templates_ = false, waits_ = false;
};

}  // namespace millrace::nf::ipfix
