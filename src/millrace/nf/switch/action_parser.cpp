// The actions of a flow.
#include <algorithm>
#include <functional>

#include "millrace/nf/classify/rules/five_tuple.hpp"
#include "millrace/nf/switch/action_list.hpp"
#include "millrace/nf/switch/flow_parser.hpp"
#include "millrace/nf/switch/words.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::nf::flow_switch {
namespace {

class Reader {
public:
    Reader(const FlowMatch* match, const PortNumbers& ports) : ports_(ports), list_(match, ports.count()) {}

    void read(Word action) {
        const auto [name, value] = split(action);
        static const std::map<std::string, void (Reader::*)(Word, Word), std::less<>> kChanges = {
            {"mod_dl_src", &Reader::mac},      {"mod_dl_dst", &Reader::mac},        {"mod_nw_src", &Reader::address},
            {"mod_nw_dst", &Reader::address},  {"mod_nw_tos", &Reader::tos},        {"mod_nw_ecn", &Reader::tos},
            {"mod_nw_ttl", &Reader::ttl},      {"dec_ttl", &Reader::dec_ttl},       {"mod_tp_src", &Reader::port},
            {"mod_tp_dst", &Reader::port},     {"mod_vlan_vid", &Reader::mod_vlan}, {"mod_vlan_pcp", &Reader::mod_vlan},
            {"strip_vlan", &Reader::pop_vlan}, {"pop_vlan", &Reader::pop_vlan},     {"push_vlan", &Reader::push_vlan},
            {"set_field", &Reader::set_field},
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
        static const std::map<std::string, void (Reader::*)(Word, Word), std::less<>> kFields = {
            {"eth_src", &Reader::mac},      {"eth_dst", &Reader::mac},    {"dl_src", &Reader::mac},
            {"dl_dst", &Reader::mac},       {"ip_src", &Reader::address}, {"ip_dst", &Reader::address},
            {"nw_src", &Reader::address},   {"nw_dst", &Reader::address}, {"ipv6_src", &Reader::address},
            {"ipv6_dst", &Reader::address}, {"nw_tos", &Reader::tos},     {"ip_dscp", &Reader::tos},
            {"nw_ecn", &Reader::tos},       {"ip_ecn", &Reader::tos},     {"nw_ttl", &Reader::ttl},
            {"tp_src", &Reader::port},      {"tp_dst", &Reader::port},    {"tcp_src", &Reader::port},
            {"tcp_dst", &Reader::port},     {"udp_src", &Reader::port},   {"udp_dst", &Reader::port},
            {"vlan_vid", &Reader::vlan},    {"vlan_pcp", &Reader::vlan},
        };
        const auto found = kFields.find(field.text);
        if (found == kFields.end()) field.fail(field.quoted() + " is not a field that the switch can set");
        (this->*found->second)(field, to);
    }

    const PortNumbers& ports_;
    ActionList list_;
    bool empty_ = true;
};

}  // namespace

std::vector<Action> parse_actions(std::string_view text, size_t offset, const FlowMatch* match,
                                  const PortNumbers& ports) {
    const Word all{text, offset};
    Reader reader(match, ports);
    int depth = 0;
    size_t begin = 0;
    for (size_t i = 0; i <= text.size(); ++i) {
        const char c = i < text.size() ? text[i] : ',';
        depth += c == '(' ? 1 : c == ')' ? -1 : 0;
        if (i < text.size() && (depth > 0 || (c != ',' && c != ' ' && c != '\t'))) continue;
        if (i > begin) reader.read(all.part(begin, i - begin));
        begin = i + 1;
    }
    return reader.finish(all);
}

}  // namespace millrace::nf::flow_switch
