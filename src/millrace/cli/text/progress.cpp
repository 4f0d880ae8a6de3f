#include "millrace/cli/text/progress.hpp"

#include "millrace/cli/text/table.hpp"

namespace millrace::cli {

void Progress::show(uint64_t packets, uint64_t bytes, double share, double seconds) {
    next_ = seconds + (terminal_ ? kTerminalPause : kPause);
    const double since = seconds - last_seconds_;
    const std::string rate = since > 0 ? bit_rate(static_cast<double>(bytes - last_bytes_) * 8 / since) : "";
    out_ << (terminal_ ? "\r" : "") << (share >= 0 ? progress_bar(share) : "") << grouped(packets) << " packets  "
         << rate << (terminal_ ? "\x1b[K" : "\n") << std::flush;
    last_seconds_ = seconds;
    last_bytes_ = bytes;
    shown_ = true;
}

void Progress::end() {
    if (shown_ && terminal_) out_ << "\n" << std::flush;
    shown_ = false;
}

}  // namespace millrace::cli
