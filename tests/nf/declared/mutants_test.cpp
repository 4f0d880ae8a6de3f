// The product's own network functions, each made to break one promise: the check of declarations finds all of them.
#include <gtest/gtest.h>

#include <algorithm>
#include <bit>
#include <optional>
#include <set>

#include "millrace/nftest/golden.hpp"
#include "millrace/nftest/packets/field_map.hpp"
#include "millrace/nftest/packets/packet_builder.hpp"
#include "support/data.hpp"

namespace millrace::test {
namespace {

enum class Mutation : uint8_t { none, read, write, outcome, read_beyond, write_beyond };

/// The function at work, and what it does besides. Device halves are plain functions, so it is one for the program.
struct Mutant {
    const nf::Type* original = nullptr;
    Mutation mutation = Mutation::none;
    Fields tried;  ///< fields that have had their turn
    // Of the newest instance:
    nf::NetworkFunction* instance = nullptr;
    Fields field;                 ///< that it reads or writes
    std::optional<uint8_t> seen;  ///< of the field, in the packet at work
} mutant;

bool moves_ends(const nf::Type& type) { return type.writes.overlaps(field::length); }

constexpr size_t kNowhere = SIZE_MAX;

std::unique_ptr<nf::NetworkFunction> create(const Config& options, const nf::Environment& environment) {
    auto made = mutant.original->create(options, environment);
    mutant.instance = made.get();
    mutant.field = field::none;
    return made;
}

/// What the newest instance may not do to a packet, reading or writing. Whoever moves an end of the frame has all of
/// it.
Fields not_declared(bool writes) {
    const Fields written = mutant.instance->writes(mutant.original->writes);
    if (written.overlaps(field::length)) return field::none;
    return field::everything - (writes ? written : mutant.instance->reads(mutant.original->reads));
}

/// A byte of the mutant's field alone, from the packet's first, or kNowhere. An instance takes a field of its first
/// packet that has not had its turn.
size_t byte_of_field(const Packet& packet, Fields candidates) {
    const nftest::Frame frame(packet.data(), packet.data() + packet.length());
    const std::vector<Fields> map = nftest::fields_of_bytes(frame, packet.layers());
    for (size_t i = 0; i < map.size() && mutant.field.empty(); ++i)
        if (std::has_single_bit(map[i].bits) && (candidates - mutant.tried).contains(map[i]))
            mutant.tried |= mutant.field = map[i];
    const auto at = std::ranges::find(map, mutant.field);
    return at != map.end() ? static_cast<size_t>(at - map.begin()) : kNowhere;
}

/// The first byte that is not the packet's: behind it, or before the room that it may grow into.
uint8_t& byte_beyond(Packet& packet) {
    return moves_ends(*mutant.original) ? packet.data()[-1 - static_cast<int64_t>(packet.headroom())]
                                        : packet.data()[packet.length()];
}

Decision mutate(Packet& packet, Decision decision) {
    switch (mutant.mutation) {
        case Mutation::read: decision.detail = mutant.seen.value_or(decision.detail); break;
        case Mutation::outcome: decision.outcome = static_cast<uint32_t>(mutant.original->outcomes.size()); break;
        case Mutation::read_beyond: decision.detail = byte_beyond(packet); break;
        case Mutation::write_beyond: byte_beyond(packet) = 1; break;
        default: break;
    }
    return decision;
}

template <unsigned L>
Decision process(Packet& packet, const void* tables) {
    const bool reads = mutant.mutation == Mutation::read, writes = mutant.mutation == Mutation::write;
    const size_t at = reads || writes ? byte_of_field(packet, not_declared(writes)) : kNowhere;
    mutant.seen.reset();
    if (at != kNowhere) mutant.seen = packet.data()[at];
    const Decision decision = mutant.original->process_with(L)(packet, tables);
    if (at != kNowhere && writes) packet.data()[at] ^= 1;
    return mutant.original->commit == nullptr ? mutate(packet, decision) : decision;
}

Decision commit(Packet& packet, const void* tables, Decision decision) {
    return mutate(packet, mutant.original->commit(packet, tables, decision));
}

/// What the check says of a function over its own golden packets; what the table itself expects is left out.
std::multiset<std::string> findings(const nf::Type& original, Mutation mutation, Fields tried = {}) {
    mutant = {.original = &original, .mutation = mutation, .tried = tried};
    nf::Type type = original;
    type.create = create;
    type.process[0] = process<nf::kLaneCounts[0]>;
    type.process[1] = process<nf::kLaneCounts[1]>;
    type.process[2] = process<nf::kLaneCounts[2]>;
    if (type.commit != nullptr) type.commit = commit;
    nftest::GoldenOptions options;
    options.halves = {{type.lanes}};
    options.output_folder = testing::TempDir();
    options.checked = true;
    const std::string path = source_path("src/millrace/nf/" + type.name + "/golden.yaml");
    std::multiset<std::string> found;
    for (const Diagnostic& failure : nftest::run_golden(type, path, options).failures)
        if (const size_t at = failure.message.find(type.name + ", packet 1: "); at != std::string::npos)
            found.insert(std::to_string(failure.where.line) + ": " + failure.message.substr(at));
    return found;
}

/// Expects that what was found ends with these words somewhere, and that each thing is told once for a packet of the
/// table.
void expect_found(const nf::Type& type, const std::multiset<std::string>& found, const std::string& words) {
    size_t so = 0;
    for (const std::string& one : found) {
        so += one.ends_with(words) ? 1 : 0;
        EXPECT_EQ(found.count(one), 1u) << one;
    }
    EXPECT_GT(so, 0u) << type.name << ": nothing says '" << words << "' of " << found.size() << " findings";
}
void expect_found(const nf::Type& type, Mutation mutation, const std::string& words) {
    expect_found(type, findings(type, mutation), words);
}

/// A checksum, a cipher and a tunnel are of whole frames; rules of the NIDS may look anywhere, and so does who follows
/// what ICMP errors quote, or makes some.
const std::set<std::string> kReadAll = {"crc", "ipsec", "nat", "nat64", "nids", "reject", "tunnel"};
/// Whose every instance puts bytes before a frame or takes some away, and so writes all that lies in it.
const std::set<std::string> kWriteAll = {"ipsec", "nat64", "reject", "tunnel"};

class Mutants : public testing::TestWithParam<std::string> {
protected:
    const nf::Type& type() const { return *nf::find_type(GetParam()); }
    /// Finds the mutants for all fields that are not declared and that packets of the table have; expects some, unless
    /// every instance may touch all.
    void expect_all_found(Mutation mutation, bool may_touch_all) const {
        const std::string verb = mutation == Mutation::write ? "it writes " : "it reads ";
        Fields tried;
        while (true) {
            const auto found = findings(type(), mutation, tried);
            if (mutant.tried == tried) break;
            for (unsigned bit = 0; bit < kFieldCount; ++bit)
                if ((mutant.tried - tried).overlaps({1u << bit}))
                    expect_found(type(), found, verb + kFieldNames[bit] + " and does not declare it");
            tried = mutant.tried;
        }
        EXPECT_EQ(tried.empty(), may_touch_all) << std::popcount(tried.bits) << " fields were tried";
    }
};

TEST_P(Mutants, ThatBreakNoPromiseAreLeftAlone) {
    for (const std::string& one : findings(type(), Mutation::none)) ADD_FAILURE() << one;
}

TEST_P(Mutants, ThatReadAFieldAreFound) { expect_all_found(Mutation::read, kReadAll.contains(GetParam())); }

TEST_P(Mutants, ThatWriteAFieldAreFound) { expect_all_found(Mutation::write, kWriteAll.contains(GetParam())); }

TEST_P(Mutants, ThatDecideWhatIsNotDeclaredAreFound) {
    expect_found(type(), Mutation::outcome, "outcome " + std::to_string(type().outcomes.size()) + " is not declared");
}

TEST_P(Mutants, ThatLeaveThePacketAreFound) {
#if defined(__SANITIZE_ADDRESS__)
    if (moves_ends(type())) GTEST_SKIP() << "the sanitizer itself ends a program that leaves a frame's rooms";
#endif
    expect_found(type(), Mutation::read_beyond, "what it does depends on bytes beyond the packet");
    expect_found(type(), Mutation::write_beyond, "it writes beyond the packet");
}

std::vector<std::string> shipped() {
    std::vector<std::string> names;
    for (const nf::Type* type : nf::all_types())
        if (type->device_header.starts_with("millrace/")) names.push_back(type->name);
    return names;
}

INSTANTIATE_TEST_SUITE_P(OfShippedFunctions, Mutants, testing::ValuesIn(shipped()),
                         [](const auto& info) { return info.param; });

}  // namespace
}  // namespace millrace::test
