// Runs a fuzzer over the files of its corpus, once each, without a fuzzing engine: usage: fuzz_corpora FOLDER, where
// the folder has the fuzzer's name.
#include <algorithm>
#include <cstdint>
#include <cstdio>
#include <filesystem>
#include <fstream>
#include <iterator>
#include <vector>

#include "fuzz/entry.hpp"

int main(int argc, char** argv) {
    if (argc != 2) {
        std::fprintf(stderr, "usage: %s FOLDER\n", argv[0]);
        return 2;
    }
    const std::string name = std::filesystem::path(argv[1]).filename();
    const auto fuzzer = fuzz::fuzzers().find(name);
    if (fuzzer == fuzz::fuzzers().end()) {
        std::fprintf(stderr, "there is no fuzzer '%s'\n", name.c_str());
        return 2;
    }
    std::vector<std::filesystem::path> files;
    std::error_code error;
    for (const auto& entry : std::filesystem::directory_iterator(argv[1], error))
        if (entry.is_regular_file()) files.push_back(entry.path());
    std::sort(files.begin(), files.end());
    for (const auto& file : files) {
        std::ifstream in(file, std::ios::binary);
        const std::vector<uint8_t> bytes((std::istreambuf_iterator<char>(in)), {});
        // If it dies in here, this is the last line.
        std::printf("%s, %zu bytes\n", file.c_str(), bytes.size());
        std::fflush(stdout);
        fuzzer->second(bytes.data(), bytes.size());
    }
    std::printf("%zu inputs\n", files.size());
    return files.empty() ? 1 : 0;
}
