#include "lab/machine.hpp"

#include <rte_cycles.h>

#include <ctime>
#include <filesystem>
#include <fstream>
#include <nlohmann/json.hpp>
#include <thread>

#include <millrace_commit.hpp>  // written at build time

namespace millrace::lab {
namespace {

std::string today() {
    const std::time_t now = std::time(nullptr);
    char text[32];
    std::tm parts{};
    std::strftime(text, sizeof text, "%Y-%m-%d", gmtime_r(&now, &parts));
    return text;
}

std::string processor() {
    std::ifstream in("/proc/cpuinfo");
    for (std::string line; std::getline(in, line);)
        if (line.starts_with("model name")) return line.substr(line.find(':') + 2);
    return "unknown";
}

double load_average() {
    double load = 0;
    std::ifstream("/proc/loadavg") >> load;
    return load;
}

}  // namespace

std::string commit() { return MILLRACE_COMMIT; }

nlohmann::json provenance() {
    std::ifstream own("/proc/self/cmdline");
    std::string command, word;
    std::getline(own, command, '\0');
    command = std::filesystem::path(command).filename();
    while (std::getline(own, word, '\0')) command += " " + word;
    return {{"command", command},
            {"date", today()},
            {"commit", commit()},
            {"machine",
             {{"processor", processor()},
              {"cores", std::thread::hardware_concurrency()},
              {"load-average", load_average()},
              {"tsc-ghz", static_cast<double>(rte_get_tsc_hz()) * 1e-9}}}};
}

}  // namespace millrace::lab
