// Captures as frames, by libpcap; .xz and .gz are unpacked.
#pragma once

#include <pcap/pcap.h>

#include <cstdio>
#include <string>
#include <vector>

#include "millrace/base/files/file.hpp"
#include "support/packet_builder.hpp"

namespace millrace::nf::nids {

/// The whole Ethernet frames of a capture, at most `most`; none when it is damaged or of another link type.
inline std::vector<test::Frame> read_capture(const std::string& path, size_t most = 20000) {
    std::vector<test::Frame> frames;
    std::string bytes = read_file(path);
    char error[PCAP_ERRBUF_SIZE];
    FILE* file = bytes.empty() ? nullptr : fmemopen(bytes.data(), bytes.size(), "rb");
    if (file == nullptr) return frames;
    pcap_t* capture = pcap_fopen_offline(file, error);
    if (capture == nullptr) {
        std::fclose(file);
        return frames;
    }
    pcap_pkthdr* header = nullptr;
    const u_char* data = nullptr;
    while (pcap_datalink(capture) == DLT_EN10MB && frames.size() < most && pcap_next_ex(capture, &header, &data) == 1)
        if (header->caplen == header->len) frames.emplace_back(data, data + header->caplen);
    pcap_close(capture);
    return frames;
}

}  // namespace millrace::nf::nids
