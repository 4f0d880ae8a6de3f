// What device code holds instead of a pointer: a run of elements in some device's memory.
#pragma once

#include "millrace/packet/platform.hpp"

namespace millrace {

/// `size()` elements of a table, read only. Owned by the table image that the framework placed in
/// the device's memory; valid for as long as the program generation that it belongs to.
template <class T>
class View {
public:
    using Element = T;
    constexpr View() = default;
    MILLRACE_DEVICE constexpr View(const T* data, uint64_t size) : data_(data), size_(size) {}

    MILLRACE_DEVICE const T& operator[](uint64_t i) const { return data_[i]; }
    MILLRACE_DEVICE uint64_t size() const { return size_; }
    MILLRACE_DEVICE bool empty() const { return size_ == 0; }
    MILLRACE_DEVICE const T* data() const { return data_; }
    MILLRACE_DEVICE const T* begin() const { return data_; }
    MILLRACE_DEVICE const T* end() const { return data_ + size_; }

private:
    const T* data_ = nullptr;
    uint64_t size_ = 0;
};

/// `size()` elements of state that device code may change and that outlives a program generation.
template <class T>
class MutableView {
public:
    using Element = T;
    constexpr MutableView() = default;
    MILLRACE_DEVICE constexpr MutableView(T* data, uint64_t size) : data_(data), size_(size) {}

    MILLRACE_DEVICE T& operator[](uint64_t i) const { return data_[i]; }
    MILLRACE_DEVICE uint64_t size() const { return size_; }
    MILLRACE_DEVICE bool empty() const { return size_ == 0; }
    MILLRACE_DEVICE T* data() const { return data_; }

private:
    T* data_ = nullptr;
    uint64_t size_ = 0;
};

}  // namespace millrace
