// Lists of actions, groups and buckets as device code reads them.
#pragma once

#include <memory>
#include <unordered_map>
#include <optional>
#include <vector>

#include "millrace/nf/image.hpp"
#include "millrace/nf/switch/device.hpp"
#include "millrace/nf/switch/flows/flow.hpp"
#include "millrace/nf/switch/meters/meter_tables.hpp"

namespace millrace::nf::flow_switch {

/// The groups of a switch, each in its slot.
class GroupTables {
public:
    /// `down` says which ports have no link: fast failover takes the first bucket that is live.
    explicit GroupTables(std::vector<Group> groups, const std::vector<bool>& down = {}, uint16_t ports = 0);

    const std::vector<Group>& groups() const { return groups_; }
    /// Of a group of type fast failover the bucket that packets take now; nothing where none is live.
    std::optional<size_t> live_bucket(const Group& group) const;
    bool has(uint32_t id) const { return slots_.contains(id); }
    /// Appends a list of actions to `actions`, with slots in place of groups' and meters' numbers. Returns where it
    /// begins. All of them must be there.
    uint32_t append(std::vector<Action>& actions, const std::vector<Action>& list,
                    const MeterTables* meters = nullptr) const;

    /// Points the views of groups at what is there, which must live as long, or be attached.
    void view(Switch::Tables& tables) const;
    void attach(Image& image, Switch::Tables& tables) const;

private:
    std::vector<Group::Bucket> buckets_of(const Group& group, uint16_t ports) const;
    bool is_live(const Group::Bucket& bucket, unsigned depth) const;
    bool is_live(const Group& group, unsigned depth) const;

    std::vector<Group> groups_;
    std::vector<bool> down_;
    std::unordered_map<uint32_t, uint32_t> slots_;  // by number
    std::shared_ptr<const std::vector<Switch::Group>> by_slot_;
    std::shared_ptr<const std::vector<Switch::Bucket>> buckets_;
    std::shared_ptr<const std::vector<Action>> actions_;
};

}  // namespace millrace::nf::flow_switch
