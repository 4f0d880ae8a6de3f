#include "millrace/exec/fragments/splitter.hpp"

#include <algorithm>

#include "millrace/packet/checksum.hpp"
#include "millrace/packet/parse.hpp"

namespace millrace::exec {

std::optional<Split> Split::plan(std::span<const uint8_t> frame, uint32_t mtu, const WholeMark* mark) {
    if (frame.size() <= mtu + eth::kHeaderBytes && (mark == nullptr || mark->version != 6)) return std::nullopt;
    const Layers layers = parse(frame.data(), static_cast<uint32_t>(frame.size()), static_cast<uint32_t>(frame.size()));
    if (!layers.is_ip()) return std::nullopt;
    Split split;
    split.frame_ = frame.first(layers.end);  // without what fills it up
    split.l3_ = layers.l3_offset;
    split.ipv6_ = layers.is_ipv6();
    const bool cut = split.ipv6_ ? split.plan_ipv6(mtu, mark) : split.plan_ipv4(mtu);
    return cut ? std::optional(split) : std::nullopt;
}

bool Split::plan_ipv4(uint32_t mtu) {
    const uint8_t* const header = frame_.data() + l3_;
    const uint32_t header_bytes = (header[0] & 15) * 4u;
    if (frame_.size() - l3_ <= mtu || (load_be16(header + 6) & 0x4000) != 0 || mtu < header_bytes + 8) return false;
    head_ = l3_ + header_bytes;
    payload_ = static_cast<uint32_t>(frame_.size()) - head_;
    each_ = (mtu - header_bytes) & ~7u;
    return true;
}

bool Split::plan_ipv6(uint32_t mtu, const WholeMark* mark) {
    if (mark == nullptr) return false;
    // Its fragments may have been IPv4's: NAT64 has given it a longer header since.
    const bool translated = mark->version == 4;
    const uint32_t longer = translated ? ip::kIpv6Bytes - ip::kIpv4Bytes : 0;
    const uint8_t begins_with = translated && mark->next == ip::kProtocolIcmp ? ip::kProtocolIcmpv6 : mark->next;
    const uint32_t limit = std::min<uint32_t>(mtu, mark->largest + longer);
    if (frame_.size() - l3_ <= limit) return false;
    next_at_ = l3_ + 6;
    head_ = l3_ + ip::kIpv6Bytes;
    // What follows in all fragments is for each hop; the fragmented part begins with what it began with when it came. A
    // packet of which that does not hold is another one: it has been put into a tunnel, say.
    while (frame_[next_at_] != begins_with) {
        const uint8_t kind = frame_[next_at_];
        const bool for_each_hop = kind == ip::kProtocolHopByHop || kind == ip::kProtocolRouting ||
                                  kind == ip::kProtocolDestination;
        if (!for_each_hop || frame_.size() < head_ + 8) return false;
        next_at_ = head_;
        head_ += (frame_[head_ + 1] + 1u) * 8u;
        if (frame_.size() < head_) return false;
    }
    if (limit < head_ - l3_ + kFragmentHeader + 8) return false;
    payload_ = static_cast<uint32_t>(frame_.size()) - head_;
    each_ = (limit - (head_ - l3_) - kFragmentHeader) & ~7u;
    id_ = mark->id;
    return true;
}

/// The options of all fragments but the first: those whose type says so (RFC 791, section 3.1). Returns their bytes.
uint32_t Split::later_options(uint8_t* to) const {
    constexpr uint8_t kEnd = 0, kNothing = 1, kCopied = 0x80;
    const uint8_t* const options = frame_.data() + l3_ + ip::kIpv4Bytes;
    const uint32_t bytes = head_ - l3_ - ip::kIpv4Bytes;
    uint32_t kept = 0;
    for (uint32_t at = 0; at < bytes && options[at] != kEnd;) {
        uint32_t own = 1;
        if (options[at] != kNothing) {
            if (at + 1 == bytes || options[at + 1] < 2 || at + options[at + 1] > bytes) break;
            own = options[at + 1];
            if ((options[at] & kCopied) != 0) {
                std::copy_n(options + at, own, to + kept);
                kept += own;
            }
        }
        at += own;
    }
    while (kept % 4 != 0) to[kept++] = kEnd;
    return kept;
}

uint32_t Split::write(uint32_t index, uint8_t* to) const {
    const uint32_t offset = index * each_, bytes = std::min(each_, payload_ - offset);
    const bool more = index + 1 < count();
    std::copy_n(frame_.data(), head_, to);
    uint8_t* const header = to + l3_;
    uint32_t at = head_;
    if (ipv6_) {
        to[next_at_] = ip::kProtocolFragment;
        to[at] = frame_[next_at_];
        to[at + 1] = 0;
        store_be16(to + at + 2, static_cast<uint16_t>(offset | (more ? 1 : 0)));
        store_be32(to + at + 4, id_);
        at += kFragmentHeader;
        store_be16(header + 4, static_cast<uint16_t>(at + bytes - l3_ - ip::kIpv6Bytes));
    } else {
        if (index > 0) at = l3_ + ip::kIpv4Bytes + later_options(header + ip::kIpv4Bytes);
        const uint32_t before = load_be16(header + 6);  // it may be a fragment itself
        const uint32_t place = (before & 0x1fff) + offset / 8;
        header[0] = static_cast<uint8_t>(0x40 | (at - l3_) / 4);
        store_be16(header + 2, static_cast<uint16_t>(at + bytes - l3_));
        store_be16(header + 6, static_cast<uint16_t>((before & 0xa000) | place | (more ? 0x2000 : 0)));
        store_be16(header + 10, 0);
        store_be16(header + 10, checksum(header, at - l3_));
    }
    std::copy_n(frame_.data() + head_ + offset, bytes, to + at);
    return at + bytes;
}

}  // namespace millrace::exec
