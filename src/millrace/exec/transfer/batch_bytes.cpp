#include "millrace/exec/transfer/batch_bytes.hpp"

#include <algorithm>
#include <map>

#include "millrace/device/node_counters.hpp"
#include "millrace/exec/offload/memory/piece_layout.hpp"

namespace millrace::exec {

uint64_t state_bytes(const chain::Program& program) {
    std::map<const void*, uint64_t> changing;  // functions may have an array in common
    for (const chain::Node& node : program.nodes)
        for (const nf::Image::Array& array : node.nf->image().arrays())
            changing[array.data] = std::max(changing[array.data], array.changing_bytes);
    uint64_t bytes = 0;
    for (const auto& [array, its] : changing) bytes += its;
    return bytes;
}

BatchBytes batch_bytes(const chain::Program& program, Prefixes prefixes, uint32_t frame, size_t packets) {
    const uint32_t head = program.head_growth();
    const size_t room = prefixes.in == chain::kWholeFrame ? frame_room(frame, head, program.tail_growth())
                                                          : frame_aligned(prefixes.in);
    PieceNeeds needs{.packets = packets,
                     .frames_bytes = first_frame(head, false) + packets * room,
                     .prefix_back = prefixes.back,
                     .events = program.emits_events(),
                     .chain = {}};
    needs.chain = {.state_bytes = state_bytes(program),
                   .emitters = program.emitters(),
                   .keepers = program.emitters_from(program.first_changed()),
                   .counters = device::counters_of(program)};
    const PieceLayout piece(needs);
    const size_t crosses = prefixes.in == chain::kWholeFrame ? frame : std::min(frame, prefixes.in);
    return {packets * crosses + piece.input_bytes(), piece.back_end(program.emits_events()) - piece.head_at};
}

}  // namespace millrace::exec
