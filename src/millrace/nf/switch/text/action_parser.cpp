// The actions of a flow.
#include <algorithm>
#include <functional>

#include "millrace/nf/classify/rules/five_tuple.hpp"
#include "millrace/nf/switch/actions/action_list.hpp"
#include "millrace/nf/switch/text/flow_parser.hpp"
#include "millrace/nf/switch/actions/instructions.hpp"
#include "millrace/nf/switch/text/match_parser.hpp"
#include "millrace/nf/switch/text/words.hpp"
#include "millrace/nf/classify/wide_fields.hpp"

namespace millrace::nf::flow_switch {
namespace {

class ActionReader {
public:
    ActionReader(const FlowMatch* match, const PortNumbers& ports) : ports_(ports), list_(match, ports.count()) {}

    void read(Word action) {
        const auto [name, value] = split(action);
        static const std::map<std::string, void (ActionReader::*)(Word, Word), std::less<>> kChanges = {
            {"mod_dl_src", &ActionReader::mac},        {"mod_dl_dst", &ActionReader::mac},
            {"mod_nw_src", &ActionReader::address},    {"mod_nw_dst", &ActionReader::address},
            {"mod_nw_tos", &ActionReader::tos},        {"mod_nw_ecn", &ActionReader::tos},
            {"mod_nw_ttl", &ActionReader::ttl},        {"dec_ttl", &ActionReader::dec_ttl},
            {"mod_tp_src", &ActionReader::port},       {"mod_tp_dst", &ActionReader::port},
            {"mod_vlan_vid", &ActionReader::mod_vlan}, {"mod_vlan_pcp", &ActionReader::mod_vlan},
            {"strip_vlan", &ActionReader::pop_vlan},   {"pop_vlan", &ActionReader::pop_vlan},
            {"push_vlan", &ActionReader::push_vlan},   {"set_field", &ActionReader::set_field},
            {"push_mpls", &ActionReader::push_label},  {"pop_mpls", &ActionReader::pop_mpls},
            {"push_pbb", &ActionReader::push_label},   {"pop_pbb", &ActionReader::bare},
            {"dec_mpls_ttl", &ActionReader::bare},     {"copy_ttl_in", &ActionReader::bare},
            {"copy_ttl_out", &ActionReader::bare},     {"set_mpls_ttl", &ActionReader::mpls},
            {"set_mpls_label", &ActionReader::mpls},   {"set_mpls_tc", &ActionReader::mpls},
            {"set_tunnel", &ActionReader::tunnel},     {"set_tunnel64", &ActionReader::tunnel},
        };
        const auto change = kChanges.find(name.text);
        try {
            if (change == kChanges.end()) send(action, name, value);
            else (this->*change->second)(name, value);
        } catch (const ActionMistake& mistake) {
            action.fail(mistake.message, mistake.hint);
        }
        empty_ = false;
    }

    std::vector<Action> finish(Word all) {
        if (empty_) all.fail("there is no action", "write 'drop' to drop the packet");
        try {
            return list_.finish();
        } catch (const ActionMistake& mistake) {
            all.fail(mistake.message, mistake.hint);
        }
    }
    /// An instruction was read, so that nothing need be applied.
    void instructed() { empty_ = false; }

private:
    /// Name and value of `name:value`, `name(value)` or a word alone.
    static std::pair<Word, Word> split(Word action) {
        const size_t at = action.text.find_first_of(":(");
        if (at == std::string_view::npos) return {action, action.part(action.text.size())};
        Word value = action.part(at + 1);
        if (action.text[at] == '(') {
            if (!value.text.ends_with(')')) action.fail("')' is missing");
            value.text.remove_suffix(1);
        }
        return {action.part(0, at), value};
    }

