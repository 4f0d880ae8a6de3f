#include "millrace/base/device_names.hpp"

#include <algorithm>
#include <charconv>
#include <stdexcept>

namespace millrace {
namespace {

DeviceName parse_name(std::string_view text) {
    const auto refuse = [&](const std::string& why) {
        throw std::invalid_argument("'" + std::string(text) + "' is no device" + why);
    };
    const size_t colon = text.find(':');
    DeviceName name{std::string(text.substr(0, colon)), 0};
    if (name.kind != "cpu" && name.kind != "sim" && name.kind != "cuda")
        refuse(": cpu, sim, cuda, and cuda:1 for the second GPU are");
    if (colon == text.npos) return name;
    if (name.kind == "cpu") refuse(": all cores are the one device 'cpu'");
    const std::string_view digits = text.substr(colon + 1);
    const auto [end, error] = std::from_chars(digits.data(), digits.data() + digits.size(), name.number);
    if (error != std::errc() || end != digits.data() + digits.size() || name.number > 255)
        refuse(": behind the colon comes a number, 0 to 255");
    return name;
}

}  // namespace

DeviceNames parse_device_names(std::string_view text) {
    DeviceNames names;
    std::vector<DeviceName>& devices = names.devices;
    for (size_t begin = 0, end = 0; end != text.npos; begin = end + 1) {
        end = text.find('+', begin);
        const std::string_view part = text.substr(begin, end == text.npos ? text.npos : end - begin);
        const DeviceName name = parse_name(part);
        const bool cpu = name.kind == "cpu";
        if (!cpu && !devices.empty() && name.kind != devices.front().kind)
            throw std::invalid_argument("devices of one chain are of one kind, besides the cpu, and '" +
                                        std::string(part) + "' is of another");
        if (cpu ? names.cpu : std::find(devices.begin(), devices.end(), name) != devices.end())
            throw std::invalid_argument("'" + std::string(part) + "' is named twice");
        if (cpu) names.cpu = true;
        else devices.push_back(name);
    }
    return names;
}

std::string text_of(const DeviceNames& names) {
    std::string text;
    for (const DeviceName& name : names.devices) {
        text += (text.empty() ? "" : "+") + name.kind;
        if (names.devices.size() > 1 || name.number != 0) text += ":" + std::to_string(name.number);
    }
    if (names.cpu) text += text.empty() ? "cpu" : "+cpu";
    return text;
}

}  // namespace millrace
