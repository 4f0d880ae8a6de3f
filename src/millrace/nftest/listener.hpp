// A network function whose events are kept for a test to look at.
#pragma once

#include <memory>
#include <vector>

#include "millrace/nf/nf.hpp"

namespace millrace::nftest {

/// Stands in for `nf`, and takes its events in place of it.
class Listener : public nf::NetworkFunction {
public:
    explicit Listener(std::shared_ptr<nf::NetworkFunction> nf) : nf_(std::move(nf)) {}
    const nf::Image& image() const override { return nf_->image(); }
    nf::Growth growth(const nf::Growth& of_type) const override { return nf_->growth(of_type); }
    Fields reads(Fields of_type) const override { return nf_->reads(of_type); }
    Fields writes(Fields of_type) const override { return nf_->writes(of_type); }
    bool commits() const override { return nf_->commits(); }
    std::unique_ptr<nf::CpuHalf> make_cpu_half() override { return nf_->make_cpu_half(); }
    size_t most_events() const override { return nf_->most_events(); }
    std::unique_ptr<nf::CpuHalf> make_teller() override { return nf_->make_teller(); }
    void on_event(const Event& event, const nf::PacketInfo& packet) override {
        events.push_back(event);
        events.back().packet = static_cast<uint32_t>(packet.number);
    }
    std::vector<Event> events;  ///< as they came; `packet` is the packet's number

private:
    std::shared_ptr<nf::NetworkFunction> nf_;
};

}  // namespace millrace::nftest
