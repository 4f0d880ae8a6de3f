#include "millrace/base/files/kept_file.hpp"

#include <cctype>
#include <cmath>

#include "millrace/base/files/file.hpp"
#include "millrace/base/text/shown_line.hpp"

namespace millrace {
namespace {

Config load(const KeptKind& kind, const std::string& path, const std::string& model) {
    show_lines_of(path);  // the program has written it
    const Config file = Config::load(path);
    if (!file.is_map()) file.fail(std::string("this is no ") + kind.what);
    if (const int64_t version = file.at("version").integer(); version != kind.version)
        file.at("version").fail("version " + std::to_string(version) + " of a " + kind.what +
                                " is not known here; this is " + std::to_string(kind.version));
    if (const std::string device = file.at("device").text(); device != model)
        file.at("device").fail(std::string("this is a ") + kind.what + " of '" + device + "', and the device is '" +
                               model + "'");
    return file;
}

}  // namespace

std::string kept_file(const KeptKind& kind, const std::string& model) {
    std::string name = std::string(kind.name) + "-";
    for (const char c : model)
        name += std::isalnum(static_cast<unsigned char>(c)) != 0
                    ? static_cast<char>(std::tolower(static_cast<unsigned char>(c)))
                    : '-';
    const std::string folder = cache_folder();
    return folder.empty() ? "" : folder + "/" + name + ".json";
}

void read_kept_file(const KeptKind& kind, const std::string& path, const std::string& model,
                    const std::function<void(const Config& file)>& read) {
    try {
        read(load(kind, path, model));
    } catch (const ConfigError& e) {
        std::vector<Diagnostic> diagnostics = e.diagnostics();
        for (Diagnostic& one : diagnostics) one.hint = kind.again;
        throw ConfigError(diagnostics);
    }
}

double kept_figure(const Config& value) {
    constexpr double kMax = 1e9;
    const double number = value.number();
    if (!std::isfinite(number) || number < 0 || number > kMax)
        value.fail("'" + value.text() + "' is no time in ns or ratio between 0 and 10^9");
    return number;
}

}  // namespace millrace
