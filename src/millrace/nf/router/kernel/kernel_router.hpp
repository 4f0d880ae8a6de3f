// A router whose routes and neighbours are the Linux kernel's (`kernel:` in its options).
#pragma once

#include "millrace/nf/changeable.hpp"
#include "millrace/nf/names_ports.hpp"
#include "millrace/nf/nf.hpp"
#include "millrace/nf/router/kernel/kernel_watch.hpp"
#include "millrace/nf/stands_in.hpp"

namespace millrace::nf::router {

/// Reads `kernel: {table, interfaces}`; `ports` are the port names by number. Throws ConfigError.
KernelOptions read_kernel_options(const Config& options, const std::vector<std::string>& ports,
                                  const std::vector<std::pair<std::string, uint16_t>>& linux_ports);

/// One generation: the kernel's tables at one moment. Only where packets will flow (Environment::live) is the kernel
/// asked; elsewhere there is no route.
class KernelRouter : public NetworkFunction, public Changeable, public StandsIn, public NamesPorts {
public:
    KernelRouter(const Config& options, const Environment& environment);
    /// The generation behind `previous`.
    KernelRouter(const KernelRouter& previous, KernelSnapshot snapshot);

    std::shared_ptr<NetworkFunction> next() override;
    void on_change(std::function<void()> told) override {
        if (watch_ != nullptr) watch_->on_change(std::move(told));
    }
    const Image& image() const override { return image_; }
    bool takes_uncut() const override { return true; }
    std::unique_ptr<CpuHalf> make_cpu_half() override;
    std::string explain(const Decision& decision) const override;
    std::vector<Statistic> statistics() const override;
    std::optional<ShownTable> show(std::string_view topic, size_t most) const override {
        return watch_ != nullptr ? watch_->show(topic, most) : std::nullopt;
    }
    std::string summary() const override;
    const std::vector<std::pair<std::string, uint16_t>>& stand_ins() const override { return options_.interfaces; }

private:
    using Clock = std::chrono::steady_clock;
    void make_image();

    KernelOptions options_;
    std::shared_ptr<KernelWatch> watch_;  // null: not live
    KernelSnapshot snapshot_;
    Clock::time_point next_at_{};  // not before
    uint64_t generations_ = 0;
    Image image_;
};

}  // namespace millrace::nf::router
