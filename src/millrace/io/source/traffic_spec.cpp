// The options of a `source` port.
#include "millrace/io/capture/capture_reader.hpp"
#include "millrace/io/source/traffic.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::io {
namespace {

constexpr int64_t kLongest = 65407;  // behind the smallest headroom; the port checks against its own

uint32_t read_size(const Config& value) { return static_cast<uint32_t>(value.integer(42, kLongest)); }

/// `64`, `imix`, `[64, 1500]`, `[{bytes: 64, weight: 7}, …]`.
std::vector<TrafficSpec::Size> read_sizes(const Config& value) {
    // IP packets of 40 (padded to the least frame), 576 and 1500 bytes, 7 to 4 to 1: the "simple IMIX".
    if (value.is_scalar() && value.text() == "imix") return {{64, 7}, {590, 4}, {1514, 1}};
    std::vector<TrafficSpec::Size> sizes;
    for (const Config& item : value.items()) {
        if (!item.is_map()) {
            sizes.push_back({read_size(item), 1});
            continue;
        }
        item.only({"bytes", "weight"});
        const double weight = item.at("weight").number();
        if (!(weight > 0) || weight > 1e9) item.at("weight").fail("a weight is above 0", "such as 7");
        sizes.push_back({read_size(item.at("bytes")), weight});
    }
    if (sizes.empty()) value.fail("no frame size is given", "write 64, imix or a list of sizes");
    return sizes;
}

/// `53` or `1024-65535`.
TrafficSpec::PortRange read_ports(const Config& value) {
    const std::string text = value.text();
    unsigned first = 0, last = 0;
    char rest = 0;
    const int n = std::sscanf(text.c_str(), "%5u-%5u%c", &first, &last, &rest);
    if (n == 1 && text.find('-') == std::string::npos && text == std::to_string(first)) last = first;
    else if (n != 2) value.fail("'" + text + "' is no port range", "write it as 53 or 1024-65535");
    if (first > last || last > 65535)
        value.fail("'" + text + "' is no port range", "ports go from 0 to 65535, the lower one first");
    return {static_cast<uint16_t>(first), static_cast<uint16_t>(last)};
}

void read_payload(const Config& value, TrafficSpec& spec) {
    spec.payload_where = value.where();
    if (value.is_scalar()) {
        static constexpr TrafficSpec::Payload kNamed[] = {TrafficSpec::Payload::random, TrafficSpec::Payload::zero,
                                                          TrafficSpec::Payload::text};
        spec.payload = kNamed[value.choice({"random", "zero", "text"})];
        return;
    }
    value.only({"pcap", "file"});
    if (value.has("pcap") == value.has("file"))
        value.fail("the payload comes from one file", "write { pcap: … } or { file: … }");
    spec.payload = value.has("pcap") ? TrafficSpec::Payload::pcap : TrafficSpec::Payload::file;
    const Config file = value.at(value.has("pcap") ? "pcap" : "file");
    spec.payload_file = file.path();
    spec.payload_where = file.where();
}

}  // namespace

TrafficSpec::TrafficSpec() : src(*parse_prefix("10.0.0.0/8")), dst(*parse_prefix("192.168.0.0/16")) {}

const std::vector<std::string>& TrafficSpec::keys() {
    static const std::vector<std::string> kKeys = {"size",  "flows", "popularity", "protocol", "addresses",
                                                   "ports", "macs",  "payload",    "seed",     "replay"};
    return kKeys;
}

TrafficSpec TrafficSpec::read(const Config& options) {
    TrafficSpec spec;
    if (const auto replay = options.find("replay")) {
        for (const std::string& key : keys())
            if (key != "replay" && options.has(key))
                options.at(key).fail("'replay' says what the frames are", "leave one of them out");
        spec.replay_file = replay->path();
        spec.replay_where = replay->where();
        const CaptureReader readable(spec.replay_file, spec.replay_where);
        return spec;
    }
    if (const auto size = options.find("size")) spec.sizes = read_sizes(*size);
    if (const auto protocol = options.find("protocol"))
        spec.protocol = protocol->choice({"udp", "tcp"}) == 0 ? Protocol::udp : Protocol::tcp;
    if (const auto addresses = options.find("addresses")) {
        addresses->only({"src", "dst"});
        spec.src = addresses->at("src").prefix();
        spec.dst = addresses->at("dst").prefix();
        if (spec.src.ipv6 != spec.dst.ipv6) addresses->fail("'src' and 'dst' are of different IP versions");
    }
    if (const auto ports = options.find("ports")) {
        ports->only({"src", "dst"});
        if (const auto src = ports->find("src")) spec.src_ports = read_ports(*src);
        if (const auto dst = ports->find("dst")) spec.dst_ports = read_ports(*dst);
    }
    if (const auto macs = options.find("macs")) {
        macs->only({"src", "dst"});
        if (const auto src = macs->find("src")) spec.src_mac = src->mac();
        if (const auto dst = macs->find("dst")) spec.dst_mac = dst->mac();
    }
    if (const auto payload = options.find("payload")) read_payload(*payload, spec);
    spec.seed = static_cast<uint64_t>(options.integer_or("seed", 1, 0));

    if (const auto popularity = options.find("popularity"))
        spec.popularity = popularity->choice({"even", "zipf"}) == 0 ? Popularity::even : Popularity::zipf;

    const unsigned host_bits = spec.src.address_bits() - spec.src.length;
    const double most = (host_bits >= 40 ? 0x1p40 : static_cast<double>(uint64_t{1} << host_bits)) *
                        (spec.src_ports.last - spec.src_ports.first + 1);
    if (const auto flows = options.find("flows")) {
        const uint64_t count = flows->size();
        if (count < 1 || count > (uint64_t{1} << 24)) flows->fail("'flows' is out of range", "from 1 to 16Mi");
        spec.flows = static_cast<uint32_t>(count);
        if (static_cast<double>(count) > most)
            flows->fail("there are fewer source addresses and ports than flows",
                        "widen 'addresses: src' or 'ports: src'");
    } else if (static_cast<double>(spec.flows) > most) {
        spec.flows = static_cast<uint32_t>(most);
    }
    for (const Size& size : spec.sizes)
        if (size.bytes < spec.header_bytes())
            options.at("size").fail(
                "frames of " + std::to_string(size.bytes) + " bytes have no room for their headers",
                "at least " + std::to_string(spec.header_bytes()) + " with this protocol and these addresses");
    return spec;
}

uint32_t TrafficSpec::header_bytes() const {
    return eth::kHeaderBytes + (src.ipv6 ? ip::kIpv6Bytes : ip::kIpv4Bytes) +
           (protocol == Protocol::udp ? udp::kHeaderBytes : tcp::kHeaderBytes);
}

uint32_t TrafficSpec::longest_bytes() const {
    if (!replay_file.empty()) return replay_longest_bytes;
    uint32_t longest = 0;
    for (const Size& size : sizes) longest = std::max(longest, size.bytes);
    return longest;
}

}  // namespace millrace::io
