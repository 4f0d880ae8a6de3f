// A set of numbers as sorted, disjoint, closed ranges that do not touch.
#pragma once

#include <algorithm>
#include <compare>
#include <vector>

namespace millrace::nf::nids {

template <class T>
class RangeList {
public:
    struct Range {
        T low, high;
        friend bool operator==(const Range&, const Range&) = default;
        friend bool operator<(const Range& a, const Range& b) {
            return a.low != b.low ? a.low < b.low : a.high < b.high;
        }
    };
    static constexpr T kLast = static_cast<T>(~T{0});

    RangeList() = default;
    explicit RangeList(std::vector<Range> ranges) : ranges_(std::move(ranges)) { merge(); }
    static RangeList all() { return RangeList({{0, kLast}}); }

    const std::vector<Range>& ranges() const { return ranges_; }
    bool empty() const { return ranges_.empty(); }
    bool contains(T value) const {
        const auto at = std::lower_bound(ranges_.begin(), ranges_.end(), value,
                                         [](const Range& range, T v) { return range.high < v; });
        return at != ranges_.end() && at->low <= value;
    }
    bool is_all() const { return ranges_.size() == 1 && ranges_[0].low == 0 && ranges_[0].high == kLast; }

    RangeList operator|(const RangeList& other) const {
        std::vector<Range> both = ranges_;
        both.insert(both.end(), other.ranges_.begin(), other.ranges_.end());
        return RangeList(std::move(both));
    }
    RangeList operator~() const {
        std::vector<Range> gaps;
        T next = 0;
        for (const Range& range : ranges_) {
            if (range.low > next) gaps.push_back({next, static_cast<T>(range.low - 1)});
            if (range.high == kLast) return RangeList(std::move(gaps));
            next = static_cast<T>(range.high + 1);
        }
        gaps.push_back({next, kLast});
        return RangeList(std::move(gaps));
    }
    RangeList operator-(const RangeList& other) const { return ~(~*this | other); }

    friend bool operator==(const RangeList& a, const RangeList& b) { return a.ranges_ == b.ranges_; }
    friend bool operator<(const RangeList& a, const RangeList& b) { return a.ranges_ < b.ranges_; }
    friend std::strong_ordering operator<=>(const RangeList& a, const RangeList& b) {
        return a < b ? std::strong_ordering::less : b < a ? std::strong_ordering::greater : std::strong_ordering::equal;
    }

private:
    void merge() {
        std::sort(ranges_.begin(), ranges_.end());
        std::vector<Range> merged;
        for (const Range& range : ranges_) {
            const bool joins = !merged.empty() &&
                               (merged.back().high == kLast || range.low <= static_cast<T>(merged.back().high + 1));
            if (joins) {
                merged.back().high = std::max(merged.back().high, range.high);
            } else {
                merged.push_back(range);
            }
        }
        ranges_ = std::move(merged);
    }
    std::vector<Range> ranges_;
};

}  // namespace millrace::nf::nids
