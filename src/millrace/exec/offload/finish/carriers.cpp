#include "millrace/exec/offload/finish/carriers.hpp"

#include <algorithm>

namespace millrace::exec {

Carriers::Carriers() : pool_("carriers", {.packets = kMax, .max_frame_bytes = 0, .tailroom_bytes = 0}) {}

Carriers::~Carriers() {
    if (first_ < behind_)
        rte_mempool_put_bulk(pool_.mempool(), reinterpret_cast<void**>(stock_.data() + first_),
                             static_cast<unsigned>(behind_ - first_));
}

std::span<rte_mbuf* const> Carriers::offer(size_t count) {
    if (behind_ - first_ < count) {
        std::copy(stock_.begin() + static_cast<ptrdiff_t>(first_), stock_.begin() + static_cast<ptrdiff_t>(behind_),
                  stock_.begin());
        behind_ -= first_;
        first_ = 0;
        const auto missing = static_cast<uint16_t>(count - behind_);
        if (!pool_.allocate_raw(stock_.data() + behind_, missing)) return {};
        behind_ += missing;
    }
    return {stock_.data() + first_, count};
}

}  // namespace millrace::exec
