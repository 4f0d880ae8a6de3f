// Sessions of benchmarks that take little time, for tests.
#pragma once

#include <gtest/gtest.h>

#include <string>

#include "lab/session.hpp"
#include "support/data.hpp"
#include "support/test_folder.hpp"

namespace millrace::lab {

/// Lets a run work until its counts are so; a minute at most.
template <class IsSo>
inline void wait_for(const Run& run, const IsSo& is_so) {
    for (const double end = run.elapsed() + 60; run.elapsed() < end; run.sleep(0.01))
        if (is_so(run.counts())) return;
    ADD_FAILURE() << "it never came to that";
}

class Sessions : public testing::Test {
protected:
    SessionOptions options() const {
        SessionOptions options;
        options.workload.scratch = scratch_;
        options.workload.examples = test::source_path("examples");
        options.workload.flows = 500;
        options.warm_up = 0.02;
        options.seconds = 0.1;
        options.bus_seconds = 0.02;
        options.bus_piece = size_t{1} << 20;
        return options;
    }
    static Point point(const std::string& chain, const std::string& device, const std::string& size = "200") {
        Point point;
        point.chain = chain;
        point.device = device;
        point.traffic.size = size;
        point.run.buffers = 4096;
        point.run.offload.batch_bytes = size_t{1} << 20;
        return point;
    }
    test::TestFolder files_;
    const std::string scratch_ = files_.path();
};

}  // namespace millrace::lab
