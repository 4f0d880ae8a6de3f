// The first of many rows, in memory for as many and no more.
#pragma once

#include <algorithm>
#include <cstddef>
#include <vector>

namespace millrace::nf {

/// `Row::goes_before(const Row&)` says their order.
template <class Row>
class TopRows {
public:
    explicit TopRows(size_t most) : most_(most) {}

    void add(const Row& row) {
        if (rows_.size() == most_) {
            if (most_ == 0 || !before(row, rows_.front())) return;
            std::pop_heap(rows_.begin(), rows_.end(), before);
            rows_.pop_back();
        }
        rows_.push_back(row);
        std::push_heap(rows_.begin(), rows_.end(), before);
    }
    /// All of them in order, once.
    std::vector<Row> take() {
        std::sort_heap(rows_.begin(), rows_.end(), before);
        return std::move(rows_);
    }

private:
    static bool before(const Row& a, const Row& b) { return a.goes_before(b); }

    const size_t most_;
    std::vector<Row> rows_;  // a heap, its front the last in order
};

}  // namespace millrace::nf
