// Runs one thread of a module's function, instruction by instruction, and tells when it leaves what is its own.
#pragma once

#include <map>
#include <optional>

#include "isolation/interpreter/decoded.hpp"
#include "isolation/interpreter/memory.hpp"

namespace millrace::test::ptx_machine {

// Where generic addresses of a thread's own memory lie; no GPU has them elsewhere at the same time.
inline constexpr uint64_t kGenericShared = uint64_t{0x5000} << 32, kGenericLocal = uint64_t{0x5001} << 32,
                          kGenericConstant = uint64_t{0x5002} << 32;
inline bool in_4_gib(uint64_t address, uint64_t begin) {
    return address >= begin && address - begin < uint64_t{1} << 32;
}

struct MachineOptions {
    uint32_t shared_bytes = 0;
    uint64_t most_steps = 20'000'000;
    uint32_t thread = 0, threads = 256, block = 0, blocks = 1;
    bool checks_unset = true;  ///< reading what nobody wrote is a violation
};

struct Outcome {
    std::vector<uint8_t> result;
    Violation violation;
    uint64_t steps = 0;     ///< instructions
    uint64_t accesses = 0;  ///< to the GPU's memory

    bool harmless() const { return violation.kind == Violation::Kind::none; }
};

class Machine {
public:
    /// `decodings` may be those that others have, too; null: it makes its own.
    Machine(const isolation::ptx::Module& module, GlobalMemory& memory, const MachineOptions& options = {},
            std::shared_ptr<const Decodings> decodings = nullptr);
    /// Parameters of up to 8 bytes each.
    Outcome run(const std::string& function, const std::vector<uint64_t>& arguments);
    /// Becomes another thread, for which variables and the block's memory begin anew.
    void begin_anew(uint32_t thread);
    std::vector<uint8_t>& shared() { return shared_.bytes; }

private:
    using Statement = isolation::ptx::Statement;
    using Operand = isolation::ptx::Operand;
    using Function = isolation::ptx::Function;
    using Variable = isolation::ptx::Variable;
    using Way = isolation::Access::Way;
    struct Stop {
        Violation violation;
    };
    struct Frame {
        const Function& function;
        std::vector<uint64_t> registers;
        std::vector<bool> set;
        std::map<uint32_t, Region> parameters;
        std::map<uint32_t, uint64_t> locals;  ///< address by variable
        const Statement* now = nullptr;
        explicit Frame(const Function& f) : function(f), registers(f.registers.size()), set(f.registers.size()) {}
    };

    void place_variables();
    void call_function(const Function& function, Frame& frame, uint32_t depth);
    void step(Frame& frame, const Statement& statement, const Decoded& decoded);
    void call(Frame& frame, const Statement& statement, uint32_t depth);
    void move(Frame& frame, const Statement& statement, const Decoded& decoded);
    void set_predicates(Frame& frame, const Statement& statement, const Decoded& decoded);
    void convert_address(Frame& frame, const Statement& statement);
    void load(Frame& frame, const Statement& statement, const Decoded& decoded);
    void store(Frame& frame, const Statement& statement, const Decoded& decoded);
    void exchange(Frame& frame, const Statement& statement, const Decoded& decoded);

    uint64_t value(Frame& frame, const Operand& operand);
    uint64_t special(const std::string& name) const;
    uint64_t address_of(Frame& frame, const Operand& operand) const;
    void write(Frame& frame, const Operand& operand, uint64_t value);
    /// The bytes at an address; `written`: theirs, where it is kept.
    uint8_t* reach(Frame& frame, const Statement& statement, const isolation::Access& access, Region*& region);
    uint8_t* reach_space(Way way, uint64_t address, uint32_t bytes, bool writes, Region*& region);
    Region* find_region(std::vector<std::unique_ptr<Region>>& regions, uint64_t address, uint64_t bytes);
    [[noreturn]] void stop(Violation::Kind kind, const std::string& what) const;

    const isolation::ptx::Module& module_;
    GlobalMemory& memory_;
    MachineOptions options_;
    const std::shared_ptr<const Decodings> decodings_;
    std::vector<uint64_t> in_;      ///< the sources of the instruction at work
    std::vector<uint64_t> places_;  ///< by variable of the module
    std::vector<std::unique_ptr<Region>> globals_, constants_, locals_;
    Region shared_;
    Frame* frame_ = nullptr;
    Outcome outcome_;
    uint64_t local_end_ = 0;
};

}  // namespace millrace::test::ptx_machine
