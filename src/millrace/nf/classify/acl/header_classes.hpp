// Protocol, presence of ports and TCP flags of a header and the kind of its connection, folded into one byte: rules
// tell few of their combinations apart.
#pragma once

#include <array>
#include <span>
#include <utility>
#include <vector>

#include "millrace/nf/classify/rules/rule.hpp"

namespace millrace::nf::classify {

/// Headers that no box tells apart by these fields are of one class. Constant once made.
class HeaderClasses {
public:
    /// Throws std::runtime_error when the boxes tell more than 256 classes apart.
    explicit HeaderClasses(std::span<const Box> boxes);

    /// The class of a header whose TCP flags, if it has some, are unknown.
    uint8_t of(Connection connection, uint8_t protocol, bool has_ports) const {
        return of_connection(connection).by_protocol[has_ports][protocol];
    }
    /// The class of a TCP header.
    uint8_t of_tcp(Connection connection, uint8_t flags, bool has_ports) const {
        return of_connection(connection).by_tcp_flags[has_ports][flags];
    }

    /// The classes that lie in a box, as ranges, both ends included. None when no header could be in it.
    std::vector<std::pair<uint8_t, uint8_t>> ranges_of(const Box& box) const;
    size_t size() const { return members_.size(); }

private:
    /// What a class has in common, by one of its headers.
    struct Member {
        uint8_t protocol;
        uint8_t tcp_flags;
        bool has_ports, has_flags;
        Connection connection;
        bool is_in(const Box& box) const;
    };
    struct Numbers {
        std::array<std::array<uint8_t, 256>, 2> by_protocol, by_tcp_flags;  ///< first by whether there are ports
    };
    const Numbers& of_connection(Connection connection) const {
        return numbers_[numbers_.size() == 1 ? 0 : static_cast<size_t>(connection)];
    }
    std::vector<Numbers> numbers_;  ///< by Connection where boxes tell these apart, else one
    std::vector<Member> members_;
};

}  // namespace millrace::nf::classify
