// Any text as PTX of a domain. What is read is written and read again as the same; what is sound is rewritten in every
// way, and what was written is PTX.
#include <cstdlib>
#include <iostream>

#include "fuzz/entry.hpp"
#include "millrace/base/text/diagnostic.hpp"
#include "millrace/isolation/ptx/reader.hpp"
#include "millrace/isolation/ptx/writer.hpp"
#include "millrace/isolation/rewrite.hpp"

namespace ptx_fuzz {

using namespace millrace::isolation;

/// Reads what was written here: it must be understood.
ptx::Module read_again(const std::string& text) {
    ptx::Limits limits;
    limits.reserved_names = true;
    try {
        return ptx::read(text, "written", limits);
    } catch (const millrace::ConfigError& e) {
        std::cerr << e.what() << "\n" << text << "\n";
        std::abort();
    }
}

void expect_same(const std::string& a, const std::string& b) {
    if (a == b) return;
    std::cerr << "written:\n" << a << "\nwritten again:\n" << b << "\n";
    std::abort();
}

MILLRACE_FUZZER(ptx)(const uint8_t* data, size_t size) {
    ptx::Limits limits;
    limits.statements = 5000;
    limits.registers = 5000;
    limits.initials = 5000;
    ptx::Module module;
    try {
        module = ptx::read({reinterpret_cast<const char*>(data), size}, "fuzzed", limits);
    } catch (const millrace::ConfigError&) {
        return 0;
    }
    Bounds bounds;
    bounds.shared_bytes = 1024;
    const Verdict verdict = verify(module, bounds);
    if (!verdict.sound()) return 0;
    for (const Isolation isolation : {Isolation::none, Isolation::checked, Isolation::fenced})
        for (const uint32_t guard : {0u, 65536u}) {
            RewriteOptions options;
            options.isolation = isolation;
            options.guard_bytes = guard;
            options.shared_bytes = bounds.shared_bytes;
            const std::string once = ptx::write(read_again(ptx::write(rewrite(module, verdict, options).module)));
            expect_same(once, ptx::write(read_again(once)));
        }
    return 0;
}

}  // namespace ptx_fuzz
