// What a network function is to the rest of Millrace.
//
// An NF lives in one folder and has two halves. The device half (`device.hpp`) says what happens to
// one packet; it is compiled by g++ for the cpu and sim devices and by NVRTC for GPUs:
//
//     struct Mirror {
//         enum Outcome : uint32_t { kForward };
//         static constexpr Fields reads = field::eth_dst | field::eth_src;
//         static constexpr Fields writes = field::eth_dst | field::eth_src;
//         static constexpr unsigned lanes = 1;            // how many it likes
//         struct Tables {};                               // View<T>, MutableView<T> and scalars
//         template <class Lanes>
//         MILLRACE_DEVICE static Decision process(Packet& packet, const Tables& tables, Lanes lanes);
//     };
//
// The host half (`host.cpp`) is a class derived from `NetworkFunction` that reads the options from
// YAML and fills the tables; `static const nf::Register<Mirror, MirrorHost> registration{…}` makes
// both known. Optional: a CPU half that works on vectors of packets with a library.
//
// Work that no lanes can share, such as a hash over the payload, goes into
//     static Decision finish(Packet&, const Tables&, Decision);
// which runs after `process` with one lane a packet, and tables that all packets look into again and
// again into the fast memory that a GPU's block of threads shares:
//     static constexpr uint32_t block_bytes = …;
//     static void stage(const Tables&, uint32_t* block);            // by all threads of a block, before `process`
//     static constexpr bool block_is_constant = true;               // where it is the same for whatever tables
//
// Order. Device code runs for many packets at once, in no order. An NF whose packets need one (ESP
// sequence numbers, anti-replay) gives its device half
//     static uint32_t order_key(const Packet&, const Tables&);      // < tables.tickets.size(), or kNoOrderKey
// and a `MutableView<uint64_t> tickets` in its Tables: then `packet.ticket()` in `process` is the
// number of packets with the same key that came before, counted over all batches. It may also give
//     static Decision commit(Packet&, const Tables&, Decision);
// which runs after `process`, one packet at a time in order of arrival, may change state, and
// returns the final decision.
//
// State per key (nf/state/README.md). A device half with a `nf::KeyedState<Key, Value> state` in its Tables has
//     static nf::Lookup key(const Packet&, const Tables&, Key&);
//     static Decision process(Packet&, const Tables&, nf::KeyedEntry<Value>);
// in place of `process`: it gets the packets of each key one at a time in order of arrival, those of different keys at
// the same time, on every device. One that has much to do which needs no state keeps its `process` with lanes, which
// runs for all packets at once, as ever, and has
//     static Decision commit(Packet&, const Tables&, Decision, nf::KeyedEntry<Value>);
// behind it, which gets its decision, and returns the final one. A CPU half then stands for `process` alone.
//
// Time. `packet.time_ns()` is there for NFs with state per key, and those that say `static constexpr bool reads_time`.
#pragma once

#include <map>
#include <memory>
#include <optional>
#include <span>
#include <string>
#include <string_view>
#include <type_traits>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/base/reporter.hpp"
#include "millrace/nf/environment.hpp"
#include "millrace/nf/image.hpp"
#include "millrace/nf/parts.hpp"
#include "millrace/nf/shown.hpp"
#include "millrace/nf/state/ahead.hpp"
#include "millrace/nf/state/keyed_burst.hpp"
#include "millrace/nf/state/keyed_state.hpp"
#include "millrace/packet/lanes.hpp"
#include "millrace/packet/packet.hpp"

struct rte_mbuf;

