// How a fuzzer begins: MILLRACE_FUZZER(name)(const uint8_t* data, size_t size) { … }, in a namespace of its own. With
// MILLRACE_FUZZERS this is the function that libFuzzer calls; else one of many in the program that runs corpora.
#pragma once

#include <cstddef>
#include <cstdint>
#include <map>
#include <string_view>

namespace fuzz {

using Fuzzer = int (*)(const uint8_t* data, size_t size);

/// The fuzzers that are linked, by name.
inline std::map<std::string_view, Fuzzer>& fuzzers() {
    static std::map<std::string_view, Fuzzer> known;
    return known;
}
/// Makes a fuzzer known.
struct Known {
    Known(std::string_view name, Fuzzer fuzzer) { fuzzers().emplace(name, fuzzer); }
};

}  // namespace fuzz

#ifdef MILLRACE_FUZZERS
#define MILLRACE_FUZZER(name) extern "C" int LLVMFuzzerTestOneInput
#else
#define MILLRACE_FUZZER(name)                                   \
    static int fuzz_input(const uint8_t* data, size_t size);    \
    static const ::fuzz::Known known_fuzzer(#name, fuzz_input); \
    static int fuzz_input
#endif
