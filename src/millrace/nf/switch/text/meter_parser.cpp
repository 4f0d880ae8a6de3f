// Meters, as `ovs-ofctl add-meter` takes them.
#include <algorithm>

#include "millrace/nf/switch/text/flow_parser.hpp"
#include "millrace/nf/switch/text/statements.hpp"

namespace millrace::nf::flow_switch {
namespace {

constexpr uint16_t kKbps = 1, kPackets = 2, kBurst = 4, kStats = 8;  // OFPMF_…

/// A word of the meter itself; false when it is none.
bool read_flag(Word word, Meter& meter) {
    constexpr struct {
        const char* name;
        uint16_t flag;
    } kFlags[] = {{"kbps", kKbps}, {"pktps", kPackets}, {"burst", kBurst}, {"stats", kStats}};
    for (const auto& known : kFlags) {
        if (word.text != known.name) continue;
        meter.flags = static_cast<uint16_t>(meter.flags | known.flag);
        return true;
    }
    return false;
}

void read_band_word(Word name, Word value, Meter::Band& band, bool& remarks) {
    if (name.text == "rate") {
        band.rate = static_cast<uint32_t>(parse_number(value, 0xffffffffu));
    } else if (name.text == "burst_size" || name.text == "burst") {
        band.burst = static_cast<uint32_t>(parse_number(value, 0xffffffffu));
    } else if (name.text == "prec_level") {
        band.precedence = static_cast<uint8_t>(parse_number(value, 0xff));
    } else if (name.text == "type") {
        if (value.text != "drop" && value.text != "dscp_remark")
            value.fail("bands of type " + value.quoted() + " are not understood", "drop and dscp_remark are");
        remarks = value.text == "dscp_remark";
    } else {
        name.fail(name.quoted() + " is not a word of a band",
                  "a meter is meter=1,kbps,band=type=drop,rate=1000,burst_size=100");
    }
}

}  // namespace

std::optional<std::string> mistake_of(const Meter& meter) {
    if (meter.id == 0 || meter.id > Meter::kMaxId) return "a meter's number is from 1 to 4294901760";
    if (meter.bands.size() > Meter::kMaxBands)
        return "a meter has " + std::to_string(Meter::kMaxBands) + " bands at most";
    if ((meter.flags & kKbps) != 0 && (meter.flags & kPackets) != 0)
        return "a meter counts kilobits or packets, not both";
    for (const Meter::Band& band : meter.bands)
        if (band.rate == 0) return "a band has a rate above 0";
    return std::nullopt;
}

Meter parse_meter(std::string_view line) {
    Meter meter;
    bool in_band = false, remarks = false;
    const auto end_band = [&](Word word) {
        if (!in_band) return;
        if (remarks && meter.bands.back().precedence == 0)
            word.fail("a band of type dscp_remark says by how much", "write prec_level=1");
        if (!remarks) meter.bands.back().precedence = 0;
    };
    for_each_word(line, [&](Word word) {
        auto [name, value] = word.split('=');
        if (name.text == "band" || name.text == "bands") {
            end_band(word);
            in_band = true;
            remarks = false;
            meter.bands.emplace_back();
            const auto [inner, rest] = value.split('=');
            name = inner;
            value = rest;
            if (name.text.empty()) return true;
        } else if (in_band && name.text == "type" && meter.bands.back().rate != 0) {
            end_band(word);
            remarks = false;
            meter.bands.emplace_back();
        }
        if (in_band) read_band_word(name, value, meter.bands.back(), remarks);
        else if (name.text == "meter") meter.id = static_cast<uint32_t>(parse_number(value, 0xffffffffu));
        else if (!read_flag(word, meter))
            name.fail(name.quoted() + " is not a word of a meter",
                      "a meter is meter=1,kbps,band=type=drop,rate=1000,burst_size=100");
        return true;
    });
    const Word whole{line, 0};
    end_band(whole);
    if ((meter.flags & (kKbps | kPackets)) == 0) meter.flags = static_cast<uint16_t>(meter.flags | kKbps);
    meter.by_packets = (meter.flags & kPackets) != 0;
    if (const auto mistake = mistake_of(meter)) whole.fail(*mistake);
    return meter;
}

void load_meters(std::string_view text, const std::string& file, FlowSet& set) {
    for_each_statement(text, file, set, [&](std::string_view line, uint32_t, uint32_t) {
        Meter meter = parse_meter(line);
        if (std::any_of(set.meters.begin(), set.meters.end(), [&](const Meter& other) { return other.id == meter.id; }))
            throw WordMistake{0, "there are two meters " + std::to_string(meter.id), "give one another number"};
        set.meters.push_back(std::move(meter));
    });
}

}  // namespace millrace::nf::flow_switch
