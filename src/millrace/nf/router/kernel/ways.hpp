// Where the kernel's routes lead, each way once however many routes take it.
#pragma once

#include <map>
#include <optional>
#include <vector>

#include "millrace/nf/router/kernel/messages.hpp"
#include "millrace/nf/router/tables.hpp"

namespace millrace::nf::router {

/// What the kernel's routes say of packets, before neighbours are looked up.
struct Way {
    enum class Kind : uint8_t {
        none,       ///< there is no route
        local,      ///< for the router itself
        kernel,     ///< the kernel shall do it
        blackhole,  ///< dropped in silence
        connected,  ///< the destination is a neighbour on the only hop's interface
        gateways,   ///< by one of the hops
        object,     ///< as a nexthop object says at the time
    };
    Kind kind = Kind::none;
    std::vector<RouteHop> hops = {};
    uint32_t object = 0;  ///< id
    auto operator<=>(const Way&) const = default;
};

/// The way by one of these hops.
Way way_by(std::vector<RouteHop> hops, bool encapsulated);

/// Ways by number, which are the numbers of targets in the lookup tables. A number is free again when nobody uses it.
class Ways {
public:
    /// Always there, and used without being counted: a way of the kind with this number.
    static constexpr uint16_t kLocal = kTargetLocal, kKernel = 2, kBlackhole = 3, kFixed = 4;

    Ways();
    /// The number of a way, with one use more. `kKernel` when there are too many different ones.
    uint16_t take(const Way& way);
    void release(uint16_t number);
    /// The number of a way that somebody uses.
    std::optional<uint16_t> find(const Way& way) const;

    /// How many ways of objects are used.
    size_t objects() const { return objects_; }
    /// Grows with every way that is new.
    uint64_t made() const { return made_; }

    const Way& at(uint16_t number) const { return *ways_[number].way; }
    /// Numbers are below this; those that nobody uses are `Way::Kind::none`.
    size_t numbers() const { return ways_.size(); }

private:
    struct Used {
        const Way* way;  // in `numbers_`
        size_t users;
    };
    std::map<Way, uint16_t> numbers_;
    std::vector<Used> ways_;
    std::vector<uint16_t> free_;
    size_t objects_ = 0;
    uint64_t made_ = 0;
};

}  // namespace millrace::nf::router
