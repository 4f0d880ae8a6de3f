#include "millrace/tenancy/gpu/half.hpp"

#include <fcntl.h>
#include <sys/mman.h>
#include <sys/stat.h>
#include <unistd.h>

#include <cerrno>
#include <cstring>
#include <stdexcept>

#include "millrace/device/cuda/compile/compiler.hpp"

namespace millrace::tenancy {
namespace {

[[noreturn]] void refuse(const std::string& why) { throw std::runtime_error("the device half " + why); }

/// Takes bytes from the front, as long as there are any.
class Reader {
public:
    explicit Reader(std::span<const uint8_t> bytes) : rest_(bytes) {}
    template <class T>
    T one(const char* what) {
        T value;
        std::memcpy(&value, take(sizeof value, what).data(), sizeof value);
        return value;
    }
    std::span<const uint8_t> take(uint64_t bytes, const char* what) {
        if (bytes > rest_.size()) refuse(std::string("ends before its ") + what);
        const auto taken = rest_.first(bytes);
        rest_ = rest_.subspan(bytes);
        return taken;
    }
    size_t left() const { return rest_.size(); }

private:
    std::span<const uint8_t> rest_;
};

uint64_t aligned_piece(uint64_t bytes) {
    return (bytes + DeviceHalf::kPieceAlignment - 1) / DeviceHalf::kPieceAlignment * DeviceHalf::kPieceAlignment;
}

void check_head(const HalfHead& head, uint32_t outcomes) {
    if (head.magic != kHalfMagic) refuse("is none of Millrace");
    if (head.version != kVersion)
        refuse("has version " + std::to_string(head.version) + ", the manager " + std::to_string(kVersion));
    if (head.layout != packet_layout())
        refuse("was compiled for the packets of another version of Millrace than the manager's");
    if (std::memchr(head.function, 0, sizeof head.function) == nullptr) refuse("names a function without an end");
    if (head.ptx_bytes > kMaxPtxBytes) refuse("has more than " + std::to_string(kMaxPtxBytes) + " bytes of PTX");
    if (head.tables_bytes > kMaxTablesBytes)
        refuse("has tables of more than " + std::to_string(kMaxTablesBytes) + " bytes");
    if ((head.stages & ~(kHasBefore | kHasAfter)) != 0 || head.reserved != 0)
        refuse("has stages in its process that there are none of");
    if (head.arrays > kMaxArrays) refuse("has more than " + std::to_string(kMaxArrays) + " arrays");
    if (head.outcomes == 0 || head.outcomes > kMaxOutcomes)
        refuse("has no number of outcomes that could be: " + std::to_string(head.outcomes));
    for (uint32_t i = 0; i < head.outcomes; ++i)
        if (head.to_terms[i] >= outcomes) refuse("has an outcome that was not agreed on");
}

}  // namespace

uint64_t packet_layout() {
    static const uint64_t layout = [] {
        // FNV-1a: who wants to lie about it can do so anyhow, at its own cost.
        uint64_t digest = 0xcbf29ce484222325u;
        const device::cuda::TranslationUnit unit{
            "layout.cu", "#include \"millrace/packet/packet.hpp\"\n#include \"millrace/packet/view.hpp\"\n", nullptr};
        for (const auto& [name, text] : device::cuda::collect_headers(unit))
            for (const std::string* part : {&name, &text})
                for (const char byte : *part) digest = (digest ^ static_cast<uint8_t>(byte)) * 0x100000001b3u;
        return digest;
    }();
    return layout;
}

uint64_t DeviceHalf::image_bytes() const {
    uint64_t all = aligned_piece(tables.size());
    for (const Array& array : arrays) all += aligned_piece(array.bytes.size());
    return all;
}

DeviceHalf read_half(std::span<const uint8_t> bytes, uint32_t outcomes) {
    Reader reader(bytes);
    const auto head = reader.one<HalfHead>("head");
    check_head(head, outcomes);
    DeviceHalf half;
    half.function = head.function;
    half.stages = {(head.stages & kHasBefore) != 0, (head.stages & kHasAfter) != 0};
    half.to_terms.assign(head.to_terms, head.to_terms + head.outcomes);
    std::vector<ArrayHead> arrays(head.arrays);
    for (ArrayHead& array : arrays) {
        array = reader.one<ArrayHead>("arrays");
        if (head.tables_bytes < sizeof(uint64_t) || array.member > head.tables_bytes - sizeof(uint64_t))
            refuse("has an array whose address stands outside of the tables");
    }
    const auto ptx = reader.take(head.ptx_bytes, "PTX");
    half.ptx.assign(ptx.begin(), ptx.end());
    const auto tables = reader.take(head.tables_bytes, "tables");
    half.tables.assign(tables.begin(), tables.end());
    for (const ArrayHead& array : arrays) {
        const auto own = reader.take(array.bytes, "arrays' bytes");
        half.arrays.push_back({array.member, {own.begin(), own.end()}});
    }
    if (reader.left() > 0) refuse("goes on behind its arrays");
    return half;
}

DeviceHalf read_half(int memory, uint64_t most_bytes, uint32_t outcomes) {
    // What its sender could still change or cut short is nothing to read twice, or at all.
    constexpr int kNeeded = F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE;
    const int seals = fcntl(memory, F_GET_SEALS);
    if (seals < 0 || (seals & kNeeded) != kNeeded) refuse("lies in memory that could change");
    struct stat there{};
    if (fstat(memory, &there) != 0) refuse("can't be read");
    const auto size = static_cast<uint64_t>(there.st_size);
    if (size > most_bytes)
        refuse("has " + std::to_string(size) + " bytes, and the manager takes " + std::to_string(most_bytes));
    std::vector<uint8_t> bytes(size);
    for (size_t at = 0; at < bytes.size();) {
        const ssize_t n = pread(memory, bytes.data() + at, bytes.size() - at, static_cast<off_t>(at));
        if (n < 0 && errno == EINTR) continue;
        if (n <= 0) refuse("can't be read");
        at += static_cast<size_t>(n);
    }
    return read_half(bytes, outcomes);
}

std::vector<uint8_t> half_bytes(const DeviceHalf& half) {
    HalfHead head;
    head.layout = packet_layout();
    head.ptx_bytes = half.ptx.size();
    head.tables_bytes = half.tables.size();
    head.arrays = static_cast<uint32_t>(half.arrays.size());
    head.outcomes = static_cast<uint32_t>(half.to_terms.size());
    head.stages = static_cast<uint8_t>((half.stages.before ? kHasBefore : 0) | (half.stages.after ? kHasAfter : 0));
    if (half.function.size() > kMaxFunctionName) refuse("has a function with too long a name");
    if (half.to_terms.size() > kMaxOutcomes) refuse("has too many outcomes");
    std::copy(half.to_terms.begin(), half.to_terms.end(), head.to_terms);
    half.function.copy(head.function, kMaxFunctionName);
    check_head(head, kMaxOutcomes);
    std::vector<uint8_t> bytes;
    const auto add = [&](const void* from, size_t count) {
        const auto* const begin = static_cast<const uint8_t*>(from);
        bytes.insert(bytes.end(), begin, begin + count);
    };
    add(&head, sizeof head);
    for (const DeviceHalf::Array& array : half.arrays) {
        const ArrayHead own{array.bytes.size(), array.member};
        add(&own, sizeof own);
    }
    add(half.ptx.data(), half.ptx.size());
    add(half.tables.data(), half.tables.size());
    for (const DeviceHalf::Array& array : half.arrays) add(array.bytes.data(), array.bytes.size());
    return bytes;
}

std::unique_ptr<Descriptor> sealed_memory(std::span<const uint8_t> bytes) {
    auto made = std::make_unique<Descriptor>(memfd_create("millrace-device-half", MFD_CLOEXEC | MFD_ALLOW_SEALING));
    const int memory = made->get();
    for (size_t at = 0; memory >= 0 && at < bytes.size();) {
        const ssize_t n = write(memory, bytes.data() + at, bytes.size() - at);
        if (n < 0 && errno != EINTR) throw std::runtime_error(std::string("no memory: ") + std::strerror(errno));
        if (n > 0) at += static_cast<size_t>(n);
    }
    if (memory < 0 || fcntl(memory, F_ADD_SEALS, F_SEAL_SHRINK | F_SEAL_GROW | F_SEAL_WRITE | F_SEAL_SEAL) != 0)
        throw std::runtime_error(std::string("no sealed memory: ") + std::strerror(errno));
    return made;
}

std::string why_not_sent(const nf::Type& type, const nf::Image& image, const nf::CpuStages& stages) {
    if (type.ordered() || type.commit != nullptr || type.is_keyed()) return "it keeps state, or cares for the order";
    if (type.emits_events && !stages.after) return "it tells of events";
    if (type.finishes) return "its work is in two parts";
    if (type.block_bytes > 0) return "it wants a block's memory";
    if (type.writes.overlaps(field::length)) return "it changes lengths of packets";
    for (const nf::Image::Array& array : image.arrays())
        if (array.is_state()) return "it keeps state: " + array.state_name;
    return {};
}

}  // namespace millrace::tenancy
