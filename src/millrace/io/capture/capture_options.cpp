#include "millrace/io/capture/capture_options.hpp"

#include <algorithm>
#include <cstring>

namespace millrace::io {

const std::vector<std::string>& CaptureOptions::keys() {
    static const std::vector<std::string> kKeys = {"loop", "rate", "pad", "ethernet"};
    return kKeys;
}

CaptureOptions CaptureOptions::read(const Config& options, const Config& file) {
    CaptureOptions result;
    result.path = file.path();
    result.where = file.where();
    if (const auto loop = options.find("loop"))
        result.loops = loop->text() == "forever" ? UINT64_MAX : static_cast<uint64_t>(loop->integer(1));
    if (const auto rate = options.find("rate")) {
        if (rate->text() == "original") {
            result.rate = Rate::original;
        } else if (rate->text() != "max") {
            result.rate = Rate::fixed;
            result.packets_per_second = static_cast<double>(rate->size());
            if (result.packets_per_second < 1)
                rate->fail("the rate is in packets a second", "write original, max, or such as 10k");
        }
    }
    if (const auto pad = options.find("pad")) result.pad = pad->choice({"none", "original"}) == 1;
    if (const auto ethernet = options.find("ethernet"))
        result.synthesise = ethernet->choice({"synthesise", "only"}) == 0;
    return result;
}

void check_capture(const CaptureOptions& options, const PortPlan& plan) {
    const CaptureReader reader(options.path, options.where);
    if (reader.is_ethernet() || (options.synthesise && has_ethernet_form(reader.link_type()))) return;
    plan.warn(Diagnostic{
        options.where,
        "link type " + reader.link_type_name() + " is not Ethernet: every packet will be dropped as 'unsupported-link'",
        options.synthesise ? "convert the capture with editcap -T ether" : "set 'ethernet: synthesise'",
        Diagnostic::Severity::warning});
}

uint32_t longest_frame_of(CaptureReader& reader, const CaptureOptions& options, const PortPlan& plan) {
    constexpr uint64_t kMaxScanned = uint64_t{1} << 30;
    constexpr uint32_t kLeastUnread = 16384;
    if (plan.max_frame_bytes != 0) return plan.max_frame_bytes;
    const CaptureScan scan = scan_capture(reader, kMaxScanned);
    uint32_t longest = options.pad ? scan.longest_wire_bytes : scan.longest_bytes;
    if (!scan.all_ethernet && options.synthesise) longest += static_cast<uint32_t>(EthernetHead{}.bytes.size());
    if (!scan.complete) longest = std::max(longest, kLeastUnread);
    const uint32_t most = longest_frame(plan.pool.headroom_bytes);
    if (longest > most)
        plan.warn(Diagnostic{options.where,
                             "frames of up to " + std::to_string(longest) + " bytes: those above " +
                                 std::to_string(most) + " will be dropped as 'too-long'",
                             "", Diagnostic::Severity::warning});
    return longest;
}

std::optional<PortDrop> make_ready(CaptureReader& reader, const CaptureOptions& options, uint32_t longest_bytes,
                                   const CaptureRecord& record, ReadyFrame& frame) {
    frame.record = record;
    if (record.link_type != kEthernetLink && !(options.synthesise && reader.to_ethernet(frame.record)))
        return PortDrop::unsupported_link;
    const auto captured = static_cast<uint32_t>(frame.record.head.size() + frame.record.bytes.size());
    frame.padded = options.pad && frame.record.wire_bytes > captured;
    frame.snapped = !options.pad && frame.record.wire_bytes > captured;
    frame.length = frame.padded ? frame.record.wire_bytes : captured;
    if (frame.length == 0) return PortDrop::too_short;
    if (frame.length > longest_bytes) return PortDrop::too_long;
    return std::nullopt;
}

void copy_frame(const ReadyFrame& frame, uint8_t* out) {
    const auto& [head, bytes] = std::pair{frame.record.head, frame.record.bytes};
    if (!head.empty()) std::memcpy(out, head.data(), head.size());
    if (!bytes.empty()) std::memcpy(out + head.size(), bytes.data(), bytes.size());
    const size_t filled = head.size() + bytes.size();
    if (frame.length > filled) std::memset(out + filled, 0, frame.length - filled);
}

}  // namespace millrace::io
