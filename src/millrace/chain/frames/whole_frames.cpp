#include "millrace/chain/frames/whole_frames.hpp"

#include <memory>

namespace millrace::chain {
namespace {

std::shared_ptr<Program> with_whole_frames(const Program& planned) {
    auto program = std::make_shared<Program>(planned);
    FieldPlan& plan = program->plan;
    const bool changes = !plan.to_host_total().empty();
    if (plan.before.empty()) plan.before.emplace_back();
    plan.before.front().to_device = plan.before.front().to_device | field::everything;
    if (changes) plan.at_end = plan.at_end | field::everything;
    return program;
}

}  // namespace

Configuration with_whole_frames(Configuration configuration) {
    const auto planned = configuration.chains;
    for (auto& chain : configuration.chains) chain = with_whole_frames(*chain);
    if (configuration.classified == nullptr) return configuration;
    const auto classified = with_whole_frames(*configuration.classified);
    for (Part& part : classified->parts)
        for (size_t i = 0; i < planned.size(); ++i)
            if (part.chain == planned[i]) part.chain = configuration.chains[i];
    configuration.classified = classified;
    return configuration;
}

}  // namespace millrace::chain
