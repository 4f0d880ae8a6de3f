// Any text as a request of `millrace show`: an answer of one line that is JSON, or a reason why not.
#include <cstdlib>
#include <nlohmann/json.hpp>

#include "fuzz/entry.hpp"
#include "millrace/show/answers.hpp"

namespace show_fuzz {

using namespace millrace;

const exec::Runtime& runtime() {
    static const exec::Runtime made(chain::parse_configuration(
        "version: 1\nports: {in: {ring: w}, out: {ring: w}}\nchains: {c: {input: in, output: out, nfs: [router: "
        "{next-hops: {h: {}}, routes: [{prefix: 192.0.2.0/24, via: h}]}]}}\n",
        "fuzz.yaml"));
    return made;
}

MILLRACE_FUZZER(show)(const uint8_t* data, size_t size) {
    const std::string_view request(reinterpret_cast<const char*>(data), size);
    std::string line;
    try {
        line = show::answer(runtime(), request, 0);
    } catch (const std::runtime_error& e) {
        line = show::refusal(e.what());
    }
    const nlohmann::json answer = nlohmann::json::parse(line, nullptr, false);
    if (!answer.is_object() || answer["version"] != 1 || line.find('\n') != std::string::npos) std::abort();
    return 0;
}

}  // namespace show_fuzz
