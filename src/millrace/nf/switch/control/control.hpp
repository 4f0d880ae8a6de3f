// A switch as those see it who control it while it works: its flows and groups, over all its generations.
#pragma once

#include <atomic>
#include <chrono>
#include <functional>
#include <map>
#include <memory>
#include <mutex>
#include <optional>
#include <unordered_map>
#include <vector>

#include "millrace/base/queue.hpp"
#include "millrace/base/tls.hpp"
#include "millrace/nf/switch/actions/action_tables.hpp"
#include "millrace/nf/switch/flows/change.hpp"
#include "millrace/nf/switch/control/controller_address.hpp"
#include "millrace/nf/switch/flows/counters.hpp"
#include "millrace/nf/switch/flows/flow_table.hpp"

struct rte_mbuf;

namespace millrace::nf::flow_switch {

/// Why a change is refused.
enum class Refusal {
    overlap,
    table_full,
    no_group,
    group_exists,
    no_group_to_modify,
    too_many_groups,
    no_meter,
    meter_exists,
    no_meter_to_modify,
    too_many_meters,
    no_pipeline,  ///< the switch has one table, and what OpenFlow 1.0 has
};

/// Which of several changes is refused, from 0.
struct RefusedChange {
    size_t index;
    Refusal refusal;
};

/// Why a flow went; OpenFlow's numbers (ofp_flow_removed_reason).
enum class Removal : uint8_t { idle_timeout, hard_timeout, asked, group_removed };

/// A flow and what it has counted.
struct FlowEntry {
    Flow flow;
    Counters::Counts counts;
};

struct RemovedFlow {
    Flow flow;
    Removal reason;
    Counters::Counts counts;
    std::chrono::steady_clock::duration age;
};

/// A packet that a flow sends to the controller. Whoever takes it out of the queue frees it.
struct PuntedPacket {
    rte_mbuf* packet = nullptr;
    uint64_t cookie = 0;
    uint32_t outcome = 0;     ///< of the switch
    uint16_t table = 0;       ///< the flow's
    uint16_t table_miss = 0;  ///< 1: of the table-miss flow
};

/// What packets have found in a table.
struct TableCounts {
    size_t flows = 0;
    uint64_t lookups = 0, matched = 0;
};

/// Any thread may call anything. Changes are wanted from when they are made, and at work when Runtime::apply_changes or
/// hurry_changes has brought in a generation with them: `version` numbers them.
class Control {
public:
    using Clock = std::chrono::steady_clock;
    static constexpr size_t kMaxGroups = 1024;

    /// Who shall control the switch, and by which number it is known to them.
    struct Address {
        std::vector<ControllerAddress> controllers;
        uint64_t datapath = 0;
        std::shared_ptr<const TlsContext> tls;  ///< for those by TLS; null: there are none
        friend bool operator==(const Address& a, const Address& b) {
            const auto same = [](const auto& x, const auto& y) {
                return (x == nullptr) == (y == nullptr) && (x == nullptr || x->files() == y->files());
            };
            return a.controllers == b.controllers && a.datapath == b.datapath && same(a.tls, b.tls);
        }
    };

    /// Changes beyond `max_flows` flows are refused; there is room for the counters of `room` of them at the start.
    /// With `pipeline` it has tables beyond the first, and counts what they miss.
    Control(PortNumbers ports, FlowSet set, size_t max_flows = Flow::kMaxFlows, size_t room = 0, bool pipeline = false);

    PortNumbers ports() const;
    Address address() const;
    void set_address(Address address);
    void set_max_flows(size_t most);

    // --- for those who control it ---
    /// All return the version that the change is in. Throws Refusal; then nothing has changed.
    uint64_t change(FlowChange change, bool check_overlap = false, Clock::time_point now = Clock::now());
    uint64_t add_group(Group group);
    uint64_t modify_group(Group group);
    /// Nothing: all. Flows that lead to a group go with it.
    uint64_t remove_group(std::optional<uint32_t> id);

