// Messages of IPFIX, as they lie on the wire (RFC 7011, section 3).
#pragma once

#include <cstdint>
#include <span>
#include <string_view>
#include <vector>

#include "millrace/nf/ipfix/device.hpp"

namespace millrace::nf::ipfix {

/// The templates' own numbers. Those of sets with templates are 2 and 3.
enum TemplateId : uint16_t { kIpv4Flow = 256, kIpv6Flow, kStatistics, kInterface };
inline constexpr uint16_t kTemplateSet = 2, kOptionsTemplateSet = 3;

/// Bytes in network order.
class Bytes {
public:
    template <class T>
    void put(T value) {
        for (size_t i = sizeof(T); i-- > 0;) bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
    }
    void put_raw(const void* from, size_t n) {
        const auto* const first = static_cast<const uint8_t*>(from);
        bytes_.insert(bytes_.end(), first, first + n);
    }
    void set16(size_t at, uint16_t value) {
        bytes_[at] = static_cast<uint8_t>(value >> 8);
        bytes_[at + 1] = static_cast<uint8_t>(value);
    }
    void set32(size_t at, uint32_t value) {
        set16(at, static_cast<uint16_t>(value >> 16));
        set16(at + 2, static_cast<uint16_t>(value));
    }
    void clear() { bytes_.clear(); }
    size_t size() const { return bytes_.size(); }
    std::span<const uint8_t> view() const { return bytes_; }

private:
    std::vector<uint8_t> bytes_;
};

/// One message at a time: records of one kind that follow each other share a set.
class Message {
public:
    static constexpr size_t kHeaderBytes = 16, kSetHeaderBytes = 4;

    /// No message is longer than `most` bytes.
    Message(size_t most, uint32_t domain) : most_(most), domain_(domain) { clear(); }
    /// Puts a record in a set of this number; false, and nothing changed, where there is no room.
    bool add(uint16_t set, std::span<const uint8_t> record);
    bool empty() const { return bytes_.size() == kHeaderBytes; }
    /// Records of data: those that sequence numbers count.
    uint32_t data_records() const { return data_records_; }
    /// Completes it. `sequence`: how many records of data came before.
    std::span<const uint8_t> finish(uint32_t export_seconds, uint32_t sequence);
    void clear();

private:
    void close_set();
    const size_t most_;
    const uint32_t domain_;
    Bytes bytes_;
    size_t set_at_ = 0;  ///< where the open set begins; 0: none is
    uint16_t set_ = 0;
    uint32_t data_records_ = 0;
};

/// What is told of the exporter itself.
struct ExporterCounts {
    uint64_t messages = 0, records = 0, octets = 0;  ///< that were sent
    uint64_t ignored_packets = 0;                    ///< of flows that there was no room for
    uint64_t unsent_records = 0, unsent_packets = 0, unsent_octets = 0;
};

/// A template of flows, for a set of number kTemplateSet.
void write_template(TemplateId id, Bytes& to);
/// One of kStatistics or kInterface, for a set of number kOptionsTemplateSet.
void write_options_template(TemplateId id, Bytes& to);
/// The template that a record has, and the record.
TemplateId write_flow(const Note& note, Bytes& to);
void write_statistics(uint32_t domain, const ExporterCounts& counts, Bytes& to);
/// `port` counts from 0, as everywhere.
void write_interface(uint16_t port, std::string_view name, Bytes& to);

}  // namespace millrace::nf::ipfix
