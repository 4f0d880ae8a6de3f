// The classification table: which chain a packet goes to (GEN, section 3).
#pragma once

#include <cstdint>
#include <memory>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/chain/kernel/classifier.hpp"
#include "millrace/packet/packet.hpp"

namespace millrace::chain {

/// One line of the table. Everything that it names must hold.
struct ClassificationRule {
    uint16_t port = kNoPort;  ///< input port; kNoPort: any
    int32_t vlan = -1;        ///< outermost VLAN id; -1: any, 0: untagged
    Prefix src, dst;          ///< length 0 and `any_*` below: any
    bool any_src = true, any_dst = true;
    int32_t protocol = -1;  ///< -1: any
    uint16_t src_port_low = 0, src_port_high = 0xffff;
    uint16_t dst_port_low = 0, dst_port_high = 0xffff;
    uint16_t chain = 0;

    bool port_only() const {
        return vlan < 0 && any_src && any_dst && protocol < 0 && src_port_low == 0 && src_port_high == 0xffff &&
               dst_port_low == 0 && dst_port_high == 0xffff;
    }
    /// Reads the `match:` map; `ports` are the names by number.
    static ClassificationRule read(const Config& match, const std::vector<std::string>& ports);
};

class ClassificationTable;

/// First match wins; a packet that none matches is dropped as "no-chain".
class Classification {
public:
    Classification() = default;
    /// For ports with the numbers 0 to `ports` - 1.
    Classification(std::vector<ClassificationRule> rules, size_t ports);

    const std::vector<ClassificationRule>& rules() const { return rules_; }
    /// The chain of every packet of a port, when the port alone decides: then no packet needs a look.
    /// kNoChain when headers decide.
    uint16_t chain_of_port(uint16_t port) const { return port < ports_.size() ? ports_[port].chain : kNoChain; }
    /// The chain of one parsed packet; kNoChain when no rule matches.
    uint16_t chain_of(const Packet& packet) const;
    /// Whether anything can come in from the port at all.
    bool uses_port(uint16_t port) const { return port < ports_.size() && ports_[port].is_used; }
    /// The table; null where the port alone decides, whatever the port.
    const ClassificationTable* table() const { return table_.get(); }

private:
    struct OfPort {
        uint16_t chain = kNoChain;
        bool is_used = false;
    };
    std::vector<ClassificationRule> rules_;
    std::vector<OfPort> ports_;
    std::shared_ptr<const ClassificationTable> table_;  // null where no port's packets need a look
};

}  // namespace millrace::chain
