// Streams and events in the CUDA driver's interface.
#include <unistd.h>

#include <atomic>
#include <cstdlib>
#include <string_view>

#include "driver.hpp"

using namespace emulator;

namespace {

/// Whether streams write words, which callers look at again and again. Else these ask, and what is asked lets others
/// run: a core that looks is one that compiles and runs no kernel.
bool writes_words() {
    static const char* const named = std::getenv("EMULATED_WORDS");
    return named == nullptr || std::string_view(named) != "0";
}
constexpr unsigned kNapUs = 30;

}  // namespace

extern "C" {

int cuStreamCreate(Stream** stream, unsigned) {
    ANSWER_TROUBLE;
    *stream = new Stream(*current);
    return kSuccess;
}
int cuStreamDestroy_v2(Stream* stream) {
    delete stream;
    return kSuccess;
}
int cuStreamQuery(Stream* stream) {
    ANSWER_TROUBLE;
    return of(stream).idle() ? current->failed.load() : kNotReady;
}
int cuStreamSynchronize(Stream* stream) {
    ANSWER_TROUBLE;
    of(stream).wait();
    return current->failed;
}
int cuStreamWaitEvent(Stream* stream, Event* event, unsigned) {
    ANSWER_TROUBLE;
    put_wait(of(stream), event);
    return kSuccess;
}
int cuStreamWriteValue32_v2(Stream* stream, uint32_t* address, uint32_t value, unsigned) {
    ANSWER_TROUBLE;
    if (!writes_words()) return kNotSupported;
    of(stream).put([=] { std::atomic_ref(*address).store(value, std::memory_order_release); });
    return kSuccess;
}

int cuEventCreate(Event** event, unsigned) {
    ANSWER_TROUBLE;
    *event = new Event;
    return kSuccess;
}
int cuEventDestroy_v2(Event* event) {
    delete event;
    return kSuccess;
}
int cuEventRecord(Event* event, Stream* stream) {
    ANSWER_TROUBLE;
    put_record(of(stream), event);
    return kSuccess;
}
int cuEventQuery(Event* event) {
    ANSWER_TROUBLE;
    if (event->has_come()) return kSuccess;
    if (!writes_words()) usleep(kNapUs);
    return kNotReady;
}
int cuEventElapsedTime(float* milliseconds, Event* from, Event* to) {
    ANSWER_TROUBLE;
    *milliseconds = static_cast<float>(static_cast<double>(to->time_ns() - from->time_ns()) / 1e6);
    return kSuccess;
}

}  // extern "C"
