#include "millrace/nf/switch/text/change_file.hpp"

#include <spdlog/spdlog.h>

#include <filesystem>
#include <fstream>

#include "millrace/nf/classify/rules/words.hpp"

namespace millrace::nf::flow_switch {

void ChangeFile::read_on(const std::function<void(std::string_view)>& f) {
    std::error_code error;
    // A pipe that nobody writes would keep the program waiting.
    if (path.empty() || !std::filesystem::is_regular_file(path, error)) return;
    std::ifstream in(path, std::ios::binary);
    in.seekg(read);
    for (std::string line; std::getline(in, line) && !in.eof();) {  // the last line may not be whole yet
        read += static_cast<std::streamoff>(line.size()) + 1;
        ++lines;
        line.resize(std::min(line.find('#'), line.size()));
        const size_t begin = line.find_first_not_of(" \t\r");
        if (begin == std::string::npos) continue;
        try {
            f(std::string_view(line).substr(begin));
        } catch (const classify::WordMistake& mistake) {
            ++refused;
            spdlog::warn("{}:{}:{}: {}", path, lines, begin + mistake.offset + 1, mistake.message);
        }
    }
}

}  // namespace millrace::nf::flow_switch
