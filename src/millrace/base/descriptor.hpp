// File descriptors that do not outlive their owners.
#pragma once

#include <unistd.h>

#include <utility>

namespace millrace {

/// A file descriptor that is closed with its owner; negative: none.
class Descriptor {
public:
    explicit Descriptor(int number = -1) : number_(number) {}
    ~Descriptor() {
        if (number_ >= 0) close(number_);
    }
    Descriptor(Descriptor&& other) noexcept : number_(std::exchange(other.number_, -1)) {}
    Descriptor& operator=(Descriptor&& other) noexcept {
        std::swap(number_, other.number_);
        return *this;
    }
    int get() const { return number_; }

private:
    int number_;
};

}  // namespace millrace
