// A tenant with a device half, on a thread of the test.
#pragma once

#include <mutex>
#include <string>
#include <thread>

#include "millrace/tenancy/member/function_host.hpp"
#include "millrace/tenancy/member/member.hpp"
#include "millrace/tenancy/member/offering.hpp"

namespace millrace::tenancy::test {

/// A tenant that runs as `millrace tenant` does, on a thread of its own.
class Tenant {
public:
    Tenant(const std::string& manager, const std::string& name, const std::string& kind, const std::string& options)
        : host_(*nf::find_type(kind), Config::parse(options), name, testing::TempDir()),
          thread_([this, manager, name](const std::stop_token& end) { serve(end, manager, name); }) {}
    /// Empty: nothing was said yet.
    std::string placement() {
        const std::lock_guard lock(mutex_);
        return placement_;
    }

private:
    void serve(const std::stop_token& end, const std::string& manager, const std::string& name) {
        Member member(manager, name);
        host_.agree(member.terms());
        Offering offering(host_);
        const auto keep = [this](const std::string& text) {
            const std::lock_guard lock(mutex_);
            placement_ = text;
        };
        try {
            offering.begin(member);
        } catch (const std::runtime_error& e) {
            keep(e.what());
        }
        while (!end.stop_requested() && member.attached()) {
            try {
                offering.go_on(member);
            } catch (const std::runtime_error& e) {
                keep(e.what());
            }
            if (const auto batch = member.next(std::chrono::milliseconds(5))) {
                host_.answer(*batch);
                member.answer(*batch);
            }
            if (const auto placed = member.placement())
                keep((placed->kind == Notice::Kind::placed ? "placed: " : "kept: ") + std::string(placed->text));
        }
    }
    std::mutex mutex_;
    std::string placement_;
    FunctionHost host_;
    std::jthread thread_;
};

}  // namespace millrace::tenancy::test