    /// `name` is what a mistake is told of.
    void change(Word name, ActionKind kind, uint64_t value = 0, uint64_t high = 0, uint64_t low = 0) {
        try {
            list_.change({kind, static_cast<uint32_t>(value), high, low});
        } catch (const ActionMistake& mistake) {
            name.fail((mistake.code == BadAction::match_inconsistent ? name.quoted() + " " : "") + mistake.message,
                      mistake.hint);
        }
    }

    void send(Word action, Word name, Word value) {
        const std::string lower = [&] {
            std::string text(name.text);
            std::transform(text.begin(), text.end(), text.begin(),
                           [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
            return text;
        }();
        const bool bare = value.text.empty();
        if (lower == "drop") list_.drop();
        else if (lower == "controller") list_.controller();  // of a packet the whole goes there, whatever max_len says
        else if (lower == "group") list_.group(static_cast<uint32_t>(parse_number(value, 0xffffff00u)));
        else if (bare && lower == "flood") list_.flood();
        else if (bare && lower == "all") list_.all();
        else if (bare && lower == "in_port") list_.in_port();
        else if (lower == "output") output(value);
        else if (bare && ports_.find(name.text)) output(name);
        else
            action.fail(name.quoted() + " is not an action that the switch has",
                        "it has output, group, flood, all, in_port, controller, drop, set_field, mod_…, push_vlan, "
                        "pop_vlan, dec_ttl");
    }
    void output(Word value) {
        if (value.text == "in_port" || value.text == "IN_PORT") return list_.in_port();
        const auto port = ports_.find(value.text);
        if (!port) value.fail("there is no port " + value.quoted(), "the ports are " + ports_.text());
        list_.output(*port);
    }

    void mac(Word name, Word value) {
        change(name, name.text.ends_with("src") ? ActionKind::set_eth_src : ActionKind::set_eth_dst, 0, 0,
               parse_mac_number(value));
    }
    void address(Word name, Word value) {
        const bool six = name.text.starts_with("ipv6");
        const Prefix host = parse_host(value, six);
        change(name, name.text.ends_with("src") ? ActionKind::set_ip_src : ActionKind::set_ip_dst, six ? 6 : 4,
               classify::high_half(host), classify::low_half(host));
    }
    void tos(Word name, Word value) {
        if (name.text.ends_with("ecn")) return change(name, ActionKind::set_tos, parse_number(value, 3), 3);
        if (name.text == "ip_dscp") return change(name, ActionKind::set_tos, parse_number(value, 63) << 2, 0xfc);
        const uint64_t to = parse_number(value, 0xff);
        if ((to & 3) != 0)
            value.fail("the two lowest bits of the type of service are ECN's and must be 0",
                       "set those with mod_nw_ecn");
        change(name, ActionKind::set_tos, to, 0xfc);
    }
    void ttl(Word name, Word value) { change(name, ActionKind::set_ttl, parse_number(value, 0xff)); }
    void dec_ttl(Word name, Word value) {
        if (!value.text.empty()) value.fail("dec_ttl takes no list of controllers", "write 'dec_ttl'");
        change(name, ActionKind::dec_ttl);
    }
    void port(Word name, Word value) {
        const uint8_t protocol = name.text.starts_with("tcp")   ? ip::kProtocolTcp
                                 : name.text.starts_with("udp") ? ip::kProtocolUdp
                                                                : uint8_t{0};
        change(name, name.text.ends_with("src") ? ActionKind::set_l4_src : ActionKind::set_l4_dst,
               parse_number(value, 0xffff), protocol);
    }
    void mod_vlan(Word name, Word value) {
        list_.tag_if_none();
        vlan(name, value);
    }
    void vlan(Word name, Word value) {
        if (name.text.ends_with("pcp")) return change(name, ActionKind::set_vlan_pcp, parse_number(value, 7));
        change(name, ActionKind::set_vlan_id, parse_number(value, 0x1fff) & 0xfff);
    }
    void push_vlan(Word name, Word value) {
        const uint64_t type = parse_number(value, 0xffff);
        if (type != eth::kTypeVlan && type != eth::kTypeQinq) value.fail("a tag is of type 0x8100 or 0x88a8");
        change(name, ActionKind::push_vlan, type);
    }
    void pop_vlan(Word name, Word) { change(name, ActionKind::pop_vlan); }
    void set_field(Word name, Word value) {
        const size_t arrow = value.text.find("->");
        if (arrow == std::string_view::npos)
            name.fail("'->' and a field are missing", "write it as set_field:192.0.2.1->ip_dst");
        const Word to = value.part(0, arrow), field = value.part(arrow + 2);
        if (to.text.find('/') != std::string_view::npos)
            to.fail("set_field sets whole fields; masks are not understood", "leave the mask out");
        if (field.text.find('[') != std::string_view::npos) field.fail("parts of fields are not understood");
        static const std::map<std::string, void (ActionReader::*)(Word, Word), std::less<>> kFields = {
            {"eth_src", &ActionReader::mac},      {"eth_dst", &ActionReader::mac},
            {"dl_src", &ActionReader::mac},       {"dl_dst", &ActionReader::mac},
            {"ip_src", &ActionReader::address},   {"ip_dst", &ActionReader::address},
            {"nw_src", &ActionReader::address},   {"nw_dst", &ActionReader::address},
            {"ipv6_src", &ActionReader::address}, {"ipv6_dst", &ActionReader::address},
            {"nw_tos", &ActionReader::tos},       {"ip_dscp", &ActionReader::tos},
            {"nw_ecn", &ActionReader::tos},       {"ip_ecn", &ActionReader::tos},
            {"nw_ttl", &ActionReader::ttl},       {"tp_src", &ActionReader::port},
            {"tp_dst", &ActionReader::port},      {"tcp_src", &ActionReader::port},
            {"tcp_dst", &ActionReader::port},     {"udp_src", &ActionReader::port},
            {"udp_dst", &ActionReader::port},     {"vlan_vid", &ActionReader::vlan},
            {"vlan_pcp", &ActionReader::vlan},
        };
        const auto found = kFields.find(field.text);
        if (found != kFields.end()) return (this->*found->second)(field, to);
        const MatchField* const known = find_match_field(field.text);
        if (known == nullptr || known->set == nullptr)
            field.fail(field.quoted() + " is not a field that the switch can set");
        const Action made = known->set(read_value(*known, to));
        change(field, made.kind, made.value, made.high, made.low);
    }
    void push_label(Word name, Word value) {
        change(name, name.text == "push_pbb" ? ActionKind::push_pbb : ActionKind::push_mpls,
               parse_number(value, 0xffff));
    }
    void pop_mpls(Word name, Word value) { change(name, ActionKind::pop_mpls, parse_number(value, 0xffff)); }
    void bare(Word name, Word value) {
        if (!value.text.empty()) value.fail(name.quoted() + " takes nothing", "write it alone");
        change(name, name.text == "pop_pbb"        ? ActionKind::pop_pbb
                     : name.text == "dec_mpls_ttl" ? ActionKind::dec_mpls_ttl
                     : name.text == "copy_ttl_in"  ? ActionKind::copy_ttl_in
                                                   : ActionKind::copy_ttl_out);
    }
    void mpls(Word name, Word value) {
        const unsigned shift = name.text.ends_with("ttl") ? 0 : name.text.ends_with("tc") ? 9 : 12;
        const uint64_t ones = name.text.ends_with("ttl") ? 0xff : name.text.ends_with("tc") ? 7 : 0xfffff;
        change(name, ActionKind::set_mpls, parse_number(value, ones) << shift, ones << shift);
    }
    void tunnel(Word name, Word value) {
        change(name, ActionKind::set_tunnel, 0, 0, parse_number(value, ~uint64_t{0}));
    }

    const PortNumbers& ports_;
    ActionList list_;
    bool empty_ = true;
};

/// Calls `f` with each action of a list, by commas outside of parentheses.
template <class F>
void for_each_action(Word all, F&& f) {
    int depth = 0;
    size_t begin = 0;
    const std::string_view text = all.text;
    for (size_t i = 0; i <= text.size(); ++i) {
        const char c = i < text.size() ? text[i] : ',';
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        if (i < text.size() && (depth > 0 || (c != ',' && c != ' ' && c != '\t'))) continue;
        if (i > begin) f(all.part(begin, i - begin));
        begin = i + 1;
    }
}

/// The words of a flow's actions that are instructions of their own in OpenFlow.
class InstructionReader {
public:
    InstructionReader(const Flow& flow, const PortNumbers& ports) : flow_(flow), ports_(ports) {}

    /// False where it is an action to be applied.
    bool read(Word word) {
        const size_t at = std::min(word.text.find_first_of(":("), word.text.size());
        const std::string_view name = word.text.substr(0, at);
        Word value = at < word.text.size() ? word.part(at + 1) : word.part(at);
        if (at < word.text.size() && word.text[at] == '(') {
            if (!value.text.ends_with(')')) return false;
            value.text.remove_suffix(1);
        }
        if (name == "meter") {
            made.meter = static_cast<uint32_t>(parse_number(value, Meter::kMaxId));
        } else if (name == "clear_actions") {
            made.clears = true;
        } else if (name == "write_actions") {
            write(value);
        } else if (name == "write_metadata") {
            made.metadata = parse_masked(value, ~uint64_t{0});
        } else if (name == "goto_table" || name == "goto") {
            const uint64_t table = parse_number(value, Flow::kTables - 1);
            if (table <= flow_.table()) value.fail("a packet goes to a table with a higher number only");
            made.next_table = static_cast<uint8_t>(table);
        } else {
            return false;
        }
        return true;
    }

    /// Whether what is written gets what it works on, behind what is applied and in the order of the set.
    void check_written() const {
        try {
            ActionList together(&flow_.match, ports_.count());
            for (const Action& action : made.applied)
                if (action.kind < ActionKind::group) together.add(action);
            for (const auto& [place, action] : in_order_) together.add(action);
        } catch (const ActionMistake& mistake) {
            written_.fail((mistake.code == BadAction::match_inconsistent ? "an action " : "") + mistake.message,
                          mistake.hint);
        }
    }

    Instructions made;

private:
    void write(Word list) {
        for_each_action(list, [&](Word action) {
            for (const Action& one : parse_actions(action.text, action.offset, nullptr, ports_)) {
                made.written.push_back(one);
                if (one.kind < ActionKind::group) in_order_.insert_or_assign(place_in_set(one), one);
            }
        });
        written_ = list;
    }

    const Flow& flow_;
    const PortNumbers& ports_;
    std::map<unsigned, Action> in_order_;  // changes that are written, by their place in the set
    Word written_;
};

}  // namespace

std::vector<Action> parse_actions(std::string_view text, size_t offset, const FlowMatch* match,
                                  const PortNumbers& ports) {
    const Word all{text, offset};
    ActionReader reader(match, ports);
    for_each_action(all, [&](Word action) { reader.read(action); });
    return reader.finish(all);
}

std::vector<Action> parse_instructions(std::string_view text, size_t offset, const Flow& flow,
                                       const PortNumbers& ports) {
    const Word all{text, offset};
    ActionReader reader(&flow.match, ports);
    InstructionReader instructions(flow, ports);
    for_each_action(all, [&](Word action) {
        if (instructions.read(action)) reader.instructed();
        else reader.read(action);
    });
    instructions.made.applied = reader.finish(all);
    instructions.check_written();
    try {
        return compile(instructions.made, flow.table(), flow.match, ports.count());
    } catch (const ActionMistake& mistake) {
        all.fail(mistake.message, mistake.hint);
    }
}

}  // namespace millrace::nf::flow_switch
