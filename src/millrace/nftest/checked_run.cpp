#include "millrace/nftest/checked_run.hpp"

namespace millrace::nftest {

std::shared_ptr<device::Device> CheckedRun::device() {
    device::sim::SimOptions options;
    options.watch = [this](const chain::Program& program, uint16_t node, const Packet& packet) {
        look(program, node, packet);
    };
    return std::make_shared<device::sim::SimDevice>(std::move(options));
}

void CheckedRun::look(const chain::Program& program, uint16_t index, const Packet& packet) {
    const std::lock_guard lock(mutex_);
    const chain::Node& node = program.nodes[index];
    const chain::Program& chain = program.parts.empty() ? program : *program.parts[program.chain_of_node[index]].chain;
    const std::pair<std::string, std::string> names{chain.name, node.name};
    auto at = checks_.find(names);
    if (at == checks_.end()) at = checks_.emplace(names, Checked{node.nf, {*node.type, *node.nf}}).first;
    auto& [nf, check] = at->second;
    if (nf != node.nf) {
        check.follow(*node.nf);
        nf = node.nf;
    }
    const Frame frame(packet.data(), packet.data() + packet.length());
    const size_t written = writer_ == nullptr ? 0 : writer_->written_records();
    ++packets_;
    const std::vector<Undeclared> found = check.check({frame}, packet.in_port(), written);
    if (found.empty()) return;
    for (const Undeclared& one : found)
        findings_.push_back(
            {node.where, "'" + node.name + "' of chain '" + chain.name + "': " + one.message + " (" + capture_ + ")",
             one.hint});
    try {
        if (writer_ == nullptr) writer_ = std::make_unique<io::CaptureWriter>(capture_);
        writer_->write(0, frame);
        if (!writer_->flush()) findings_.push_back({{capture_, 0, 0}, "the packet could not be written", {}});
    } catch (const ConfigError& e) {
        findings_.insert(findings_.end(), e.diagnostics().begin(), e.diagnostics().end());
    }
}

std::vector<Diagnostic> CheckedRun::findings() {
    const std::lock_guard lock(mutex_);
    return findings_;
}

}  // namespace millrace::nftest
