// Parts of a GPU's multiprocessors in the CUDA driver's interface: resources, green contexts, their streams.
#include <cstring>
#include <map>
#include <mutex>

#include "driver.hpp"

using namespace emulator;

namespace {

/// CUdevResource, of multiprocessors: neighbours, from `first` on.
struct Resource {
    int kind;
    unsigned char padding[92];
    unsigned sms;
    unsigned first;
    unsigned char reserved[40];
};
static_assert(sizeof(Resource) == 144);
constexpr int kSmResource = 1;
constexpr unsigned kMultiprocessors = 64, kIgnoreClusters = 1, kDefaultStream = 1;

using Sms = std::set<unsigned>;

Resource resource(unsigned first, unsigned sms) {
    Resource made{};
    made.kind = kSmResource;
    made.first = first;
    made.sms = sms;
    return made;
}

struct Launches {
    std::mutex mutex;
    std::map<Sms, unsigned long long> on;
};
Launches& launches() {
    static auto& all = *new Launches;
    return all;
}

}  // namespace

namespace emulator {

void count_launch(const Stream& stream) {
    const std::lock_guard lock(launches().mutex);
    ++launches().on[stream.sms()];
}

}  // namespace emulator

extern "C" {

/// For tests: how many kernels were launched on streams of these neighbours; of 0: on those of all multiprocessors.
unsigned long long emulator_launches_on(unsigned first, unsigned sms) {
    Sms numbers;
    for (unsigned i = 0; i < sms; ++i) numbers.insert(first + i);
    const std::lock_guard lock(launches().mutex);
    return launches().on[numbers];
}

int cuDeviceGetDevResource(int, Resource* all, int kind) {
    ANSWER_TROUBLE;
    if (kind != kSmResource) return kInvalidValue;
    *all = resource(0, kMultiprocessors);
    return kSuccess;
}
int cuDevSmResourceSplitByCount(Resource* groups, unsigned* count, const Resource* all, Resource* rest, unsigned flags,
                                unsigned least_sms) {
    ANSWER_TROUBLE;
    if (flags > kIgnoreClusters || least_sms > 2) return kNotSupported;
    const unsigned group = flags == kIgnoreClusters ? 2 : 8, there = all->sms / group;
    if (groups == nullptr) {
        *count = there;
        return kSuccess;
    }
    if (*count > there) *count = there;
    for (unsigned i = 0; i < *count; ++i) groups[i] = resource(all->first + i * group, group);
    if (rest != nullptr) *rest = resource(all->first + *count * group, all->sms - *count * group);
    return kSuccess;
}
int cuDevResourceGenerateDesc(Sms** description, const Resource* resources, unsigned count) {
    ANSWER_TROUBLE;
    auto sms = std::make_unique<Sms>();
    for (unsigned i = 0; i < count; ++i)
        for (unsigned k = 0; k < resources[i].sms; ++k)
            if (resources[i].kind != kSmResource || !sms->insert(resources[i].first + k).second) return kInvalidValue;
    if (sms->empty()) return kInvalidValue;
    *description = sms.release();
    return kSuccess;
}
int cuGreenCtxCreate(Sms** context, const Sms* description, int, unsigned flags) {
    ANSWER_TROUBLE;
    if (flags != kDefaultStream) return kInvalidValue;
    *context = new Sms(*description);
    return kSuccess;
}
int cuGreenCtxDestroy(Sms* context) {
    delete context;
    return kSuccess;
}
int cuGreenCtxStreamCreate(Stream** stream, const Sms* context, unsigned, int) {
    ANSWER_TROUBLE;
    *stream = new Stream(*current, *context);
    return kSuccess;
}
}
