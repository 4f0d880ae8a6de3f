#include "millrace/schedule/model.hpp"

#include <algorithm>

namespace millrace::schedule {

Model fit(std::span<const ProfilePoint> points) {
    Points kernels, transfers;
    Model model;
    for (const ProfilePoint& point : points) {
        if (point.packets == 0 || point.sms == 0) continue;
        const uint32_t of_sm = (point.packets - 1) / point.sms + 1;
        if (point.kernel_ns > 0) {
            kernels.emplace_back(of_sm, point.kernel_ns);
            model.most_of_sm = std::max(model.most_of_sm, of_sm);
        }
        if (point.transfer_ns > 0) transfers.emplace_back(point.packets, point.transfer_ns);
    }
    model.kernel = fit_line(kernels);
    model.transfer = fit_line(transfers);
    model.kernel_r2 = r_squared(kernels, model.kernel);
    model.transfer_r2 = r_squared(transfers, model.transfer);
    return model;
}

}  // namespace millrace::schedule