    uint64_t add_meter(Meter meter);
    /// Nothing: all. Flows that are metered by it go with it.
    uint64_t remove_meter(std::optional<uint32_t> id);
    /// Whichever it is of these.
    uint64_t make(Change change);
    /// All of them, in this order, in one version: no packet meets some of them only. Throws RefusedChange; then
    /// nothing has changed.
    uint64_t make_all(std::vector<Change> changes);
    /// Which ports have no link, by index: groups of type fast failover go around them.
    void set_down(std::vector<bool> down);
    /// Whether some group looks at that.
    bool watches_links() const { return watches_links_.load(std::memory_order_relaxed); }

    uint64_t version() const;
    /// That, and the last one in which flows or groups were others.
    std::pair<uint64_t, uint64_t> versions() const;
    enum class Progress { waits, at_work, refused };
    /// Refused are changes whose tables need more memory than `max-table` allows. The flows are then as before.
    Progress progress(uint64_t version) const;

    /// The flows within a match, in order.
    std::vector<FlowEntry> flows(const FlowMatch& match, const FlowFilter& filter) const;
    size_t flow_count() const;
    size_t max_flows() const;
    /// Flows added, changed and removed so far.
    uint64_t changed_flows() const;
    std::vector<Group> groups() const;
    std::vector<Meter> meters() const;
    MeterCounts meter_counts(uint32_t id) const;
    MeterCounts band_counts(uint32_t id, size_t band) const;
    /// How many flows a meter judges.
    size_t flows_of_meter(uint32_t id) const;
    /// The switch has tables beyond the first.
    bool pipeline() const;
    /// By table, of those that flows are in or lead to.
    std::map<uint8_t, TableCounts> table_counts() const;
    /// Flows that have gone with the flag OFPFF_SEND_FLOW_REM, with what they counted at last.
    std::vector<RemovedFlow> take_removed();
    /// Does to a packet what a list of actions says, as a flow's would be done; returns the switch's outcome. Throws
    /// Refusal.
    uint32_t run(Packet& packet, const std::vector<Action>& actions) const;

    /// Calls `f`, from whatever thread, each time that changes have come to work or were refused.
    void on_progress(std::function<void()> f);

    /// While somebody listens, packets for the controller go into the queue.
    BoundedQueue<PuntedPacket>& punts() { return punts_; }
    void listen(bool on) { listening_.fetch_add(on ? 1 : -1); }
    bool listening() const { return listening_.load(std::memory_order_relaxed) > 0; }

    /// Packets to and from controllers.
    struct Traffic {
        std::atomic<uint64_t> packet_ins{0}, lost_packet_ins{0}, packet_outs{0}, lost_packet_outs{0};
    };
    Traffic& traffic() { return traffic_; }

