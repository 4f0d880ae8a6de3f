// Brings tenants' device halves to the GPU, one after the other, on a thread of its own: what they send takes as long
// to assemble as they like, and neither workers nor those who attach wait for it.
#pragma once

#include <atomic>
#include <chrono>
#include <condition_variable>
#include <deque>
#include <functional>
#include <memory>
#include <mutex>
#include <optional>
#include <thread>
#include <vector>

#include "millrace/tenancy/gpu/confined_chain.hpp"
#include "millrace/tenancy/manager/attachment.hpp"

namespace millrace::tenancy {

class Placer {
public:
    using Clock = std::chrono::steady_clock;
    /// The tenants of a chain in one piece, in its order; each is placed, with room for its batches.
    struct Chain {
        std::shared_ptr<const chain::Program> program;
        std::vector<std::shared_ptr<Attachment>> tenants;
    };
    /// What it asks for, and tells, on its thread.
    struct Calls {
        /// Of a function that was measured, before packets come to it: false where it may not come.
        std::function<bool(Attachment& attachment, const ConfinedFunction& function)> admit;
        /// Those whose tenants are all there.
        std::function<std::vector<Chain>()> chains;
        std::function<void(const std::string& message, const std::string& hint)> tell;
    };

    /// How what a function takes becomes known: it is measured, but in tests of what comes of that.
    using Measure = std::function<void(const std::string& tenant, ConfinedFunction& function)>;
    static void measure(const std::string&, ConfinedFunction& function) { function.measure(); }

    Placer(std::shared_ptr<device::Device> device, Calls calls, Measure measure = Placer::measure);
    /// Waits for what is being placed, and until nothing of all runs on the device any more.
    ~Placer();
    Placer(const Placer&) = delete;
    Placer& operator=(const Placer&) = delete;

    device::Device& device() const { return *device_; }
    /// Reads, verifies, fences and places what lies in `memory`, and tells the tenant what has become of it; some 200
    /// ms after `not_before` at most, if nobody else is being placed.
    void put(std::shared_ptr<Attachment> attachment, std::unique_ptr<Descriptor> memory, const ConfinedTerms& terms,
             Clock::time_point not_before = {});

    /// The functions of a chain's tenants, which are being linked.
    class Linked {
    public:
        /// Null: not yet, or they can't be.
        const ConfinedChain* get() const { return done_.load(std::memory_order_acquire) ? chain_.get() : nullptr; }

    private:
        friend class Placer;
        bool is_of(const Chain& chain) const;
        /// Whether nobody can ask for it any more.
        bool is_over() const;
        std::shared_ptr<const chain::Program> program_;
        std::vector<std::weak_ptr<Attachment>> tenants_;
        std::unique_ptr<const ConfinedChain> chain_;
        std::atomic<bool> done_{false};
    };
    /// Links them, for all workers that ask for the same. Does not wait.
    std::shared_ptr<const Linked> link(const Chain& chain);

private:
    struct Order {
        std::shared_ptr<Attachment> attachment;
        std::unique_ptr<Descriptor> memory;
        ConfinedTerms terms;
        Clock::time_point not_before;
        bool is_due() const { return Clock::now() >= not_before; }
    };
    void work();
    void place(const Order& order);
    bool link_next();
    /// Ends those that nobody has any more, once they are idle.
    void sweep();

    const std::shared_ptr<device::Device> device_;
    const Calls calls_;
    const Measure measure_;
    Streams streams_;
    std::optional<TrustedKernels> kernels_;  // from the first tenant on
    std::vector<std::shared_ptr<ConfinedFunction>> functions_;
    std::mutex mutex_;  // of what follows
    std::condition_variable wanted_;
    std::deque<Order> orders_;
    std::vector<std::shared_ptr<Linked>> linked_;
    std::deque<std::shared_ptr<Linked>> to_link_;
    bool stopping_ = false;
    std::thread thread_;
};

/// What a tenant is told whose device half was refused: each line of it, as far as a notice has room.
std::string refusal_text(const std::vector<Diagnostic>& refusals);

}  // namespace millrace::tenancy