namespace millrace::nf {

/// Where an outcome leads unless the chain says otherwise (`on:` in the YAML).
enum class Disposition { next, drop, punt };

/// One outcome of an NF; its name is also the drop or punt reason, and the key under `on:`.
struct Outcome {
    std::string name;
    Disposition disposition = Disposition::next;
    std::string help;
};

/// What is known of a packet besides its bytes when its event reaches the host half.
struct PacketInfo {
    uint64_t number = 0;        ///< in its input, from 1
    uint64_t timestamp_ns = 0;  ///< since the epoch, when it was received or captured
    std::string_view in_port;
    bool dropped = false;  ///< by this NF's decision on it
};

/// A counter that an NF reports; names are lower-case words joined with '-'.
struct Statistic {
    std::string name;
    uint64_t value = 0;
    std::string help;
};

/// By how many bytes a packet may grow.
struct Growth {
    uint32_t head = 0, tail = 0;
};

/// The CPU half of an NF, for one worker: the same function over a vector of packets, by the field's
/// best library. Gives byte-identical packets and equal decisions (outcome and detail), and tells all events,
/// also where the device half leaves them. Of an NF with an order it draws the tickets and commits itself, in order of
/// arrival.
class CpuHalf {
public:
    virtual ~CpuHalf() = default;
    /// Decides on `packets` (at most kCpuVector, in order of arrival) and changes their bytes.
    /// `decisions[i]` belongs to `packets[i]`. An NF with an order key takes its tickets (atomically:
    /// other workers take some too) and commits by itself, in the order of `packets`.
    virtual void process(std::span<Packet* const> packets, Decision* decisions) = 0;
};
inline constexpr size_t kCpuVector = 256;

/// Takes the packets that an NF punts, in place of the chain's punt port: the way to a controller.
class PuntTaker {
public:
    virtual ~PuntTaker() = default;
    /// Takes a packet, and owns it from then on; or has no room for it. `decision` is the NF's on it; of its detail a
    /// device brings back the lower 16 bits, and kNoDetail is none. Workers call it concurrently.
    virtual bool take(rte_mbuf* packet, const Decision& decision) = 0;
};

/// The host half of an NF: one object per node of a chain and generation. Its constructor reads the
/// options and throws ConfigError on any mistake.
class NetworkFunction {
public:
    virtual ~NetworkFunction() = default;

    /// The tables of this generation. Made once; constant afterwards.
    virtual const Image& image() const = 0;
    /// Most bytes that a packet can grow with these tables, where that is less than the type says.
    virtual Growth growth(const Growth& of_type) const { return of_type; }
    /// Fields that it reads and writes with these tables, where those are fewer than the type says.
    virtual Fields reads(Fields of_type) const { return of_type; }
    virtual Fields writes(Fields of_type) const { return of_type; }
    /// Whether `commit` of the device half may change anything with these tables. Where not, devices leave it out.
    virtual bool commits() const { return true; }
    /// Whether a device half that has Parts runs by these, with these tables, or by `process`.
    virtual bool runs_in_parts() const { return true; }
    /// Whether it does with these tables to a frame that is yet to be cut (Packet::segment_bytes) what it would do to
    /// each of the segments. It looks at no payload, no checksum of TCP or UDP, and none of the TCP flags that segments
    /// do not share (FIN, PSH, CWR); it writes headers that all have alike; and counts wire_frames and wire_bytes.
    virtual bool takes_uncut() const { return false; }
    /// A CPU half for one worker, or null where the device half serves the CPU too.
    virtual std::unique_ptr<CpuHalf> make_cpu_half() { return nullptr; }
    /// Most events that it emits about one packet.
    virtual size_t most_events() const { return 16; }
    /// Who tells all events of a packet where the first time there was no room for them (Packet::leave_events): its
    /// decisions do not count. Null: the device half does.
    virtual std::unique_ptr<CpuHalf> make_teller() { return make_cpu_half(); }
    /// Who takes the packets that this NF punts; null: they go to the chain's punt port.
    virtual PuntTaker* punt_taker() { return nullptr; }
    /// Whether an outcome that punts needs the chain's punt port: not where none of these tables gives it, or somebody
    /// else takes them.
    virtual bool needs_punt_port(uint32_t /*outcome*/) const { return true; }
    /// What led to a decision, for people: "rule 17 (edge.rules:17)". Empty when there is nothing to say.
    virtual std::string explain(const Decision&) const { return {}; }
    /// An event that the device half or the CPU half emitted. Called by one thread at a time, which is no worker's: it
    /// may allocate, lock and write. In order of arrival within a worker.
    virtual void on_event(const Event&, const PacketInfo&) {}
    /// Events have been told: lets others see what has become of them. Called by the thread that calls `on_event`, soon
    /// after the last one, and every now and then while there are always more.
    virtual void events_told() {}
    virtual std::vector<Statistic> statistics() const { return {}; }
    /// What it has now of a topic of `millrace show` ("neighbours", "routes", "sas", "flows"), `most` rows of it at
    /// most; nothing where it has no such table. Any thread, while the NF works.
    virtual std::optional<ShownTable> show(std::string_view /*topic*/, size_t /*most*/) const { return {}; }
    /// One or more lines on what was loaded ("1,016 rules, 312 KiB"), for `check` and `explain`.
    virtual std::string summary() const { return {}; }
    /// The device that ran it is gone, and with it all state that does not come back with batches. May be called more
    /// than once, by any worker; packets come after it.
    virtual void device_lost() {}
    /// Writes out what is buffered. Called at the end of a run. What it throws makes the run end badly.
    virtual void flush() {}
};

/// A device half compiled for the host with some number of lanes.
using ProcessFunction = Decision (*)(Packet&, const void* tables);
using OrderKeyFunction = uint32_t (*)(const Packet&, const void* tables);
using TicketsFunction = MutableView<uint64_t> (*)(const void* tables);
using CommitFunction = Decision (*)(Packet&, const void* tables, Decision);
using KeyedFunctionOfBurst = void (*)(std::span<Packet* const>, const void* tables, Decision*);
using ClaimFunction = uint32_t (*)(const void* tables, uint32_t& buckets);
using SweepFunction = void (*)(Packet& teller, const void* tables, uint32_t bucket, uint64_t now_ns);

/// The headers that device code may include, by the names by which it does.
using DeviceSources = std::map<std::string, std::string_view, std::less<>>;

/// A kind of NF.
struct Type {
    std::string name;                           ///< as in the YAML: "router"
    std::string summary;                        ///< one line
    std::vector<Outcome> outcomes;              ///< by `Decision::outcome`
    Fields reads, writes;                       ///< of the device half
    Fields cpu_reads, cpu_writes;               ///< of the CPU half; the same unless declared
    uint32_t head_growth = 0, tail_growth = 0;  ///< most bytes that a packet may grow at its head, at its tail
    unsigned lanes = 1;                         ///< preferred lanes per packet
    bool emits_events = false;  ///< then it changes neither packets nor state: it may be asked twice of a packet
    size_t note_bytes = 0;      ///< see Declaration
    bool has_cpu_half = false;
    bool shareable = false, shares_tables = false;  ///< see Declaration

