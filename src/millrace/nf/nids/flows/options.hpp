// How flows are followed, as the configuration says it.
#pragma once

#include <optional>

#include "millrace/nf/nids/flows/flow.hpp"
#include "millrace/nf/state/keyed_table.hpp"

namespace millrace::nf::nids {

struct FlowOptions {
    bool followed = true;           ///< where rules ask for flows; else one packet tells
    bool streams = true;            ///< of flows that are followed: rules may be met across segments
    bool streams_asked = false;     ///< flows are followed for the sake of streams alone, too
    uint32_t tail = 256;            ///< flows::StreamMemory::tail
    uint32_t early = 4;             ///< flows::StreamMemory::early
    bool messages = false;          ///< HTTP messages of streams are followed
    uint32_t rooms = 8;             ///< http::MessageMemory::rooms
    uint32_t head = 1024;           ///< http::MessageMemory::head
    uint32_t body = 512;            ///< http::MessageMemory::tail
    uint32_t decoders = 256;        ///< for all flows
    uint32_t inflate = 128 * 1024;  ///< http::MessageMemory::inflate
    KeyedOptions table;
    FlowRules rules;
};

/// Reads the option `flows`, if it is there. Throws ConfigError.
FlowOptions read_flow_options(const std::optional<Config>& given);

}  // namespace millrace::nf::nids
