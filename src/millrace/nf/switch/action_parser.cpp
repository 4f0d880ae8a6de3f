// The actions of a flow.
#include <algorithm>
#include <functional>

#include "millrace/nf/classify/five_tuple.hpp"
#include "millrace/nf/switch/flow_parser.hpp"
#include "millrace/nf/switch/words.hpp"
#include "millrace/packet/headers.hpp"

namespace millrace::nf::flow_switch {
namespace {

using classify::FlowFields;

/// Tags that a flow may push: frames grow by so many at most.
constexpr int kMaxPushes = 2;

class Reader {
public:
    Reader(const FlowMatch* match, const PortNumbers& ports) : match_(match), ports_(ports) {
        tagged_ = match == nullptr || (match->mask.vlan & match->value.vlan & FlowFields::kTagged) != 0;
    }

    void read(Word action) {
        const auto [name, value] = split(action);
        static const std::map<std::string, void (Reader::*)(Word, Word), std::less<>> kChanges = {
            {"mod_dl_src", &Reader::mac}, {"mod_dl_dst", &Reader::mac}, {"mod_nw_src", &Reader::address}, {"mod_nw_dst", &Reader::address},
            {"mod_nw_tos", &Reader::tos}, {"mod_nw_ecn", &Reader::tos}, {"mod_nw_ttl", &Reader::ttl}, {"dec_ttl", &Reader::dec_ttl},
            {"mod_tp_src", &Reader::port}, {"mod_tp_dst", &Reader::port}, {"mod_vlan_vid", &Reader::mod_vlan}, {"mod_vlan_pcp", &Reader::mod_vlan},
            {"strip_vlan", &Reader::pop_vlan}, {"pop_vlan", &Reader::pop_vlan}, {"push_vlan", &Reader::push_vlan}, {"set_field", &Reader::set_field},
        };
        if (ended_) action.fail("nothing can stand behind a group or drop", "make it the last action");
        if (const auto change = kChanges.find(name.text); change != kChanges.end()) {
            if (sends()) action.fail("a packet leaves with the same bytes by all its ports", "write the changes before the outputs");
            (this->*change->second)(name, value);
        } else {
            send(action, name, value);
        }
        empty_ = false;
    }

