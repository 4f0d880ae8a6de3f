#include "support/captures.hpp"

#include <gtest/gtest.h>

#include <algorithm>
#include <cstdlib>

#include "support/data.hpp"

namespace millrace::test {

namespace fs = std::filesystem;

std::vector<std::string> all_captures(const fs::path& folder) {
    for (const auto& archive : fs::directory_iterator(data_path("pcap/corpus"))) {
        const fs::path into = folder / archive.path().stem().stem();
        fs::create_directories(into);
        EXPECT_EQ(std::system(("tar -C " + into.string() + " -xJf " + archive.path().string()).c_str()), 0);
    }
    std::vector<std::string> files;
    for (const fs::path& below : {fs::path(data_path("pcap/curated")), fs::path(data_path("pcap/mix")), folder}) {
        if (!fs::exists(below)) continue;  // a machine that was given a part of the data
        for (const auto& entry : fs::recursive_directory_iterator(below))
            if (entry.is_regular_file() && entry.path().extension() != ".tsv" && entry.path().extension() != ".json")
                files.push_back(entry.path());
    }
    std::sort(files.begin(), files.end());
    return files;
}

}  // namespace millrace::test
