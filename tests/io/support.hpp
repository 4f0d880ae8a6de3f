// What tests of ports need again and again.
#pragma once

#include <gtest/gtest.h>

#include <filesystem>
#include <fstream>
#include <string>
#include <vector>

#include "millrace/io/port.hpp"
#include "millrace/io/sink_port.hpp"
#include "support/test_folder.hpp"

namespace millrace::io::test {

using millrace::test::TestFolder;

inline std::vector<std::unique_ptr<Port>> ports(const std::string& yaml, PortEnvironment environment = {}) {
    return make_ports(Config::parse(yaml, "ports.yaml"), environment);
}

inline constexpr SourceDelivery kContiguous{.contiguous = true};

/// The same with sources that hand out frames so.
inline std::vector<std::unique_ptr<Port>> ports(const std::string& yaml, const SourceDelivery& sources) {
    PortEnvironment environment;
    environment.sources = sources;
    return ports(yaml, environment);
}

/// The message of the ConfigError that the YAML earns, rendered; empty when it earns none.
inline std::string mistake(const std::string& yaml, const SourceDelivery& sources = {}) {
    try {
        ports(yaml, sources);
        return {};
    } catch (const ConfigError& e) {
        return e.what();
    }
}

/// Takes everything from `from` (queue by queue) and sends it to `to`, until the end. Returns the number moved.
inline uint64_t pump(Port& from, Port& to, uint16_t burst = 32) {
    uint64_t moved = 0;
    std::vector<rte_mbuf*> mbufs(burst);
    while (true) {
        const bool last = from.exhausted();
        uint16_t got = 0;
        for (uint16_t queue = 0; queue < from.info().receive_queues; ++queue) {
            const uint16_t n = from.receive(queue, mbufs.data(), burst);
            uint16_t sent = 0;
            while (sent < n)
                sent = static_cast<uint16_t>(sent + to.send(0, &mbufs[sent], static_cast<uint16_t>(n - sent)));
            got = static_cast<uint16_t>(got + n);
        }
        moved += got;
        if (last && got == 0) return moved;
    }
}

inline std::string run(const std::string& command) {
    std::string output;
    FILE* pipe = popen(("(" + command + ") 2>&1").c_str(), "r");
    char buffer[4096];
    size_t n = 0;
    while ((n = fread(buffer, 1, sizeof buffer, pipe)) > 0) output.append(buffer, n);
    pclose(pipe);
    return output;
}

inline bool have(const std::string& program) {
    return std::system(("command -v " + program + " >/dev/null 2>&1").c_str()) == 0;
}

inline void write_text(const std::string& path, const std::string& bytes) {
    std::ofstream(path, std::ios::binary) << bytes;
}

}  // namespace millrace::io::test
