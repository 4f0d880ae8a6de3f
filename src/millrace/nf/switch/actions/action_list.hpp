// The rules that a list of actions keeps, whoever wrote it: a file, or a controller.
#pragma once

#include <optional>
#include <string>
#include <vector>

#include "millrace/nf/switch/flows/flow.hpp"

namespace millrace::nf::flow_switch {

/// What is wrong with an action, by OpenFlow's numbers (1.3.5, section 7.4.4.3, ofp_bad_action_code).
enum class BadAction : uint16_t {
    bad_type = 0,
    bad_out_port = 4,
    bad_argument = 5,
    too_many = 7,
    bad_out_group = 9,
    match_inconsistent = 10,  ///< the message says of the action what it works on
    unsupported_order = 11,
    bad_set_type = 13,
    bad_set_argument = 15,
};

struct ActionMistake {
    BadAction code;
    std::string message, hint;
};

/// `low` of output_set: the ports that were named one by one, and which sets of ports besides.
struct WrittenOutputs {
    static constexpr uint64_t kFlood = uint64_t{1} << 32, kAll = uint64_t{1} << 33;
};

/// Puts a list of actions together. Every call may throw ActionMistake.
class ActionList {
public:
    /// `match` says which packets come: what asks for IP or TCP must be sure to get it. Without one (in a group, or for
    /// a packet that is there) actions leave other packets as they are. `ports` are numbered from 0 below it.
    ActionList(const FlowMatch* match, uint16_t ports);

    /// Any action that changes bytes, but `push_vlan` with `high`.
    void change(const Action& action);
    /// OpenFlow 1.0 gives an untagged packet a tag when it sets a field of it; later versions ask for one.
    void tag_if_none();

    void output(uint16_t port);
    void flood();
    void all();
    void in_port();
    void controller();
    void group(uint32_t id);
    void drop();
    /// Any of those, as `finish` of another list gave it. What a packet is sent by twice counts once.
    void add(const Action& action);

    /// The changes, then one action for all the outputs, then the controller.
    std::vector<Action> finish();

private:
    bool sends() const { return !outputs_.empty() || flood_ || all_ || in_port_ || controller_; }
    void refuse_if_ended() const;
    void begin_change() const;
    bool has_type(uint16_t type) const;
    bool has_protocol(uint8_t protocol) const;
    void want(bool there, const char* what, const char* hint) const;
    void check(const Action& action) const;
    void check_type(const Action& action) const;
    void follow_type(const Action& action);
    void push(unsigned bytes);

    const FlowMatch* match_;
    uint16_t ports_;
    std::vector<Action> actions_;
    std::vector<uint16_t> outputs_;
    bool tagged_, flood_ = false, all_ = false, in_port_ = false, controller_ = false, ended_ = false;
    bool any_type_ = false;                 // a header went, and nobody knows what was behind it
    std::optional<uint16_t> type_ = {};     // that an action has given the packet
    std::optional<uint8_t> protocol_ = {};  // the same
    unsigned tags_ = 0, pushed_bytes_ = 0;
};

}  // namespace millrace::nf::flow_switch
