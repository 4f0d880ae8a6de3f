// Any bytes as a ClassBench file: rules, or mistakes with their places; and every rule is one that every
// engine finds.
#include <cstdlib>

#include "fuzz/entry.hpp"
#include "millrace/nf/classify/rules/classbench.hpp"
#include "millrace/nf/classify/classifier_builder.hpp"
#include "millrace/packet/lanes.hpp"

namespace classbench_fuzz {

using namespace millrace;
using namespace millrace::nf::classify;

/// The header at the low end of a box.
HeaderKey first_of(const Box& box) {
    HeaderKey key;
    key.ip_version = box.ipv6 ? 6 : 4;
    key.src_high = high_half(box.src);
    key.src_low = low_half(box.src);
    key.dst_high = high_half(box.dst);
    key.dst_low = low_half(box.dst);
    key.src_port = box.src_port.low;
    key.dst_port = box.dst_port.low;
    key.protocol = box.protocol.value;
    key.tcp_flags = box.tcp_flags.value;
    key.has = HeaderKey::kPorts | HeaderKey::kFlags;
    return key;
}

void check(const RuleSet& rules, Engine engine) {
    nf::Image image;
    auto& tables = image.start<Classifier::Tables>();
    try {
        ClassifierBuilder(rules, uint64_t{1} << 26, engine).attach(image, tables);
    } catch (const TablesTooLarge&) {
        return;
    }
    for (const Box& box : rules.boxes) {
        const HeaderKey key = first_of(box);
        const uint32_t found = Classifier::find(tables, key, Lanes<8>{});
        if (found > box.rule || !matches(rules.boxes[found], key)) std::abort();
    }
}

MILLRACE_FUZZER(classbench)(const uint8_t* data, size_t size) {
    if (size == 0) return 0;
    const std::string_view text(reinterpret_cast<const char*>(data) + 1, size - 1);
    RuleSet rules;
    try {
        load_classbench(text, "fuzz", {.match_flags = (data[0] & 1) != 0}, rules);
    } catch (const ConfigError& error) {
        for (const Diagnostic& mistake : error.diagnostics())
            if (mistake.message.empty()) std::abort();
        return 0;
    }
    for (const Engine engine : {Engine::linear, Engine::tuple, Engine::bloom, Engine::bit_vectors, Engine::merged})
        check(rules, engine);
    return 0;
}

}  // namespace classbench_fuzz
