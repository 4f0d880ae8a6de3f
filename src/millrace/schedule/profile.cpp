#include "millrace/schedule/profile.hpp"

#include <cmath>
#include <filesystem>
#include <nlohmann/json.hpp>

#include "millrace/base/text/config.hpp"
#include "millrace/base/files/kept_file.hpp"

namespace millrace::schedule {
namespace {

constexpr KeptKind kKind = {"chains", "profile of chains", 1, "measure anew: millrace profile --chain CHAIN.yaml"};
constexpr uint32_t kMaxSms = 4096, kMaxPackets = 1u << 20;

/// How much of the differences a line explains: it may say less than their mean.
double share(const Config& value) {
    const double number = value.number();
    if (!std::isfinite(number) || number > 1) value.fail("'" + value.text() + "' is no R², which is at most 1");
    return number;
}

uint32_t count(const Config& value, int64_t least, int64_t most) {
    return static_cast<uint32_t>(value.integer(least, most));
}

Line line(const Config& value, double& r2) {
    value.only({"start-ns", "packet-ns", "r2"});
    r2 = share(value.at("r2"));
    return {kept_figure(value.at("start-ns")), kept_figure(value.at("packet-ns"))};
}

ChainProfile chain(const Config& value) {
    value.only({"functions", "frame-bytes", "kernel", "transfer", "most-packets-of-sm", "points"});
    ChainProfile chain;
    chain.functions = value.at("functions").text();
    chain.frame_bytes = kept_figure(value.at("frame-bytes"));
    chain.model.kernel = line(value.at("kernel"), chain.model.kernel_r2);
    chain.model.transfer = line(value.at("transfer"), chain.model.transfer_r2);
    chain.model.most_of_sm = count(value.at("most-packets-of-sm"), 0, kMaxPackets);
    for (const Config& point : value.at("points").items()) {
        point.only({"packets", "sms", "kernel-ns", "transfer-ns"});
        chain.points.push_back({count(point.at("packets"), 1, kMaxPackets), count(point.at("sms"), 1, kMaxSms),
                                kept_figure(point.at("kernel-ns")), kept_figure(point.at("transfer-ns"))});
    }
    return chain;
}

Profile parse(const Config& file) {
    file.only({"version", "device", "sms", "least-sms", "grain-sms", "chains"});
    Profile profile;
    profile.gpu.sms = count(file.at("sms"), 1, kMaxSms);
    profile.gpu.least = count(file.at("least-sms"), 1, profile.gpu.sms);
    profile.gpu.grain = count(file.at("grain-sms"), 1, profile.gpu.sms);
    for (const Config& one : file.at("chains").items()) profile.put(chain(one));
    return profile;
}

nlohmann::ordered_json line_json(const Line& line, double r2) {
    return {{"start-ns", line.start}, {"packet-ns", line.slope}, {"r2", r2}};
}

}  // namespace

const ChainProfile* Profile::find(const std::string& functions) const {
    for (const ChainProfile& one : chains)
        if (one.functions == functions) return &one;
    return nullptr;
}

void Profile::put(ChainProfile chain) {
    for (ChainProfile& one : chains)
        if (one.functions == chain.functions) {
            one = std::move(chain);
            return;
        }
    chains.push_back(std::move(chain));
}

std::string profile_json(const Profile& profile) {
    nlohmann::ordered_json json = {{"version", kKind.version},
                                   {"device", profile.device},
                                   {"sms", profile.gpu.sms},
                                   {"least-sms", profile.gpu.least},
                                   {"grain-sms", profile.gpu.grain}};
    json["chains"] = nlohmann::ordered_json::array();
    for (const ChainProfile& chain : profile.chains) {
        nlohmann::ordered_json points = nlohmann::ordered_json::array();
        for (const ProfilePoint& point : chain.points)
            points.push_back({{"packets", point.packets},
                              {"sms", point.sms},
                              {"kernel-ns", point.kernel_ns},
                              {"transfer-ns", point.transfer_ns}});
        json["chains"].push_back({{"functions", chain.functions},
                                  {"frame-bytes", chain.frame_bytes},
                                  {"kernel", line_json(chain.model.kernel, chain.model.kernel_r2)},
                                  {"transfer", line_json(chain.model.transfer, chain.model.transfer_r2)},
                                  {"most-packets-of-sm", chain.model.most_of_sm},
                                  {"points", points}});
    }
    return json.dump(1, ' ', false, nlohmann::json::error_handler_t::replace) + "\n";
}

Profile read_profile(const std::string& path, const std::string& model) {
    Profile profile;
    read_kept_file(kKind, path, model, [&](const Config& file) { profile = parse(file); });
    profile.device = model;
    profile.source = path;
    return profile;
}

std::string profile_path(const std::string& model) { return kept_file(kKind, model); }

std::optional<Profile> profile_of(const std::string& model) {
    const std::string path = model.empty() ? "" : profile_path(model);
    std::error_code error;
    if (path.empty() || !std::filesystem::exists(path, error)) return std::nullopt;
    return read_profile(path, model);
}

}  // namespace millrace::schedule
