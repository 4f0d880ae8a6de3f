// Lists of actions, groups and buckets as device code reads them.
#pragma once

#include <memory>
#include <unordered_map>
#include <vector>

#include "millrace/nf/image.hpp"
#include "millrace/nf/switch/device.hpp"
#include "millrace/nf/switch/flow.hpp"

namespace millrace::nf::flow_switch {

/// The groups of a switch, each in its slot.
class GroupTables {
public:
    explicit GroupTables(std::vector<Group> groups);

    const std::vector<Group>& groups() const { return groups_; }
    bool has(uint32_t id) const { return slots_.contains(id); }
    /// Appends a list of actions to `actions`, with slots in place of groups' numbers. Returns where it begins. All its
    /// groups must be there.
    uint32_t append(std::vector<Action>& actions, const std::vector<Action>& list) const;

    /// Points the views of groups at what is there, which must live as long, or be attached.
    void view(Switch::Tables& tables) const;
    void attach(Image& image, Switch::Tables& tables) const;

private:
    std::vector<Group> groups_;
    std::unordered_map<uint32_t, uint32_t> slots_;  // by number
    std::shared_ptr<const std::vector<Switch::Group>> by_slot_;
    std::shared_ptr<const std::vector<Switch::Bucket>> buckets_;
    std::shared_ptr<const std::vector<Action>> actions_;
};

}  // namespace millrace::nf::flow_switch
