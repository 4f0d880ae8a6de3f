// Flows and groups as people write them.
#pragma once

#include <chrono>
#include <map>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include "millrace/nf/classify/wide_fields.hpp"
#include "millrace/nf/switch/actions/action.hpp"

namespace millrace::nf::flow_switch {

/// The packets whose fields are `(fields & mask) == value`. Bits of `value` outside of `mask` are zero.
struct FlowMatch {
    classify::WideFields value, mask;
};

struct Flow {
    /// `file` of flows that no file has.
    static constexpr uint32_t kFromController = 0xffffffffu;
    static constexpr uint32_t kNoCounter = 0xfffffffeu;
    /// That a switch has at most, whatever its configuration allows.
    static constexpr size_t kMaxFlows = size_t{1} << 20;
    static constexpr unsigned kTables = 254;  ///< numbered from 0

    FlowMatch match;
    uint16_t priority = 32768;  ///< the higher is tried first; among equals, the one loaded first
    uint16_t idle_timeout = 0;  ///< s without a packet after which it goes; 0: none
    uint16_t hard_timeout = 0;  ///< s after which it goes; 0: none
    uint16_t flags = 0;         ///< OpenFlow's OFPFF_…
    uint64_t cookie = 0;
    std::vector<Action> actions;  ///< none: the packet is dropped
    std::string text;             ///< as written, without comment and outer blanks
    std::string instructions;     ///< as a controller wrote them, in OpenFlow's bytes; else empty
    uint32_t file = 0;            ///< index in FlowSet::files
    uint32_t line = 0;

    /// What the switch keeps of it.
    struct Life {
        std::chrono::steady_clock::time_point begin, last_used;
        uint32_t counter = kNoCounter;                ///< its place in Counters
        uint64_t packets_seen = 0;                    ///< what stood there when last looked at
        uint64_t first_packets = 0, first_bytes = 0;  ///< what stood there when it began, or was set to 0
    } life;

    /// OpenFlow 1.3.5, section 5.4: what becomes of packets that match no other flow.
    bool is_table_miss() const;
    /// Whether an action of a kind names the group, or the meter, with that number.
    bool names(ActionKind kind, uint32_t id) const {
        for (const Action& action : actions)
            if (action.kind == kind && action.value == id) return true;
        return false;
    }
    uint8_t table() const { return match.value.table; }
    void set_table(uint8_t table) {
        match.value.table = table;
        match.mask.table = 0xff;
    }
};

/// What `meter:N` asks (OpenFlow 1.3.5, section 5.7).
struct Meter {
    struct Band {
        uint32_t rate = 0;       ///< kbit/s, or packets a second; the band is met above it
        uint32_t burst = 0;      ///< kbit, or packets; 0: what a second brings
        uint8_t precedence = 0;  ///< by how much it raises DSCP's drop precedence; 0: it drops
    };
    static constexpr uint32_t kMaxId = 0xffff0000u;  ///< OFPM_MAX
    static constexpr size_t kMaxMeters = 1024, kMaxBands = 16;

    uint32_t id = 0;
    uint16_t flags = 0;  ///< OFPMF_…
    bool by_packets = false;
    std::vector<Band> bands;
    bool from_controller = false;
    std::string wire;  ///< its bands as the controller wrote them
    std::chrono::steady_clock::time_point begin;
};

/// What `group:N` chooses from: of several buckets each gets the share of the flows that its weight says.
struct Group {
    /// Sum of the weights of a group's buckets, each of which takes as many entries.
    static constexpr size_t kMaxWeight = 4096;
    static constexpr uint32_t kMaxId = 0xffffff00u;  ///< OFPG_MAX

    struct Bucket {
        uint16_t weight = 1;
        std::vector<Action> actions;
        std::optional<uint16_t> watch_port = {};  ///< of fast failover: the bucket is live while this port's link is up
        std::optional<uint32_t> watch_group = {};  ///< or while this group has a live bucket
    };
    enum class Type : uint8_t { all, select, indirect, fast_failover };  ///< OpenFlow's numbers (ofp_group_type)

    uint32_t id = 0;
    uint32_t slot = 0;  ///< its place in the tables
    Type type = Type::select;
    bool from_controller = false;
    std::string wire;  ///< its buckets as the controller wrote them, in OpenFlow's bytes
    std::chrono::steady_clock::time_point begin;
    std::vector<Bucket> buckets;
};

struct FlowSet {
    std::vector<Flow> flows;  ///< in order of loading
    std::vector<Group> groups;
    std::vector<Meter> meters;
    std::vector<std::string> files;
};

/// OpenFlow's numbers of the ports of a configuration.
class PortNumbers {
public:
    /// `names` by index; without a number of its own a port has its index plus 1.
    PortNumbers(std::vector<std::string> names, std::map<uint32_t, uint16_t> by_number);
    explicit PortNumbers(std::vector<std::string> names);

    /// The index of a port by its number or its name; nothing when there is none.
    std::optional<uint16_t> find(std::string_view word) const;
    /// `1 (lan), 2 (wan)`, for people.
    std::string text() const;
    /// OpenFlow's number of a port, kNone when it has none.
    uint32_t number(uint16_t index) const;
    static constexpr uint32_t kNone = 0xffffffffu;
    const std::map<uint32_t, uint16_t>& by_number() const { return by_number_; }
    uint16_t count() const { return static_cast<uint16_t>(names_.size()); }

private:
    std::vector<std::string> names_;
    std::map<uint32_t, uint16_t> by_number_;
};

}  // namespace millrace::nf::flow_switch
