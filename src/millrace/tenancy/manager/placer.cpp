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

Placer::Placer(std::shared_ptr<device::Device> device, Admit admit, Measure measure)
    : device_(std::move(device)), admit_(std::move(admit)), measure_(std::move(measure)), streams_(*device_),
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

void Placer::put(std::shared_ptr<Attachment> attachment, std::unique_ptr<Descriptor> memory,
                 const ConfinedTerms& terms) {
    {
        const std::lock_guard lock(mutex_);
        // Who comes and goes while another one's function takes long leaves no memory and descriptors here.
        std::erase_if(orders_, [](const Order& order) { return !order.attachment->attached(); });
        orders_.push_back({std::move(attachment), std::move(memory), terms});
    }
    wanted_.notify_one();
}

void Placer::work() {
    constexpr std::chrono::milliseconds kLook{200};
    std::unique_lock lock(mutex_);
    while (true) {
        const auto due = [this] { return stopping_ || !orders_.empty(); };
        if (functions_.empty()) wanted_.wait(lock, due);
        else wanted_.wait_for(lock, kLook, due);
        if (stopping_) return;
        std::optional<Order> order;
        if (!orders_.empty()) {
            order = std::move(orders_.front());
            orders_.pop_front();
        }
        lock.unlock();
        sweep();
        if (order && order->attachment->attached()) place(*order);
        order.reset();
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
        if (!admit_(attachment, *function)) return;
        attachment.place(function);
        attachment.tell(Notice::Kind::placed, fmt::format("{}: {} instructions, and {} more for that",
                                                          isolation::name_of(function->isolation()),
                                                          function->instructions(), function->added()));
    } catch (const ConfigError& e) {
        keep(refusal_text(e.diagnostics()));
    } catch (const std::exception& e) {
        keep(e.what());
    }
}

void Placer::sweep() {
    std::erase_if(functions_, [](const auto& one) {
        if (one.use_count() > 1) return false;
        std::atomic_thread_fence(std::memory_order_acquire);  // behind whoever had it last
        return one->idle();
    });
}

}  // namespace millrace::tenancy
