// A function with CPU stages around its device half, and questions to it, for tests.
#pragma once

#include <atomic>
#include <cstring>
#include <memory>
#include <vector>

#include "millrace/nf/cpu_stages.hpp"
#include "millrace/nf/plugin.hpp"
#include "millrace/tenancy/member/function_host.hpp"
#include "support/data.hpp"
#include "tenancy/on_the_gpu.hpp"

namespace millrace::tenancy::test {

/// The function of docs/tenants.md: two customers, and two guests.
inline constexpr const char* kMarks = "{customers: {10.0.0.0/24: 46, 10.0.1.0/24: 8}, guests: 2}";
inline const nf::Type& marks() {
    if (nf::find_type("customer-marks") == nullptr) nf::load_plugin(millrace::test::plugin_path("customer-marks.so"));
    return *nf::find_type("customer-marks");
}

/// Packets of customers, of many others, and some that are not IPv4.
inline std::vector<Asked> packets_of_customers(size_t count, uint64_t seed) {
    std::vector<Asked> packets = some_packets(count, seed);
    for (size_t i = 0; i < count; ++i) {
        Asked& packet = packets[i];
        if (!packet.layers.is_ipv4() || i % 4 == 3) continue;
        uint8_t* const ip = packet.frame.data() + packet.layers.l3_offset;
        const uint16_t from[] = {0x0a00, static_cast<uint16_t>((i % 4) << 8 | (seed & 0xff))};
        for (size_t word = 0; word < 2; ++word) {
            uint8_t* const at = ip + 12 + 2 * word;
            store_be16(ip + 10, checksum_update(load_be16(ip + 10), load_be16(at), from[word]));
            store_be16(at, from[word]);
        }
    }
    return packets;
}

/// What is shown of them, and its bytes.
class ShownPackets {
public:
    ShownPackets(const std::vector<Asked>& packets, const Terms& terms) {
        const Fields sees{terms.sees}, changes{terms.changes};
        for (const Asked& packet : packets) {
            const auto length = static_cast<uint32_t>(packet.frame.size());
            bytes_.emplace_back(packed_bytes(length, packet.layers, sees));
            pack(packet.frame.data(), length, packet.layers, sees, bytes_.back().data());
            all_.push_back(
                {{7, length, packet.layers}, {}, static_cast<uint16_t>(packed_bytes(length, packet.layers, changes))});
        }
        for (size_t i = 0; i < all_.size(); ++i) all_[i].bytes = bytes_[i];
    }
    std::vector<Shown>& all() { return all_; }

private:
    std::vector<std::vector<uint8_t>> bytes_;
    std::vector<Shown> all_;
};

/// A manager's memory, without a socket: the next question of lane 0 as the tenant has it.
class AtFirstHand {
public:
    explicit AtFirstHand(const Shape& shape) : memory(std::make_shared<const SharedMemory>(shape)), exchange(memory) {}
    /// Nothing: none is there.
    std::optional<Member::Batch> next() {
        const Question& there = memory->question(0, number_);
        if (there.number.load(std::memory_order_acquire) != number_) return std::nullopt;
        return Member::Batch{number_,        0, there.count, there.stage, &there, &memory->answer(0, number_++),
                             memory->shape()};
    }
    static void answer(const Member::Batch& batch) {
        batch.answer->number.store(batch.number, std::memory_order_release);
    }

    const std::shared_ptr<const SharedMemory> memory;
    Exchange exchange;

private:
    uint64_t number_ = 1;
};

}  // namespace millrace::tenancy::test
