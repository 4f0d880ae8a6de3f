// What a flow's instructions say (OpenFlow 1.3.5, section 5.9), and the one list that device code reads of it.
#pragma once

#include <optional>
#include <utility>
#include <vector>

#include "millrace/nf/switch/actions/action_list.hpp"

namespace millrace::nf::flow_switch {

struct Instructions {
    std::optional<uint32_t> meter;                          ///< its number
    std::vector<Action> applied;                            ///< at once, in order
    bool clears = false;                                    ///< the action set, before it is written to
    std::vector<Action> written;                            ///< into the action set: each alone, in order of writing
    std::optional<std::pair<uint64_t, uint64_t>> metadata;  ///< bits and their mask
    std::optional<uint8_t> next_table;
};

/// The place of an action in the action set: of two with the same place the later counts, and places are done in order
/// (section 5.10). Group and output have the last two.
unsigned place_in_set(const Action& action);

/// One list of all instructions of a flow in `table`. Where nothing can come of an action set but what this flow
/// writes, there is none: what is written stands behind what is applied. Throws ActionMistake.
std::vector<Action> compile(const Instructions& instructions, uint8_t table, const FlowMatch& match, uint16_t ports);

/// The instructions that a list was compiled of, or others that do the same.
Instructions instructions_of(const std::vector<Action>& compiled);

/// What all buckets of a group of type all do, as one list: they must change the same bytes. Throws ActionMistake.
std::vector<Action> merge_buckets(const Group& group, uint16_t ports);

}  // namespace millrace::nf::flow_switch
