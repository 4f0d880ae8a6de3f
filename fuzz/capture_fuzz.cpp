// Any bytes as a capture: the reader ends, stays in its bounds, and its records can become Ethernet frames.
#include <cstdlib>

#include "fuzz/entry.hpp"
#include "millrace/io/capture/capture_reader.hpp"

namespace capture_fuzz {

MILLRACE_FUZZER(capture)(const uint8_t* data, size_t size) {
    using namespace millrace;
    try {
        io::CaptureReader reader({data, size}, "fuzz");
        io::CaptureRecord record;
        uint64_t number = 0;
        volatile uint8_t sum = 0;
        while (reader.next(record)) {
            if (record.number != ++number || record.wire_bytes < record.bytes.size()) abort();
            const bool is_ethernet = reader.to_ethernet(record);
            if (is_ethernet && record.wire_bytes < record.head.size() + record.bytes.size()) abort();
            for (const uint8_t byte : record.bytes) sum = static_cast<uint8_t>(sum + byte);
        }
        const double progress = reader.progress();
        if (!(progress >= 0 && progress <= 1)) abort();
        const bool damaged = !reader.error().empty();
        reader.restart();
        uint64_t again = 0;
        while (reader.next(record)) ++again;
        if (again != number || damaged == reader.error().empty()) abort();
    } catch (const ConfigError&) {
        // It is no capture.
    }
    return 0;
}

}  // namespace capture_fuzz
