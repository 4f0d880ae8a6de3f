// The mappings that the host has of a NAT, wherever its packets are decided on.
#pragma once

#include <cstring>
#include <map>
#include <tuple>
#include <vector>

#include "millrace/nf/mappings/tables.hpp"
#include "millrace/nf/nf.hpp"

namespace millrace::test {

/// By external address, group and slot: the inside endpoint, and the bits.
template <class Device>
auto kept_mappings(const nf::NetworkFunction& function) {
    using State = decltype(Device::Tables::state);
    const State& state = static_cast<const typename Device::Tables*>(function.image().tables())->state;
    std::map<std::tuple<uint32_t, uint32_t, uint32_t>, std::tuple<std::vector<uint8_t>, uint16_t, uint16_t>> kept;
    for (uint64_t i = 0; i < state.tags.size(); ++i) {
        if (state.tags[i] == 0) continue;
        const auto& [key, changed, group] = state.entries[i];
        for (uint32_t slot = 0; slot < nf::mappings::kGroupPorts; ++slot) {
            if ((group.used >> slot & 1) == 0) continue;
            const auto& mapping = group.mappings[slot];
            std::vector<uint8_t> address(sizeof mapping.address);
            std::memcpy(address.data(), &mapping.address, address.size());
            kept[{key.address, key.group, slot}] = {address, mapping.port, mapping.bits};
        }
    }
    return kept;
}

}  // namespace millrace::test