    ProcessFunction process[3] = {};  ///< by kLaneCounts
    Parts parts;                      ///< of a device half that has them
    OrderKeyFunction order_key = nullptr;
    TicketsFunction tickets = nullptr;
    CommitFunction commit = nullptr;
    KeyedFunctionOfBurst run_keyed = nullptr;    ///< nf::run_keyed_burst, of an NF with state per key
    ClaimFunction claim = nullptr;               ///< KeyedState::claim, of such an NF
    SweepFunction sweep = nullptr;               ///< KeyedState::sweep_of; the bucket may be beyond the last one
    size_t wanted_bytes = 0, journal_bytes = 0;  ///< of such an NF: of nf::WantedOnDevice; of a packet's JournalRecords
    bool decides_ahead = false;                  ///< such an NF's packets may be decided on ahead of sequence
    bool reads_time = false, is_tenants = false;  ///< the latter: its device half is a tenant's (tenancy/gpu/confined)
    bool finishes = false;                        ///< the device half has `finish`
    uint32_t block_bytes = 0;                     ///< of a GPU block's shared memory
    bool block_is_constant = false;               ///< what is kept there is the same for whatever tables

    std::string device_header;               ///< as #include names it: "millrace/nf/router/device.hpp"
    std::string device_struct;               ///< "millrace::nf::router::Router"
    size_t tables_bytes = 0;                 ///< of its Tables
    std::string plugin;                      ///< the file that it came from; empty: built in
    const DeviceSources* sources = nullptr;  ///< its plugin's own headers; null: built in

    std::unique_ptr<NetworkFunction> (*create)(const Config& options, const Environment&) = nullptr;