    std::vector<Action> finish(Word all) {
        if (empty_) all.fail("there is no action", "write 'drop' to drop the packet");
        if (controller_) {
            if (!outputs_.empty() || flood_ || in_port_) all.fail("a packet goes to the controller or to ports, not to both", "write two switches in a row, or leave one out");
            add(ActionKind::controller);
        } else if (outputs_.size() == 1 && !flood_ && !in_port_) {
            add(ActionKind::output, outputs_.front());
        } else if (!outputs_.empty() || flood_ || in_port_) {
            uint32_t set = 0;
            if (flood_) set = (uint32_t{1} << std::min<unsigned>(ports_.count(), kPortSetPorts)) - 1;
            if (flood_ && ports_.count() > kPortSetPorts) all.fail("only the first " + std::to_string(kPortSetPorts) + " ports of a configuration can be flooded");
            for (const uint16_t port : outputs_) {
                if (port >= kPortSetPorts)
                    all.fail("a packet can leave by several of the first " + std::to_string(kPortSetPorts) + " ports of a configuration only",
                             "list the ports that share packets first under 'ports:'");
                set |= 1u << port;
            }
            add(ActionKind::output_set, set, in_port_ ? 1 : 0);
        }
        return std::move(actions_);
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

    bool sends() const { return !outputs_.empty() || flood_ || in_port_ || controller_; }
    void add(ActionKind kind, uint32_t value = 0, uint64_t high = 0, uint64_t low = 0) { actions_.push_back({kind, value, high, low}); }
    void want(bool there, Word name, const char* what, const char* hint) const {
        if (match_ != nullptr && !there) name.fail(name.quoted() + " works on " + what + ", and the flow may match other packets", hint);
    }
    bool has_type(uint16_t type) const { return match_ != nullptr && match_->mask.eth_type == 0xffff && match_->value.eth_type == type; }
    bool has_ip() const { return has_type(eth::kTypeIpv4) || has_type(eth::kTypeIpv6); }
    bool has_protocol(uint8_t protocol) const { return has_ip() && match_->mask.protocol == 0xff && match_->value.protocol == protocol; }

    void send(Word action, Word name, Word value) {
        const std::string lower = [&] {
            std::string text(name.text);
            std::transform(text.begin(), text.end(), text.begin(), [](unsigned char c) { return static_cast<char>(std::tolower(c)); });
            return text;
        }();
        const bool bare = value.text.empty();
        if (lower == "drop") {
            if (!empty_) action.fail("'drop' stands with other actions", "write 'drop' alone");
            ended_ = true;
        } else if (lower == "controller") {
            controller_ = true;  // of a packet the whole goes there, whatever max_len says
        } else if (lower == "group") {
            if (sends()) action.fail("a packet goes to a group or to ports, not to both", "give the group's buckets all outputs");
            add(ActionKind::group, static_cast<uint32_t>(parse_number(value, 0xffffff00u)));
            ended_ = true;
        } else if (bare && (lower == "flood" || lower == "all")) {
            flood_ = true;
        } else if (bare && lower == "in_port") {
            in_port_ = true;
        } else if (lower == "output") {
            output(value);
        } else if (bare && ports_.find(name.text)) {
            output(name);
        } else {
            action.fail(name.quoted() + " is not an action that the switch has",
                        "it has output, group, flood, all, in_port, controller, drop, set_field, mod_…, push_vlan, pop_vlan, dec_ttl");
        }
    }
    void output(Word value) {
        if (value.text == "in_port" || value.text == "IN_PORT") {
            in_port_ = true;
            return;
        }
        const auto port = ports_.find(value.text);
        if (!port) value.fail("there is no port " + value.quoted(), "the ports are " + ports_.text());
        if (std::find(outputs_.begin(), outputs_.end(), *port) != outputs_.end()) value.fail("the packet leaves by " + value.quoted() + " already");
        outputs_.push_back(*port);
    }

    void mac(Word name, Word value) { add(name.text == "mod_dl_src" || name.text == "eth_src" || name.text == "dl_src" ? ActionKind::set_eth_src : ActionKind::set_eth_dst, 0, 0, parse_mac_number(value)); }
    void address(Word name, Word value) {
        const bool six = name.text.starts_with("ipv6");
        want(has_type(six ? eth::kTypeIpv6 : eth::kTypeIpv4), name, six ? "IPv6" : "IPv4", six ? "begin the match with 'ipv6'" : "begin the match with 'ip'");
        const Prefix host = parse_host(value, six);
        add(name.text.ends_with("src") ? ActionKind::set_ip_src : ActionKind::set_ip_dst, six ? 6 : 4, classify::high_half(host), classify::low_half(host));
    }
    void tos(Word name, Word value) {
        want(has_ip(), name, "IP", "begin the match with 'ip' or 'ipv6'");
        if (name.text.ends_with("ecn")) return add(ActionKind::set_tos, static_cast<uint32_t>(parse_number(value, 3)), 3);
        if (name.text == "ip_dscp") return add(ActionKind::set_tos, static_cast<uint32_t>(parse_number(value, 63) << 2), 0xfc);
        const uint64_t to = parse_number(value, 0xff);
        if ((to & 3) != 0) value.fail("the two lowest bits of the type of service are ECN's and must be 0", "set those with mod_nw_ecn");
        add(ActionKind::set_tos, static_cast<uint32_t>(to), 0xfc);
    }
    void ttl(Word name, Word value) {
        want(has_ip(), name, "IP", "begin the match with 'ip' or 'ipv6'");
        add(ActionKind::set_ttl, static_cast<uint32_t>(parse_number(value, 0xff)));
    }
    void dec_ttl(Word name, Word value) {
        want(has_ip(), name, "IP", "begin the match with 'ip' or 'ipv6'");
        if (!value.text.empty()) value.fail("dec_ttl takes no list of controllers", "write 'dec_ttl'");
        add(ActionKind::dec_ttl);
    }
    void port(Word name, Word value) {
        const bool tcp = has_protocol(ip::kProtocolTcp) && !name.text.starts_with("udp");
        const bool udp = has_protocol(ip::kProtocolUdp) && !name.text.starts_with("tcp");
        want(tcp || udp, name, "TCP or UDP", "begin the match with 'tcp', 'udp', 'tcp6' or 'udp6'");
        add(name.text.ends_with("src") ? ActionKind::set_l4_src : ActionKind::set_l4_dst, static_cast<uint32_t>(parse_number(value, 0xffff)));
    }
    /// OpenFlow 1.0 gives an untagged packet a tag; later versions ask for one.
    void mod_vlan(Word name, Word value) {
        if (!tagged_) push(name, eth::kTypeVlan, 1);
        vlan(name, value);
    }
    void vlan(Word name, Word value) {
        want(tagged_, name, "tagged packets", "push_vlan before it, or match 'vlan_vid=0x1000/0x1000'");
        if (name.text.ends_with("pcp")) return add(ActionKind::set_vlan_pcp, static_cast<uint32_t>(parse_number(value, 7)));
        add(ActionKind::set_vlan_id, static_cast<uint32_t>(parse_number(value, 0x1fff) & 0xfff));
    }
    void push_vlan(Word name, Word value) {
        const uint64_t type = parse_number(value, 0xffff);
        if (type != eth::kTypeVlan && type != eth::kTypeQinq) value.fail("a tag is of type 0x8100 or 0x88a8");
        push(name, static_cast<uint16_t>(type), 0);
    }
    void push(Word name, uint16_t type, uint64_t if_none) {
        if (++pushes_ > kMaxPushes) name.fail("a flow can push " + std::to_string(kMaxPushes) + " tags at most");
        add(ActionKind::push_vlan, type, if_none);
        tagged_ = true;
    }
    void pop_vlan(Word, Word) {
        add(ActionKind::pop_vlan);
        tagged_ = match_ == nullptr;
    }
    void set_field(Word name, Word value) {
        const size_t arrow = value.text.find("->");
        if (arrow == std::string_view::npos) name.fail("'->' and a field are missing", "write it as set_field:192.0.2.1->ip_dst");
        const Word to = value.part(0, arrow), field = value.part(arrow + 2);
        if (to.text.find('/') != std::string_view::npos) to.fail("set_field sets whole fields; masks are not understood", "leave the mask out");
        static const std::map<std::string, void (Reader::*)(Word, Word), std::less<>> kFields = {
            {"eth_src", &Reader::mac}, {"eth_dst", &Reader::mac}, {"dl_src", &Reader::mac}, {"dl_dst", &Reader::mac},
            {"ip_src", &Reader::address}, {"ip_dst", &Reader::address}, {"nw_src", &Reader::address}, {"nw_dst", &Reader::address},
            {"ipv6_src", &Reader::address}, {"ipv6_dst", &Reader::address}, {"nw_tos", &Reader::tos}, {"ip_dscp", &Reader::tos},
            {"nw_ecn", &Reader::tos}, {"ip_ecn", &Reader::tos}, {"nw_ttl", &Reader::ttl},
            {"tp_src", &Reader::port}, {"tp_dst", &Reader::port}, {"tcp_src", &Reader::port}, {"tcp_dst", &Reader::port},
            {"udp_src", &Reader::port}, {"udp_dst", &Reader::port}, {"vlan_vid", &Reader::vlan}, {"vlan_pcp", &Reader::vlan},
        };
        const auto found = kFields.find(field.text);
        if (found == kFields.end()) field.fail(field.quoted() + " is not a field that the switch can set");
        (this->*found->second)(field, to);
    }

    const FlowMatch* match_;
    const PortNumbers& ports_;
    std::vector<Action> actions_;
    std::vector<uint16_t> outputs_;
    bool tagged_ = false, flood_ = false, in_port_ = false, controller_ = false, ended_ = false, empty_ = true;
    int pushes_ = 0;
};

}  // namespace

std::vector<Action> parse_actions(std::string_view text, size_t offset, const FlowMatch* match, const PortNumbers& ports) {
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
