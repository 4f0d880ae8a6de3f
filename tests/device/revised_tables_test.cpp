// Tables whose memory comes back with other contents: a device takes what has changed.
#include <gtest/gtest.h>

#include <numeric>

#include "millrace/device/sim/sim_device.hpp"

namespace millrace::device {
namespace {

struct Tables {
    View<uint32_t> values;
};

/// Tells what the device has.
struct Read {
    template <class L>
    static void run(const void* tables, const uint32_t*, uint32_t* out, uint32_t, uint32_t item, L) {
        out[item] = static_cast<const Tables*>(tables)->values[item];
    }
};

class RevisedTables : public testing::Test {
protected:
    using Values = std::vector<uint32_t>;
    static constexpr uint32_t kCount = 100'000;
    RevisedTables() : stream_(device_.create_stream(false)) {
        values_->reserve(2 * kCount);
        values_->resize(kCount);
        std::iota(values_->begin(), values_->end(), 0);
        task_.name = "read";
        task_.in_words = task_.out_words = 1;
        task_.run = Task::run_on_host<Read, 1>;
    }
    /// Changes some of the values, as a later generation's, and says so.
    void change(std::initializer_list<uint32_t> which, bool tells = true) {
        auto next = std::make_shared<nf::Revision>();
        next->now = nf::Revision::next_number();
        next->before = revision_ != nullptr && tells ? revision_->now : 0;
        for (const uint32_t i : which) {
            (*values_)[i] += 7;
            next->changed.push_back({i * sizeof(uint32_t), sizeof(uint32_t)});
        }
        revision_ = next;
    }
    std::shared_ptr<LoadedTask> load() {
        nf::Image image;
        image.attach(image.start<Tables>().values, std::shared_ptr<const Values>(values_), revision_);
        return device_.load(task_, image);
    }
    /// Bytes that came to the device for the table as it stands, which is then what the device has.
    uint64_t bytes_for(std::shared_ptr<LoadedTask>& loaded) {
        const uint64_t before = device_.table_bytes();
        loaded = load();
        const auto count = static_cast<uint32_t>(values_->size());
        const Address out = device_.allocate(size_t{count} * 4, "out"), in = device_.allocate(size_t{count} * 4, "in");
        Values has(count);
        EXPECT_EQ(device_.launch(stream_, *loaded,
                                 {reinterpret_cast<const uint32_t*>(in), reinterpret_cast<uint32_t*>(out), count}),
                  Status::ok);
        EventId event = 0;
        device_.copy_to_host(stream_, has.data(), out, size_t{count} * 4);
        device_.record(stream_, event);
        while (device_.query(event) == Status::pending) {
        }
        EXPECT_TRUE(has == *values_);
        device_.free(in);
        device_.free(out);
        return device_.table_bytes() - before;
    }

    sim::SimDevice device_;
    StreamId stream_;
    Task task_;
    std::shared_ptr<Values> values_ = std::make_shared<Values>();
    std::shared_ptr<const nf::Revision> revision_;
};

TEST_F(RevisedTables, CrossWholeOnceAndThenByWhatHasChanged) {
    std::shared_ptr<LoadedTask> loaded;
    change({});
    EXPECT_EQ(bytes_for(loaded), kCount * 4u);
    for (uint32_t i = 0; i < 1000; ++i) {
        loaded.reset();
        change({i, 50'000 + i, kCount - 1});
        ASSERT_EQ(bytes_for(loaded), 12u) << i;
    }
}

TEST_F(RevisedTables, CrossWholeWhereTheDeviceHasMissedSome) {
    std::shared_ptr<LoadedTask> loaded;
    change({});
    bytes_for(loaded);
    loaded.reset();
    change({5});
    change({6});  // without that between them
    EXPECT_EQ(bytes_for(loaded), kCount * 4u);
    loaded.reset();
    change({7}, false);
    EXPECT_EQ(bytes_for(loaded), kCount * 4u) << "nothing is said of what was before";
    loaded.reset();
    change({8});
    EXPECT_EQ(bytes_for(loaded), 4u);
}

TEST_F(RevisedTables, MayGrowWithinTheirMemory) {
    std::shared_ptr<LoadedTask> loaded;
    change({});
    bytes_for(loaded);
    loaded.reset();
    values_->resize(kCount + 100);
    change({kCount, kCount + 50});
    // The others of them are zero on the host, and nothing was said of them.
    auto next = std::make_shared<nf::Revision>(*revision_);
    next->changed = {{kCount * 4, 400}};
    revision_ = next;
    EXPECT_EQ(bytes_for(loaded), 400u);
    loaded.reset();
    values_->resize(2 * kCount);
    change({0});
    next = std::make_shared<nf::Revision>(*revision_);
    next->changed.push_back({(kCount + 100) * 4, (kCount - 100) * 4});
    revision_ = next;
    EXPECT_EQ(bytes_for(loaded), 2 * kCount * 4u) << "the device has no room behind it";
}

TEST_F(RevisedTables, AreSharedWhileAnotherGenerationHasThem) {
    std::shared_ptr<LoadedTask> loaded, another;
    change({});
    bytes_for(loaded);
    EXPECT_EQ(bytes_for(another), 0u);
    loaded.reset();
    EXPECT_EQ(bytes_for(loaded), 0u);
}

TEST_F(RevisedTables, GiveWayWhereMemoryIsShort) {
    sim::SimOptions options;
    options.memory_bytes = 1'000'000;
    sim::SimDevice small(options);
    nf::Image image;
    change({});
    image.attach(image.start<Tables>().values, std::shared_ptr<const Values>(values_), revision_);
    small.load(task_, image).reset();
    EXPECT_NO_THROW(small.free(small.allocate(900'000, "what comes next")));
}

}  // namespace
}  // namespace millrace::device