    /// The device half for `lanes` lanes, one of kLaneCounts; null for any other number.
    ProcessFunction process_with(unsigned lane_count) const { return detail::of_lanes(process, lane_count); }
    bool in_parts() const { return parts.conclude != nullptr; }
    bool ordered() const { return order_key != nullptr; }
    bool numbered() const { return tickets != nullptr; }  ///< packets get tickets
    bool is_keyed() const { return sweep != nullptr; }    ///< it has state per key
    /// It has a `process` that runs for all packets at once, and a `commit` with state per key behind it.
    bool commits_keyed() const { return is_keyed() && commit != nullptr; }
};

/// Makes a kind known. Throws std::logic_error when the program has one of that name already.
void register_type(Type type);
/// The kinds that are built in, and those of plugins that the command line names (plugin.hpp).
const Type* find_type(std::string_view name);
std::vector<const Type*> all_types();

/// A source file that device code may include, embedded at build time: its #include name, and where its text lies. The
/// sources that cmake/MillraceNf.cmake makes declare this by themselves.
void register_device_source(const char* include_name, const char* begin, const char* end);
/// Among a plugin's own, if there are any, then the program's. Null when there is none of that name.
const std::string_view* find_device_source(std::string_view include_name, const DeviceSources* own = nullptr);

/// What an NF declares about itself besides its device half.
struct Declaration {
    std::string name;
    std::string summary;
    std::vector<Outcome> outcomes;
    std::string device_header;
    std::string device_struct;
    uint32_t head_growth = 0, tail_growth = 0;
    bool emits_events = false;  ///< by Packet::emit; only of an NF that changes neither packets nor state
    size_t note_bytes = 0;  ///< of each, where its events are pieces of notes (Packet::emit_note); it may keep state
    bool has_cpu_half = false;
    /// Nodes with equal options are one, and its tables exist once: it keeps no state, and does not look at its name or
    /// chain.
    bool shareable = false;
    /// A node is told of another one with equal options (Environment::twin), whose tables it may have, where its state
    /// is its own.
    bool shares_tables = false;
};

namespace detail {
template <class Device>
concept HasFinish = requires(Packet& packet, const typename Device::Tables& tables, Decision decision) {
    { Device::finish(packet, tables, decision) } -> std::same_as<Decision>;
};
template <class Device>
concept HasBlockMemory = requires { Device::block_bytes; };
template <class Device>
concept HasConstantBlock = requires { Device::block_is_constant; };

/// A host half that is one of several classes.
template <class Host>
concept HasFactory = requires(const Config& options, const Environment& environment) {
    { Host::create(options, environment) } -> std::same_as<std::unique_ptr<NetworkFunction>>;
};

template <class Device>
concept ReadsTime = requires { Device::reads_time; };

template <class Device, unsigned L>
Decision process(Packet& packet, const void* tables) {
    const auto& own = *static_cast<const typename Device::Tables*>(tables);
    if constexpr (HasKeyedState<Device> && !HasKeyedCommit<Device>) {
        return decltype(Device::Tables::state)::template decide<Device>(packet, own);
    } else {
        const Decision decision = Device::process(packet, own, Lanes<L>{});
        if constexpr (HasFinish<Device>) return Device::finish(packet, own, decision);
        return decision;
    }
}
template <class Device>
concept HasOrderKey = requires(const Packet& packet, const typename Device::Tables& tables) {
    { Device::order_key(packet, tables) } -> std::same_as<uint32_t>;
    { tables.tickets[0] } -> std::same_as<uint64_t&>;
};
template <class Device>
concept HasCommit = requires(Packet& packet, const typename Device::Tables& tables, Decision decision) {
    { Device::commit(packet, tables, decision) } -> std::same_as<Decision>;
};
template <class Device>
concept HasCpuFields = requires {
    Device::cpu_reads;
    Device::cpu_writes;
};
}  // namespace detail

/// Makes an NF known: a namespace-scope constant of this type in the NF's host.cpp. `Host` derives from
/// NetworkFunction, or has `static std::unique_ptr<NetworkFunction> create(const Config&, const Environment&)`.
template <class Device, class Host>
struct Register {
    explicit Register(Declaration declaration) {
        Type type;
        type.name = std::move(declaration.name);
        type.summary = std::move(declaration.summary);
        type.outcomes = std::move(declaration.outcomes);
        type.device_header = std::move(declaration.device_header);
        type.device_struct = std::move(declaration.device_struct);
        type.head_growth = declaration.head_growth;
        type.tail_growth = declaration.tail_growth;
        type.emits_events = declaration.emits_events;
        type.note_bytes = declaration.note_bytes;
        type.has_cpu_half = declaration.has_cpu_half;
        type.shareable = declaration.shareable;
        type.shares_tables = declaration.shares_tables;
        type.reads = type.cpu_reads = Device::reads;
        type.writes = type.cpu_writes = Device::writes;
        if constexpr (detail::HasCpuFields<Device>) {
            type.cpu_reads = Device::cpu_reads;
            type.cpu_writes = Device::cpu_writes;
        }
        type.lanes = Device::lanes;
        type.tables_bytes = sizeof(typename Device::Tables);
        type.finishes = detail::HasFinish<Device>;
        if constexpr (detail::HasBlockMemory<Device>) type.block_bytes = Device::block_bytes;
        if constexpr (detail::HasConstantBlock<Device>) type.block_is_constant = Device::block_is_constant;
        type.process[0] = detail::process<Device, 1>;
        type.process[1] = detail::process<Device, 8>;
        type.process[2] = detail::process<Device, 32>;
        static_assert(!(detail::HasParts<Device> && detail::HasFinish<Device>), "such ends with conclude()");
        type.parts = parts_of<Device>();
        if constexpr (detail::ReadsTime<Device>) type.reads_time = Device::reads_time;
        if constexpr (detail::HasKeyedState<Device>) set_keyed(type);
        if constexpr (detail::HasOrderKey<Device>) {
            type.order_key = [](const Packet& packet, const void* tables) {
                return Device::order_key(packet, *static_cast<const typename Device::Tables*>(tables));
            };
            type.tickets = [](const void* tables) {
                return static_cast<const typename Device::Tables*>(tables)->tickets;
            };
        }
        if constexpr (detail::HasCommit<Device>) {
            static_assert(detail::HasOrderKey<Device>, "a device half with commit() needs order_key()");
            type.commit = [](Packet& packet, const void* tables, Decision decision) {
                return Device::commit(packet, *static_cast<const typename Device::Tables*>(tables), decision);
            };
        }
        type.create = [](const Config& options, const Environment& environment) -> std::unique_ptr<NetworkFunction> {
            if constexpr (detail::HasFactory<Host>) return Host::create(options, environment);
            else return std::make_unique<Host>(options, environment);
        };
        register_type(std::move(type));
    }

private:
    static void set_keyed(Type& type) {
        using Tables = typename Device::Tables;
        static const auto own = [](const void* all) -> const Tables& { return *static_cast<const Tables*>(all); };
        type.reads_time = true;
        type.wanted_bytes = sizeof(typename WantedOnDevice<Device>::Type);
        type.journal_bytes = decltype(Device::Tables::state)::template journal_bytes<Device>();
        type.decides_ahead = DecidesAhead<Device> && !detail::HasKeyedCommit<Device> && !type.emits_events;
        type.order_key = [](const Packet& packet, const void* tables) {
            Wanted<Device> wanted;
            return decltype(Device::Tables::state)::order_key(packet, own(tables), wanted);
        };
        type.run_keyed = [](std::span<Packet* const> packets, const void* tables, Decision* decisions) {
            run_keyed_burst<Device, detail::HasKeyedCommit<Device>>(packets, own(tables), decisions);
        };
        type.claim = [](const void* tables, uint32_t& buckets) { return own(tables).state.claim(buckets); };
        type.sweep = [](Packet& teller, const void* tables, uint32_t bucket, uint64_t now_ns) {
            decltype(Device::Tables::state)::template sweep_of<Device>(teller, own(tables), bucket, now_ns);
        };
        if constexpr (detail::HasKeyedCommit<Device>)
            type.commit = [](Packet& packet, const void* tables, Decision decision) {
                return decltype(Device::Tables::state)::template decide<Device>(packet, own(tables), decision);
            };
    }
};

}  // namespace millrace::nf
