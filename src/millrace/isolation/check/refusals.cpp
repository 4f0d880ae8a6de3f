#include <fmt/format.h>

#include "millrace/isolation/check/checker.hpp"
#include "millrace/isolation/ptx/writer.hpp"

namespace millrace::isolation {

void Refusals::add(ptx::Place place, const std::string& message, const std::string& mend) {
    if (!full()) list_.push_back({{module_.file, place.line, place.column}, message, mend});
}

void Refusals::add(const ptx::Function& function, const ptx::Statement& statement, const std::string& why,
                   const std::string& mend) {
    if (full()) return;
    std::string text = ptx::write(module_, function, statement);
    constexpr size_t kShown = 120;
    if (text.size() > kShown) text = text.substr(0, kShown) + "…";
    std::string message = fmt::format("'{}' is refused: {}", text, why);
    if (const std::string source = module_.source_name(statement.source_file); !source.empty())
        message += fmt::format(" (in {}, from {}:{})", function.name, source, statement.source_line);
    else message += fmt::format(" (in {})", function.name);
    add(statement.place, message, mend);
}

}  // namespace millrace::isolation
