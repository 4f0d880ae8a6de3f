// Reading and writing numbers in network order, with every length checked.
#pragma once

#include <cstring>
#include <span>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/openflow/wire/protocol.hpp"

namespace millrace::openflow {

using Bytes = std::vector<uint8_t>;
using ByteView = std::span<const uint8_t>;

/// Takes bytes from the front. Where there are too few it throws the Error that it was given.
class Reader {
public:
    Reader(ByteView bytes, Error too_short) : bytes_(bytes), too_short_(too_short) {}

    size_t left() const { return bytes_.size(); }
    ByteView take(size_t count) {
        if (count > bytes_.size()) throw too_short_;
        const ByteView taken = bytes_.first(count);
        bytes_ = bytes_.subspan(count);
        return taken;
    }
    ByteView rest() { return take(left()); }
    void skip(size_t count) { take(count); }
    uint8_t u8() { return static_cast<uint8_t>(number(1)); }
    uint16_t u16() { return static_cast<uint16_t>(number(2)); }
    uint32_t u32() { return static_cast<uint32_t>(number(4)); }
    uint64_t u64() { return number(8); }
    /// A big-endian number of at most 8 bytes.
    uint64_t number(size_t count) {
        uint64_t value = 0;
        for (const uint8_t byte : take(count)) value = value << 8 | byte;
        return value;
    }
    /// `count` bytes to be read with errors of their own.
    Reader part(size_t count, Error too_short) { return {take(count), too_short}; }

private:
    ByteView bytes_;
    Error too_short_;
};

/// Appends to bytes.
class Writer {
public:
    explicit Writer(Bytes& bytes) : bytes_(bytes) {}

    size_t size() const { return bytes_.size(); }
    Writer& u8(uint64_t value) { return number(value, 1); }
    Writer& u16(uint64_t value) { return number(value, 2); }
    Writer& u32(uint64_t value) { return number(value, 4); }
    Writer& u64(uint64_t value) { return number(value, 8); }
    Writer& number(uint64_t value, size_t count) {
        for (size_t i = count; i-- > 0;) bytes_.push_back(static_cast<uint8_t>(value >> (8 * i)));
        return *this;
    }
    Writer& zeros(size_t count) {
        bytes_.resize(bytes_.size() + count);
        return *this;
    }
    Writer& bytes(ByteView more) {
        bytes_.insert(bytes_.end(), more.begin(), more.end());
        return *this;
    }
    Writer& bytes(std::string_view more) {
        return bytes(ByteView(reinterpret_cast<const uint8_t*>(more.data()), more.size()));
    }
    /// Cut, or filled with zeros; the last byte is zero.
    Writer& text(std::string_view text, size_t count) {
        text = text.substr(0, count - 1);
        return bytes(text).zeros(count - text.size());
    }
    /// Zeros up to a multiple of 8 from `begin` on.
    Writer& pad_to_8(size_t begin) { return zeros((8 - (size() - begin) % 8) % 8); }
    /// The 16-bit number at `at`, once it is known.
    void set_u16(size_t at, size_t value) {
        bytes_[at] = static_cast<uint8_t>(value >> 8);
        bytes_[at + 1] = static_cast<uint8_t>(value);
    }

private:
    Bytes& bytes_;
};

}  // namespace millrace::openflow
