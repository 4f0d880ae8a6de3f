// Every lookup that can be measured compiles for GPUs. No GPU is needed.
#include <gtest/gtest.h>

#include <filesystem>

#include "lab/lookup/lookup_set.hpp"
#include "millrace/device/cuda/compile/compiler.hpp"
#include "millrace/device/cuda/compile/task_source.hpp"
#include "support/data.hpp"

namespace millrace::device::cuda {
namespace {

TEST(CompileTask, EveryLookupForAnArchitecture) {
    std::filesystem::current_path(test::source_path(""));  // wheels are looked for below it
    std::unique_ptr<Compiler> compiler;
    try {
        compiler = std::make_unique<Compiler>();
    } catch (const CompileError& e) {
        GTEST_SKIP() << e.what();
    }
    using nf::classify::Engine;
    for (const unsigned words : {4u, 9u})
        for (const Engine engine : {Engine::linear, Engine::tuple, Engine::bloom, Engine::merged, Engine::bit_vectors})
            for (const unsigned lanes : {1u, 8u}) {
                if (engine == Engine::bit_vectors && words == 9) continue;
                const Task task = lab::lookup_task(words, engine, lanes);
                const TaskSource source = make_task_source(task, 1024);
                const ChainSource alone{.nfs = {}, .chain = source.unit, .cubins = {{}}};
                const std::string cubin = compiler->build({&alone}, "sm_90").front().front();
                ASSERT_TRUE(cubin.starts_with("\177ELF")) << task.name;
                EXPECT_NE(cubin.find(source.kernel), std::string::npos);
            }
}

}  // namespace
}  // namespace millrace::device::cuda
