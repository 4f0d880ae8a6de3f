// Rules in every form in which they are searched, for tests that compare them.
#pragma once

#include <gtest/gtest.h>

#include <fmt/format.h>
#include <algorithm>
#include <string>
#include <vector>

#include "millrace/base/files/file.hpp"
#include "millrace/nf/classify/acl/acl.hpp"
#include "millrace/nf/classify/rules/classbench.hpp"
#include "millrace/nf/classify/classifier_builder.hpp"
#include "millrace/nf/classify/rules/text_rules.hpp"
#include "lab/classify/trace.hpp"
#include "millrace/packet/lanes.hpp"
#include "support/data.hpp"

namespace millrace::nf::classify::test {

inline RuleSet rules_of(const std::string& text) {
    RuleSet rules;
    load_text_rules(text, "test.rules", rules);
    return rules;
}

inline RuleSet classbench_rules(const std::string& name, bool match_flags = false) {
    const std::string path = millrace::test::data_path("classbench/" + name);
    RuleSet rules;
    load_classbench(read_file(path), path, {.match_flags = match_flags}, rules);
    return rules;
}

/// The first rule that matches by going through all of them: the definition.
class Linear {
public:
    explicit Linear(const RuleSet& rules) : rules_(rules), order_(rules.in_order()) {}
    uint32_t find(const HeaderKey& key) const {
        for (const uint32_t index : order_)
            if (matches(rules_.boxes[index], key)) return rules_.boxes[index].rule;
        return kNoRule;
    }

private:
    const RuleSet& rules_;
    std::vector<uint32_t> order_;
};

/// One engine of the device halves, with any number of lanes.
class Searched {
public:
    explicit Searched(const RuleSet& rules, Engine engine = Engine::bit_vectors) : engine_(engine) {
        ClassifierBuilder builder(rules, uint64_t{1} << 30, engine);
        bytes_ = builder.bytes();
        builder.attach(image_, image_.start<Classifier::Tables>());
    }
    template <unsigned Count>
    uint32_t find(const HeaderKey& key) const {
        return Classifier::find(*static_cast<const Classifier::Tables*>(image_.tables()), key, Lanes<Count>{});
    }
    uint64_t bytes() const { return bytes_; }
    const char* name() const { return kEngineNames[static_cast<size_t>(engine_)]; }

private:
    Engine engine_;
    Image image_;
    uint64_t bytes_ = 0;
};

/// The rules by every engine of the device halves.
inline std::vector<Searched> every_engine(const RuleSet& rules) {
    std::vector<Searched> engines;
    for (const Engine& engine : {Engine::linear, Engine::tuple, Engine::bloom, Engine::bit_vectors, Engine::merged})
        engines.emplace_back(rules, engine);
    return engines;
}

inline std::vector<TraceHeader> classbench_trace(const std::string& name) {
    const std::string path = millrace::test::data_path("classbench/" + name);
    return load_trace(read_file(path), path);
}

inline std::string text_of(const HeaderKey& key) {
    return fmt::format("v{} {:016x}{:016x} {} -> {:016x}{:016x} {} protocol {} flags {:x} has {}", key.ip_version,
                       key.src_high, key.src_low, key.src_port, key.dst_high, key.dst_low, key.dst_port, key.protocol,
                       key.tcp_flags, key.has);
}

/// Expects each engine with 1, 8 and 32 lanes to find `wanted`.
inline void expect_found(const std::vector<Searched>& engines, const HeaderKey& key, uint32_t wanted) {
    for (const Searched& engine : engines) {
        ASSERT_EQ(engine.find<1>(key), wanted) << engine.name() << ", " << text_of(key);
        ASSERT_EQ(engine.find<8>(key), wanted) << engine.name() << ", " << text_of(key);
        ASSERT_EQ(engine.find<32>(key), wanted) << engine.name() << ", " << text_of(key);
    }
}

/// What rte_acl finds for each of the keys, in vectors of 256.
inline std::vector<uint32_t> acl_find(const Acl& acl, const std::vector<HeaderKey>& keys) {
    std::vector<uint32_t> found(keys.size());
    for (size_t i = 0; i < keys.size(); i += Acl::kMaxKeys)
        acl.find({keys.data() + i, std::min(Acl::kMaxKeys, keys.size() - i)}, found.data() + i);
    return found;
}

}  // namespace millrace::nf::classify::test
