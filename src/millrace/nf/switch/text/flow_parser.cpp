#include "millrace/nf/switch/text/flow_parser.hpp"

#include <algorithm>

#include "millrace/nf/switch/actions/instructions.hpp"
#include "millrace/nf/switch/text/statements.hpp"
#include "millrace/nf/switch/text/match_parser.hpp"

namespace millrace::nf::flow_switch {
namespace {

/// Words besides the match; false when `name` is none of them.
bool read_setting(Word name, Word value, Flow& flow) {
    if (name.text == "priority") {
        flow.priority = static_cast<uint16_t>(parse_number(value, 0xffff));
    } else if (name.text == "cookie") {
        flow.cookie = parse_number(value, ~uint64_t{0});
    } else if (name.text == "table") {
        flow.set_table(static_cast<uint8_t>(parse_number(value, Flow::kTables - 1)));
    } else if (name.text == "idle_timeout") {
        flow.idle_timeout = static_cast<uint16_t>(parse_number(value, 0xffff));
    } else if (name.text == "hard_timeout") {
        flow.hard_timeout = static_cast<uint16_t>(parse_number(value, 0xffff));
    } else {
        return false;
    }
    return true;
}

std::vector<std::string> known_words() {
    return {"actions",     "priority", "cookie",   "in_port",    "dl_src",      "dl_dst",   "dl_type",  "dl_vlan",
            "dl_vlan_pcp", "vlan_vid", "nw_src",   "nw_dst",     "nw_proto",    "nw_tos",   "tp_src",   "tp_dst",
            "tcp_src",     "tcp_dst",  "udp_src",  "udp_dst",    "ip",          "ipv6",     "tcp",      "udp",
            "icmp",        "arp",      "ipv6_src", "ipv6_dst",   "table",       "metadata", "tun_id",   "sctp",
            "mpls",        "arp_sha",  "arp_tha",  "mpls_label", "mpls_tc",     "mpls_bos", "sctp_src", "sctp_dst",
            "nd_target",   "nd_sll",   "nd_tll",   "ipv6_label", "ipv6_exthdr", "pbb_isid"};
}

/// What says the type of a packet first, then its protocol, then the type of ICMP, then all else.
int rank_of(Word word) {
    const std::string_view name = word.split('=').first.text;
    if (name.size() == word.text.size() || name == "dl_type" || name == "eth_type") return 0;
    if (name == "nw_proto" || name == "ip_proto" || name == "arp_op") return 1;
    return name == "icmp_type" || name == "icmpv6_type" ? 2 : 3;
}

/// Reads all but the actions, whose place `actions` gets.
Flow read_flow(std::string_view line, const PortNumbers& ports, std::optional<Word>& actions) {
    Flow flow;
    std::vector<Word> words;
    for_each_word(line, [&](Word word) {
        const Word name = word.split('=').first;
        if (name.text != "actions" && name.text != "action") {
            words.push_back(word);
            return true;
        }
        const size_t begin = word.offset + name.text.size() + 1;
        if (begin > line.size())
            name.fail("'=' and the actions are missing", "write 'actions=drop' to drop the packets");
        actions = Word{line.substr(begin), begin};
        return false;
    });
    // Words come in any order, and fields ask what the others say of type and protocol.
    std::stable_sort(words.begin(), words.end(), [](Word a, Word b) { return rank_of(a) < rank_of(b); });
    for (const Word word : words) {
        const auto [name, value] = word.split('=');
        const bool alone = name.text.size() == word.text.size();
        if ((!alone && read_setting(name, value, flow)) || read_match(name, value, ports, flow.match)) continue;
        const std::string near = closest_word(std::string(name.text), known_words());
        name.fail(name.quoted() + (alone ? " is not a word of a flow" : " is not a field that the switch looks at"),
                  near.empty() ? "README.md of the switch lists the fields" : "did you mean '" + near + "'?");
    }
    return flow;
}

}  // namespace

Flow parse_match(std::string_view line, const PortNumbers& ports) {
    std::optional<Word> actions;
    Flow flow = read_flow(line, ports, actions);
    if (actions) actions->fail("what removes flows has no actions", "leave 'actions=' out");
    return flow;
}

Flow parse_flow(std::string_view line, const PortNumbers& ports) {
    std::optional<Word> actions;
    Flow flow = read_flow(line, ports, actions);
    if (!actions)
        Word{line, 0}
            .part(line.size())
            .fail("the flow has no actions", "write 'actions=output:1' or 'actions=drop' at its end");
    if (flow.match.mask.table == 0) flow.set_table(0);
    flow.actions = parse_instructions(actions->text, actions->offset, flow, ports);
    return flow;
}

namespace {

Group::Type group_type(Word word) {
    constexpr struct {
        const char* name;
        Group::Type type;
    } kTypes[] = {{"all", Group::Type::all},
                  {"select", Group::Type::select},
                  {"indirect", Group::Type::indirect},
                  {"ff", Group::Type::fast_failover},
                  {"fast_failover", Group::Type::fast_failover}};
    for (const auto& known : kTypes)
        if (word.text == known.name) return known.type;
    word.fail("groups of type " + word.quoted() + " are not understood", "all, select, indirect and ff are");
}

Group::Bucket parse_bucket(Word bucket, const PortNumbers& ports) {
    Group::Bucket made;
    for (;;) {
        const auto [first, rest] = bucket.split(',');
        const size_t sign = first.text.find_first_of(":=");
        const std::string_view name = first.text.substr(0, sign);
        const bool setting = sign != std::string_view::npos &&
                             (name == "weight" || name == "bucket_id" || name == "watch_port" || name == "watch_group");
        if (!setting) break;
        const Word value = first.part(sign + 1);
        if (name == "weight") made.weight = static_cast<uint16_t>(parse_number(value, Group::kMaxWeight));
        if (name == "watch_group") made.watch_group = static_cast<uint32_t>(parse_number(value, Group::kMaxId));
        if (name == "watch_port") {
            const auto port = ports.find(value.text);
            if (!port) value.fail("there is no port " + value.quoted(), "the ports are " + ports.text());
            made.watch_port = port;
        }
        bucket = rest;
    }
    if (bucket.text.starts_with("actions=")) bucket = bucket.part(8);
    made.actions = parse_actions(bucket.text, bucket.offset, nullptr, ports);
    for (const Action& action : made.actions)
        if (action.kind == ActionKind::group) bucket.fail("a bucket cannot lead to a group");
    return made;
}

/// What the type of a group asks of its buckets.
void check_buckets(const Group& group, Word whole, const PortNumbers& ports) {
    if (group.type == Group::Type::indirect && group.buckets.size() > 1)
        whole.fail("a group of type indirect has one bucket", "make it type=select");
    if (group.type == Group::Type::fast_failover)
        for (const Group::Bucket& bucket : group.buckets)
            if (!bucket.watch_port && !bucket.watch_group)
                whole.fail("a bucket of a group of type ff says what it watches",
                           "write bucket=watch_port:1,actions=output:1");
    if (group.type != Group::Type::all) return;
    try {
        merge_buckets(group, ports.count());
    } catch (const ActionMistake& mistake) {
        whole.fail(mistake.message, mistake.hint);
    }
}

}  // namespace

Group parse_group(std::string_view line, const PortNumbers& ports) {
    Group group;
    bool has_id = false;
    const size_t first_bucket = std::min(line.find("bucket="), line.size());
    for_each_word(line.substr(0, first_bucket), [&](Word word) {
        const auto [name, value] = word.split('=');
        if (name.text == "group_id") {
            group.id = static_cast<uint32_t>(parse_number(value, Group::kMaxId));
            has_id = true;
        } else if (name.text == "type") {
            group.type = group_type(value);
        } else {
            name.fail(name.quoted() + " is not a word of a group",
                      "a group is group_id=1,type=select,bucket=output:1,bucket=output:2");
        }
        return true;
    });
    if (!has_id) Word{line, 0}.fail("the group has no number", "begin it with group_id=1");
    size_t weights = 0;
    for (size_t at = first_bucket; at < line.size();) {
        const size_t begin = at + std::string_view("bucket=").size();
        const size_t next = std::min(line.find("bucket=", begin), line.size());
        Word bucket = Word{line.substr(begin, next - begin), begin};
        while (bucket.text.ends_with(',') || bucket.text.ends_with(' ')) bucket.text.remove_suffix(1);
        group.buckets.push_back(parse_bucket(bucket, ports));
        weights += group.buckets.back().weight;
        if (weights > Group::kMaxWeight)
            bucket.fail("the weights of a group add up to " + std::to_string(Group::kMaxWeight) + " at most");
        at = next;
    }
    const Word whole{line, 0};
    if (weights == 0) whole.part(line.size()).fail("the group has no bucket with a weight", "write bucket=output:1");
    check_buckets(group, whole, ports);
    return group;
}

void refuse_more_flows(size_t most, const Location& where) {
    throw ConfigError(Diagnostic{where, "there are more than " + std::to_string(most) + " flows",
                                 "allow more with 'max-flows', or use fewer"});
}

void load_flows(std::string_view text, const std::string& file, const PortNumbers& ports, FlowSet& set, size_t most) {
    for_each_statement(text, file, set, [&](std::string_view line, uint32_t index, uint32_t number) {
        if (set.flows.size() >= most) refuse_more_flows(most, {file, number, 1});
        Flow flow = parse_flow(line, ports);
        flow.text = line;
        flow.file = index;
        flow.line = number;
        set.flows.push_back(std::move(flow));
    });
}

void load_groups(std::string_view text, const std::string& file, const PortNumbers& ports, FlowSet& set) {
    for_each_statement(text, file, set, [&](std::string_view line, uint32_t, uint32_t) {
        Group group = parse_group(line, ports);
        if (std::any_of(set.groups.begin(), set.groups.end(), [&](const Group& other) { return other.id == group.id; }))
            throw WordMistake{0, "there are two groups " + std::to_string(group.id), "give one another number"};
        set.groups.push_back(std::move(group));
    });
}

PortNumbers::PortNumbers(std::vector<std::string> names, std::map<uint32_t, uint16_t> by_number)
    : names_(std::move(names)), by_number_(std::move(by_number)) {}

PortNumbers::PortNumbers(std::vector<std::string> names) : names_(std::move(names)) {
    for (size_t i = 0; i < names_.size(); ++i) by_number_[static_cast<uint32_t>(i + 1)] = static_cast<uint16_t>(i);
}

std::optional<uint16_t> PortNumbers::find(std::string_view word) const {
    const auto named = std::find(names_.begin(), names_.end(), word);
    if (named != names_.end()) return static_cast<uint16_t>(named - names_.begin());
    try {
        const auto found = by_number_.find(static_cast<uint32_t>(parse_number({word, 0}, 0xffffffffu)));
        return found != by_number_.end() ? std::optional(found->second) : std::nullopt;
    } catch (const WordMistake&) {
        return std::nullopt;  // neither a name nor a number
    }
}

uint32_t PortNumbers::number(uint16_t index) const {
    for (const auto& [number, port] : by_number_)
        if (port == index) return number;
    return kNone;
}

std::string PortNumbers::text() const {
    std::string text;
    for (const auto& [number, index] : by_number_)
        text += (text.empty() ? "" : ", ") + std::to_string(number) + " (" + names_[index] + ")";
    return text;
}

}  // namespace millrace::nf::flow_switch
