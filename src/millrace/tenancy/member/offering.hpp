// A tenant's way to the GPU: compiles its device half beside its answers, and sends it.
#pragma once

#include <future>
#include <string>

#include "millrace/tenancy/member/function_host.hpp"

namespace millrace::tenancy {

/// For one process and its function, which may attach again and again. One thread.
class Offering {
public:
    explicit Offering(const FunctionHost& host) : host_(host) {}

    /// Behind FunctionHost::agree. Throws std::runtime_error with why nothing will be sent.
    void begin(const Member& member);
    /// Now and then: sends it, once it is there. Throws std::runtime_error with why it can't be sent, once.
    void go_on(Member& member);

private:
    const FunctionHost& host_;
    std::string architecture_;
    std::shared_future<std::string> ptx_;  // for that; of another thread until it is there
    bool due_ = false;
};

}  // namespace millrace::tenancy
