// What a thread of a GPU can reach: a domain's window, the variables of its module, a block's memory, its own.
#pragma once

#include <cstdint>
#include <memory>
#include <span>
#include <string>
#include <vector>

namespace millrace::test::ptx_machine {

/// The memory of a GPU, as far as a thread may touch it.
class GlobalMemory {
public:
    virtual ~GlobalMemory() = default;
    /// Where a device's bytes lie here; nullptr when it may not touch all of them.
    virtual uint8_t* reach(uint64_t address, uint64_t bytes) = 0;
};

/// A window of 4 GiB with a guard on both sides, of which only what is touched takes memory.
class Window : public GlobalMemory {
public:
    Window(uint64_t begin, uint32_t guard_bytes);
    ~Window() override;
    Window(const Window&) = delete;
    Window& operator=(const Window&) = delete;

    uint64_t begin() const { return begin_; }
    /// Where a device's bytes lie here; nullptr when not all of them are in the window or its guards.
    uint8_t* find(uint64_t address, uint64_t bytes);
    /// The same of bytes that must be there.
    std::span<uint8_t> at(uint64_t address, uint64_t bytes);
    uint8_t* reach(uint64_t address, uint64_t bytes) override;
    /// Whether threads may touch the guards; they may unless told otherwise.
    void open_guards(bool open) { open_guards_ = open; }
    /// All bytes are 0 again.
    void clear();

private:
    bool open_guards_ = true;
    uint64_t begin_, guard_bytes_, all_bytes_;
    uint8_t* memory_ = nullptr;
};

/// A variable's bytes, and which of them somebody wrote.
struct Region {
    uint64_t begin = 0;
    std::vector<uint8_t> bytes;
    std::vector<bool> written;
    bool constant = false;

    Region(uint64_t at, uint64_t size, bool zeroed) : begin(at), bytes(size), written(size, zeroed) {}
    bool holds(uint64_t address, uint64_t size) const {
        return address >= begin && address - begin <= bytes.size() && size <= bytes.size() - (address - begin);
    }
};

/// What went wrong: the thread would have read, changed or stopped what is not its own.
struct Violation {
    enum class Kind {
        none,
        outside,     ///< an address beyond the window and the variables
        misaligned,  ///< ends the context
        unset,       ///< reads what was left by whoever ran before
        constant,    ///< writes what is constant
        endless,     ///< takes more steps than a thread may
        deep,        ///< calls deeper than a stack goes
    };
    Kind kind = Kind::none;
    std::string what;
};
const char* name_of(Violation::Kind kind);

}  // namespace millrace::test::ptx_machine
