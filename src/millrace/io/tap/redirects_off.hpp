// Linux' setting for all interfaces that lets it send ICMP redirects: off while taps of this process are there.
#pragma once

#include <functional>
#include <memory>
#include <set>
#include <string>

#include "millrace/io/kernel/interface.hpp"

namespace millrace::io {

/// One for all taps in a network namespace. With the last of them the setting goes back to what it was, unless somebody
/// has changed it meanwhile, or another program has taps without redirects there.
class RedirectsOff {
public:
    using Warn = std::function<void(const std::string& message, const std::string& hint)>;
    /// That of the calling thread's network namespace; `tap` is among its taps from here on. Any thread.
    static std::shared_ptr<RedirectsOff> hold(const std::string& tap, const Warn& warn);

    explicit RedirectsOff(const Warn& warn);
    ~RedirectsOff();
    RedirectsOff(const RedirectsOff&) = delete;
    RedirectsOff& operator=(const RedirectsOff&) = delete;

private:
    bool others_have_taps() const;

    Descriptor file_;  // of that namespace, whichever thread uses it
    bool changed_ = false;
    std::set<std::string> taps_;
};

}  // namespace millrace::io