    // --- for the switch itself ---
    using Values = std::shared_ptr<Counters::Values>;
    /// The generation with this version and these counters is the one at work, and nobody will ask for changes before
    /// `position`. Lets flows time out.
    void at_work(uint64_t version, Values counters, Clock::time_point now = Clock::now(), uint64_t position = 0);
    /// What a generation needs besides flows.
    struct Around {
        std::shared_ptr<const GroupTables> groups;
        std::shared_ptr<const MeterTables> meters;            ///< null: none
        std::shared_ptr<const std::vector<uint32_t>> misses;  ///< Switch::Tables::misses; null without a pipeline
        Values counters;
        size_t counters_in_use = 0;  ///< of them, from the start
        uint64_t version = 0;
        uint64_t flow_version = 0;  ///< the last one in which flows or groups were others
        uint64_t position = 0;      ///< FlowTable::position of the flows
    };
    struct Wanted : Around {
        std::vector<NumberedFlow> flows;
    };
    /// All flows, by number; they are numbered anew where many numbers are out of use, or with `renumber`.
    Wanted wanted(bool renumber = true);
    /// What has changed since that was the position, in order; nothing when nobody knows.
    std::optional<Wanted> changed(uint64_t position) const;
    /// Gives up what is not at work yet: the flows are these, and the groups these again. Returns the version that is
    /// at work, and the position. Meters stay as they are.
    std::pair<uint64_t, uint64_t> give_up(const std::vector<NumberedFlow>& flows, std::vector<Group> groups);
    /// Puts the controllers' flows and groups behind those that files say, gives all of them counters and slots, and
    /// returns what is around them.
    Around keep_controlled(FlowSet& set, bool pipeline);
    /// Lets meters have what has come to them; then there is another version, if that is anything.
    void refill_meters(Clock::time_point now = Clock::now());
    /// The configuration was read anew: `set` came from its files, and from `keep_controlled` with `version`. Returns
    /// the position, if the flows are those of the set.
    std::optional<uint64_t> adopt(PortNumbers ports, FlowSet set, uint64_t version);

private:
    struct Going {
        FlowPointer flow;
        Removal reason;
        Values values;
        uint64_t version;
        Clock::time_point end;
    };
    struct Before;
    void take_back(Before before);
    uint64_t change_now(FlowChange change, bool check_overlap, Clock::time_point now);
    uint64_t add_now(Group group);
    uint64_t modify_now(Group group);
    uint64_t remove_group_now(std::optional<uint32_t> id);
    uint64_t add_now(Meter meter);
    uint64_t modify_now(Meter meter);
    uint64_t remove_meter_now(std::optional<uint32_t> id);
    uint64_t make_now(Change change);
    Counters::Counts counted(const Flow& flow) const;
    static Counters::Counts since_reset(const Flow& flow, const Values& values);
    void add_controlled(FlowSet& set);
    void begin_counting(Flow& flow);
    void keep_only_own_counters();
    Around around() const;
    const std::shared_ptr<const GroupTables>& groups_made() const;
    void went(const std::vector<FlowPointer>& flows, Removal reason, Clock::time_point now);
    void expire(Clock::time_point now);
    std::vector<Group>::iterator find_group(uint32_t id);
    void index_groups();
    void count_misses_of(const Flow& flow);
    void groups_changed();
    uint64_t changed_flows_or_groups();

    mutable std::mutex mutex_;
    PortNumbers ports_;
    Address address_;
    size_t max_flows_;
    uint64_t version_ = 0, at_work_ = 0, flow_version_ = 0;
    bool pipeline_ = false;
    std::map<uint8_t, uint32_t> miss_places_;                  // in counters_, by table
    bool strange_counters_ = false;                            // some may belong to flows that are not there
    std::map<uint8_t, uint64_t> first_misses_, gone_matched_;  // by table
    mutable std::shared_ptr<const std::vector<uint32_t>> misses_;
    mutable MeterRates meters_;
    std::vector<bool> down_;
    std::atomic<bool> watches_links_{false};
    Counters counters_;
    Values counters_at_work_;
    FlowTable table_;
    std::vector<Group> groups_;
    std::unordered_map<uint32_t, size_t> group_index_;         // in `groups_`, by number
    mutable std::shared_ptr<const GroupTables> group_tables_;  // of `groups_`, once somebody has asked
    std::function<void()> on_progress_;
    uint64_t changed_flows_ = 0;
    uint64_t refused_after_ = 0, refused_until_ = 0;
    std::vector<Going> going_;
    Clock::time_point expired_{};
    std::atomic<int> listening_{0};
    Traffic traffic_;
    BoundedQueue<PuntedPacket> punts_{1024};
};

/// A NetworkFunction derives from it, too, when a controller can control it.
class Controllable {
public:
    virtual ~Controllable() = default;
    virtual std::shared_ptr<Control> control() const = 0;
    /// As this generation's options say.
    virtual const Control::Address& wanted_address() const = 0;
};

}  // namespace millrace::nf::flow_switch
