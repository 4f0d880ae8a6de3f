#include "support/golden.hpp"

#include <gtest/gtest.h>

#include "millrace/nftest/golden.hpp"
#include "support/data.hpp"
#include "support/device_work.hpp"
#include "support/devices.hpp"
#include "support/nf_runner.hpp"

namespace millrace::test {

void run_golden(const std::string& type, const std::string& folder) {
    run_golden_file(type, source_path("src/millrace/nf/" + (folder.empty() ? type : folder) + "/golden.yaml"));
}

void run_golden_file(const std::string& type_name, const std::string& path) {
    const nf::Type* type = nf::find_type(type_name);
    ASSERT_NE(type, nullptr) << "there is no network function '" << type_name << "'";
    nftest::GoldenOptions options;
    options.halves = halves(*type);
    options.open = [](const std::string& name) {
        claim_device_work();  // of functions with stages on the CPU none is asked for
        return open_device(name);
    };
    options.output_folder = testing::TempDir();
    options.checked = true;
    for (const Diagnostic& failure : nftest::run_golden(*type, path, options).failures)
        ADD_FAILURE() << failure.render();
}

}  // namespace millrace::test
