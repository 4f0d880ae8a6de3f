#include "millrace/tenancy/manager/placer.hpp"

#include <fmt/format.h>

#include <algorithm>

#include "millrace/isolation/report.hpp"

namespace millrace::tenancy {

std::string refusal_text(const std::vector<Diagnostic>& refusals) {
    constexpr size_t kRoom = sizeof Notice().text - 64;
    std::string text;
    for (size_t i = 0; i < refusals.size(); ++i) {
        const Diagnostic& one = refusals[i];
        std::string line = one.where.line == 0 ? one.message
                                               : fmt::format("{}:{}:{}: {}", one.where.file, one.where.line,
                                                             one.where.column, one.message);
        if (!one.hint.empty()) line += " (" + one.hint + ")";
        if (text.size() + line.size() + 1 > kRoom)
            return text + (text.empty() ? line.substr(0, kRoom) : fmt::format("\nand {} more", refusals.size() - i));
        text += (text.empty() ? "" : "\n") + line;
    }
    return text;
}

Placer::Placer(std::shared_ptr<device::Device> device, Calls calls, Measure measure)
    : device_(std::move(device)), calls_(std::move(calls)), measure_(std::move(measure)), streams_(*device_),
      thread_([this] { work(); }) {}

Placer::~Placer() {
    {
        const std::lock_guard lock(mutex_);
        stopping_ = true;
    }
    wanted_.notify_one();
    thread_.join();
    // A fenced function ends by its budget.
    while (!std::ranges::all_of(functions_, [](const auto& one) { return one->idle(); }))
        std::this_thread::sleep_for(std::chrono::milliseconds(1));
}

void Placer::put(std::shared_ptr<Attachment> attachment, std::unique_ptr<Descriptor> memory, const ConfinedTerms& terms,
                 Clock::time_point not_before) {
    {
        const std::lock_guard lock(mutex_);
        // Who comes and goes while another one's function takes long leaves no memory and descriptors here.
        std::erase_if(orders_, [](const Order& order) { return !order.attachment->attached(); });
        orders_.push_back({std::move(attachment), std::move(memory), terms, not_before});
    }
    wanted_.notify_one();
}

bool Placer::Linked::is_of(const Chain& chain) const {
    return program_ == chain.program &&
           std::ranges::equal(tenants_, chain.tenants,
                              [](const auto& own, const auto& other) { return own.lock() == other; });
}

bool Placer::Linked::is_over() const {
    return program_.use_count() == 1 || std::ranges::any_of(tenants_, [](const auto& tenant) {
               const auto attachment = tenant.lock();
               return attachment == nullptr || !attachment->attached();
           });
}

std::shared_ptr<const Placer::Linked> Placer::link(const Chain& chain) {
    std::shared_ptr<Linked> linked;
    {
        const std::lock_guard lock(mutex_);
        const auto known = std::ranges::find_if(linked_, [&](const auto& one) { return one->is_of(chain); });
        if (known != linked_.end()) return *known;
        linked = std::make_shared<Linked>();
        linked->program_ = chain.program;
        linked->tenants_.assign(chain.tenants.begin(), chain.tenants.end());
        linked_.push_back(linked);
        to_link_.push_back(linked);
    }
    wanted_.notify_one();
    return linked;
}

void Placer::work() {
    constexpr std::chrono::milliseconds kLook{200};
    std::unique_lock lock(mutex_);
    while (true) {
        const auto due = [this] {
            return stopping_ || std::ranges::any_of(orders_, &Order::is_due) || !to_link_.empty();
        };
        if (functions_.empty() && orders_.empty()) wanted_.wait(lock, due);
        else wanted_.wait_for(lock, kLook, due);
        if (stopping_) return;
        std::optional<Order> order;
        if (const auto next = std::ranges::find_if(orders_, &Order::is_due); next != orders_.end()) {
            order = std::move(*next);
            orders_.erase(next);
        }
        lock.unlock();
        sweep();
        if (order && order->attachment->attached()) place(*order);
        order.reset();
        link_next();
        lock.lock();
    }
}

void Placer::place(const Order& order) {
    Attachment& attachment = *order.attachment;
    const auto keep = [&](const std::string& why) { attachment.tell(Notice::Kind::kept, why); };
    try {
        const DeviceHalf half = read_half(order.memory->get(), order.terms.memory_bytes + kMaxPtxBytes,
                                          order.terms.shape.outcomes);
        if (!kernels_) kernels_.emplace(*device_);
        auto function = std::make_shared<ConfinedFunction>(*device_, streams_, *kernels_, half, order.terms,
                                                           attachment.name());
        measure_(attachment.name(), *function);
        functions_.push_back(function);
        if (!calls_.admit(attachment, *function)) return;
        attachment.place(function);
        // From its first packet on its chain is in one piece.
        for (const Chain& chain : calls_.chains()) link(chain);
        while (link_next()) {
        }
        attachment.open();
        attachment.tell(Notice::Kind::placed, fmt::format("{}: {} instructions, and {} more for that",
                                                          isolation::name_of(function->isolation()),
                                                          function->instructions(), function->added()));
    } catch (const ConfigError& e) {
        keep(refusal_text(e.diagnostics()));
    } catch (const std::exception& e) {
        keep(e.what());
    }
}

/// False: there was none.
bool Placer::link_next() {
    std::shared_ptr<Linked> linked;
    {
        const std::lock_guard lock(mutex_);
        if (to_link_.empty()) return false;
        linked = std::move(to_link_.front());
        to_link_.pop_front();
    }
    ConfinedChain::Functions functions;
    for (const auto& tenant : linked->tenants_)
        if (const auto attachment = tenant.lock()) functions.push_back(attachment->placed());
    if (functions.size() < linked->tenants_.size()) return true;
    try {
        linked->chain_ = std::make_unique<ConfinedChain>(*device_, *linked->program_, std::move(functions));
    } catch (const std::exception& e) {
        calls_.tell(fmt::format("chain '{}' goes through its tenants one by one: {}", linked->program_->name, e.what()),
                    "packets come to the host between two of them, which takes longer");
    }
    linked->done_.store(true, std::memory_order_release);
    return true;
}

void Placer::sweep() {
    std::vector<std::shared_ptr<Linked>> ended;
    {
        const std::lock_guard lock(mutex_);
        const auto [first, last] = std::ranges::partition(
            linked_, [](const auto& one) { return one.use_count() > 1 || !one->is_over(); });
        ended.assign(std::make_move_iterator(first), std::make_move_iterator(last));
        linked_.erase(first, last);
    }
    std::atomic_thread_fence(std::memory_order_acquire);  // behind whoever had them last
    ended.clear();
    std::erase_if(functions_, [](const auto& one) {
        if (one.use_count() > 1) return false;
        std::atomic_thread_fence(std::memory_order_acquire);  // behind whoever had it last
        return one->idle();
    });
}

}  // namespace millrace::tenancy
