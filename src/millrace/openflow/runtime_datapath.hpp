// A switch at work in a runtime, as an agent sees it.
#pragma once

#include "millrace/exec/runtime/runtime.hpp"
#include "millrace/openflow/datapath.hpp"

namespace millrace::openflow {

/// The switch is known by the names of its chain and of itself there, and may be another object in each generation.
class RuntimeDatapath : public Datapath {
public:
    RuntimeDatapath(exec::Runtime& runtime, std::shared_ptr<flow_switch::Control> control, std::string chain,
                    std::string node)
        : runtime_(runtime), control_(std::move(control)), chain_(std::move(chain)), node_(std::move(node)) {}

    flow_switch::Control& control() override { return *control_; }
    std::vector<PortView> ports() const override;
    Lookups lookups() const override;
    void hurry() override { runtime_.hurry_changes(); }
    bool inject(ByteView frame, uint16_t in_port, uint16_t out_port) override;

private:
    exec::Runtime& runtime_;
    std::shared_ptr<flow_switch::Control> control_;
    std::string chain_, node_;
};

}  // namespace millrace::openflow
