// Runs of one chain with tenants, from a capture into others.
#pragma once

#include "millrace/io/capture/capture_reader.hpp"
#include "millrace/io/capture/capture_writer.hpp"
#include "support/end_of_run.hpp"
#include "tenancy/scene.hpp"

namespace millrace::tenancy::test {

using millrace::test::Frame;

/// What leaves by both ports of a chain, in order.
struct Left {
    std::vector<Frame> out, punted;
};
inline std::vector<Frame> frames_of(const std::string& path) {
    io::CaptureReader reader(path);
    std::vector<Frame> frames;
    for (io::CaptureRecord record; reader.next(record);) frames.emplace_back(record.bytes.begin(), record.bytes.end());
    return frames;
}

/// A run of one chain from a capture.
class ChainRun {
public:
    ChainRun(const std::string& nfs, const std::string& tenants, const std::string& device, const std::string& rate,
             const std::vector<Frame>& frames, unsigned batch = 16384)
        : manager_(std::make_shared<Manager>(1)) {
        {
            io::CaptureWriter writer(folder_ / "in.pcap");
            for (size_t i = 0; i < frames.size(); ++i)
                writer.write(1'000'000'000 + i * 1000, frames[i], static_cast<uint32_t>(frames[i].size()));
        }
        chain::LoadOptions load;
        load.output_folder = folder_.path();
        load.device = device;
        exec::RuntimeOptions options;
        options.tenants = manager_;
        options.workers = 1;
        runtime_ = std::make_unique<exec::Runtime>(
            chain::parse_configuration("version: 1\nports:\n  in: {pcap: " + (folder_ / "in.pcap") + ", rate: " + rate +
                                           "}\n  out: {output: out.pcap}\n  up: {output: up.pcap}\n" + tenants +
                                           "chains:\n  c: {input: in, output: out, punt: up, max-batch: " +
                                           std::to_string(batch) + ", nfs: " + nfs + "}\n",
                                       "(test)", load),
            options);
    }
    std::string socket() const { return folder_ / "tenants.sock"; }
    exec::Runtime& runtime() { return *runtime_; }
    exec::TenantReport tenant(const std::string& name) const {
        for (const exec::TenantReport& one : manager_->report())
            if (one.name == name) return one;
        return {};
    }
    Left finish() {
        report_ = millrace::test::end_of_run(*runtime_);
        runtime_.reset();
        return {frames_of(folder_ / "out.pcap"), frames_of(folder_ / "up.pcap")};
    }
    const exec::Report& report() const { return report_; }

private:
    millrace::test::TestFolder folder_;
    std::shared_ptr<Manager> manager_;
    std::unique_ptr<exec::Runtime> runtime_;
    exec::Report report_;
};

/// UDP frames that tell their number in their source address.
inline std::vector<Frame> numbered(size_t count) {
    std::vector<Frame> frames;
    for (size_t i = 0; i < count; ++i) {
        Frame frame = millrace::test::build_packet("{ipv4: {}, udp: {src: 1, dst: 2}}");
        frame[0] = 0;
        for (size_t b = 0; b < 4; ++b) frame[6 + b] = static_cast<uint8_t>(i >> (24 - 8 * b));
        frames.push_back(std::move(frame));
    }
    return frames;
}

}  // namespace millrace::tenancy::test
