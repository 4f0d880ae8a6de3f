// What `pcap` and `capture` ports have in common: options, and how a record becomes a packet. Private to io/.
#pragma once

#include <chrono>
#include <optional>
#include <string>

#include "millrace/io/capture/capture_reader.hpp"
#include "millrace/io/source/pacer.hpp"
#include "millrace/io/port_plan.hpp"

namespace millrace::io {

struct CaptureOptions {
    std::string path;
    Location where;
    uint64_t loops = 1;  ///< UINT64_MAX: for ever
    enum class Rate { max, original, fixed };
    Rate rate = Rate::max;
    double packets_per_second = 0;
    bool pad = false;        ///< frames that the capture cut are filled up with zeros
    bool synthesise = true;  ///< other link types get an Ethernet header

    /// Reads loop, rate, pad and ethernet of `options`; `file` is the capture.
    static CaptureOptions read(const Config& options, const Config& file);
    static const std::vector<std::string>& keys();
};

/// Opens the capture without a look at its packets. Throws ConfigError for what is none, and warns of one that gives no
/// packet.
void check_capture(const CaptureOptions& options, const PortPlan& plan);

/// Looks once through the capture: warns of frames that are too long and returns the longest frame that it will
/// give (what `pad` and made-up headers add included). Longer captures than 1 GiB are not read to the end;
/// their buffers then hold at least 16 KiB.
uint32_t longest_frame_of(CaptureReader& reader, const CaptureOptions& options, const PortPlan& plan);

/// A record on its way to becoming a packet: lengths with the made-up header and the padding.
struct ReadyFrame {
    CaptureRecord record;
    uint32_t length = 0;
    bool padded = false, snapped = false;
};

/// Makes a frame of `record`; the reason when it cannot become a packet of at most `longest_bytes`.
std::optional<PortDrop> make_ready(CaptureReader& reader, const CaptureOptions& options, uint32_t longest_bytes,
                                   const CaptureRecord& record, ReadyFrame& frame);

/// Copies the frame to `out`.
void copy_frame(const ReadyFrame& frame, uint8_t* out);

/// When the packets of a capture are due.
class CapturePacer {
public:
    explicit CapturePacer(const CaptureOptions& options, double share = 1)
        : rate_(options.rate),
          pacer_(options.rate == CaptureOptions::Rate::fixed ? options.packets_per_second * share : 0),
          ticks_per_ns_(static_cast<double>(rte_get_tsc_hz()) * 1e-9) {}
    uint16_t allowed(uint16_t count) { return static_cast<uint16_t>(pacer_.due(count)); }
    void took(uint16_t count) { pacer_.took(count); }
    /// For `rate: original`: whether the time of this packet has come. Times may jump back: then it has.
    bool is_due(uint64_t timestamp_ns) {
        if (rate_ != CaptureOptions::Rate::original) return true;
        const uint64_t now = rte_rdtsc();
        if (begin_tsc_ == 0) {
            begin_tsc_ = now;
            first_ns_ = timestamp_ns;
        }
        return timestamp_ns <= first_ns_ ||
               static_cast<double>(now - begin_tsc_) >= static_cast<double>(timestamp_ns - first_ns_) * ticks_per_ns_;
    }
    /// Until this packet, which is the next one, is due; of a queue that was found to have none.
    std::chrono::nanoseconds until_due(uint64_t timestamp_ns) const {
        uint64_t wait_ns = pacer_.until_due_ns();
        if (rate_ == CaptureOptions::Rate::original && begin_tsc_ != 0 && timestamp_ns > first_ns_) {
            const auto passed_ns = static_cast<uint64_t>(static_cast<double>(rte_rdtsc() - begin_tsc_) / ticks_per_ns_);
            wait_ns = std::max(wait_ns, timestamp_ns - first_ns_ - std::min(passed_ns, timestamp_ns - first_ns_));
        }
        return std::chrono::nanoseconds(wait_ns);
    }
    /// A new round begins: time counts from its first packet.
    void restart() { begin_tsc_ = 0; }

private:
    CaptureOptions::Rate rate_;
    Pacer pacer_;
    double ticks_per_ns_;
    uint64_t begin_tsc_ = 0, first_ns_ = 0;
};

}  // namespace millrace::io
