// Brings tenants' device halves to the GPU, one after the other, on a thread of its own: what they send takes as long
// to assemble as they like, and neither workers nor those who attach wait for it.
#pragma once

#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "millrace/tenancy/manager/attachment.hpp"

namespace millrace::tenancy {

class Placer {
public:
    /// Asked on its thread of a function that was measured, before packets come to it: false where it may not come.
    using Admit = std::function<bool(Attachment& attachment, const ConfinedFunction& function)>;

    /// How what a function takes becomes known: it is measured, but in tests of what comes of that.
    using Measure = std::function<void(const std::string& tenant, ConfinedFunction& function)>;
    static void measure(const std::string&, ConfinedFunction& function) { function.measure(); }

    Placer(std::shared_ptr<device::Device> device, Admit admit, Measure measure = Placer::measure);
    /// Waits for what is being placed, and until nothing of all runs on the device any more.
    ~Placer();
    Placer(const Placer&) = delete;
    Placer& operator=(const Placer&) = delete;

    device::Device& device() const { return *device_; }
    /// Reads, verifies, fences and places what lies in `memory`, and tells the tenant what has become of it.
    void put(std::shared_ptr<Attachment> attachment, std::unique_ptr<Descriptor> memory, const ConfinedTerms& terms);

private:
    struct Order {
        std::shared_ptr<Attachment> attachment;
        std::unique_ptr<Descriptor> memory;
        ConfinedTerms terms;
    };
    void work();
    void place(const Order& order);
    /// Ends those that nobody has any more, once they are idle.
    void sweep();

    const std::shared_ptr<device::Device> device_;
    const Admit admit_;
    const Measure measure_;
    Streams streams_;
    std::optional<TrustedKernels> kernels_;  // from the first tenant on
    std::vector<std::shared_ptr<ConfinedFunction>> functions_;
    std::mutex mutex_;  // of what follows
    std::condition_variable wanted_;
    std::deque<Order> orders_;
    bool stopping_ = false;
    std::thread thread_;
};

/// What a tenant is told whose device half was refused: each line of it, as far as a notice has room.
std::string refusal_text(const std::vector<Diagnostic>& refusals);

}  // namespace millrace::tenancy
