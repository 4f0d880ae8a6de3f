// Journals of several batches that are applied at the same time, and in any order: what is left is what the device has.
#include <gtest/gtest.h>

#include <algorithm>
#include <atomic>
#include <cstring>
#include <random>
#include <thread>
#include <vector>

#include "millrace/nf/state/journal_copy.hpp"

namespace millrace::test {
namespace {

using nf::JournalRecord;

struct Group {
    uint64_t used;
    uint64_t slots[6];
    friend bool operator==(const Group&, const Group&) = default;
};
constexpr nf::KeptParts kParts[] = {{0, 8, 1}, {8, 8, 6}};
using State = nf::KeyedState<uint32_t, Group>;
using Copy = nf::JournalCopy<State>;

constexpr uint32_t kPlaces = 5;

/// What a device has in a place.
struct Place {
    bool is_there = false;
    uint32_t key = 0;
    Group value{};
    friend bool operator==(const Place&, const Place&) = default;
};

/// Random batches on few places, one after the other, with what each writes down.
struct History {
    std::vector<Place> places = std::vector<Place>(kPlaces);
    std::vector<std::vector<uint8_t>> journals;

    History(unsigned batches, uint32_t seed) {
        std::mt19937 random(seed);
        for (unsigned batch = 0; batch < batches; ++batch) {
            journals.emplace_back();
            for (unsigned left = random() % 12; left > 0; --left)
                step(static_cast<uint32_t>(random() % kPlaces), random);
        }
    }

private:
    void step(uint32_t number, std::mt19937& random) {
        Place& place = places[number];
        const uint32_t what = random() % 8;
        if (!place.is_there || what == 0) {
            place = {true, static_cast<uint32_t>(random()), {}};
            write(JournalRecord::fresh, number, 0, &place.key, sizeof place.key);
        } else if (what == 1) {
            place = {};
            write(JournalRecord::freed, number, 0, nullptr, 0);
        } else {
            const uint32_t part = random() % 7;  // the first is `used`
            uint64_t& word = part == 0 ? place.value.used : place.value.slots[part - 1];
            word = random();
            write(JournalRecord::part, number, JournalRecord::part_at(part * 8, 8), &word, sizeof word);
        }
    }
    void write(JournalRecord::Kind kind, uint32_t place, uint64_t more, const void* data, uint32_t bytes) {
        std::vector<uint8_t>& journal = journals.back();
        const size_t at = journal.size();
        journal.resize(at + JournalRecord::bytes_with(bytes));
        const JournalRecord record{3, kind, place, more};
        std::memcpy(journal.data() + at, &record, sizeof record);
        if (bytes != 0) std::memcpy(journal.data() + at + sizeof record, data, bytes);
    }
};

/// What the host makes of it.
struct Host {
    std::shared_ptr<ZeroPageVector<uint32_t>> tags = std::make_shared<ZeroPageVector<uint32_t>>(kPlaces);
    std::shared_ptr<ZeroPageVector<State::Entry>> entries = std::make_shared<ZeroPageVector<State::Entry>>(kPlaces);
    Copy copy{tags, entries, 1};

    Host() { copy.keep_parts(kParts); }
    bool apply(const std::vector<uint8_t>& journal, uint64_t batch) {
        const auto bytes = static_cast<uint32_t>(journal.size());
        return copy.apply(journal.data(), bytes, 3, batch) == bytes;
    }
    std::vector<Place> places() const {
        std::vector<Place> all(kPlaces);
        for (uint32_t i = 0; i < kPlaces; ++i)
            if ((*tags)[i] != 0) all[i] = {true, (*entries)[i].key, (*entries)[i].value};
        return all;
    }
};

class JournalOrder : public testing::TestWithParam<unsigned> {};
INSTANTIATE_TEST_SUITE_P(OfBatches, JournalOrder, testing::Values(1, 2, 3, 31, 32, 33, 1000),
                         [](const auto& info) { return std::to_string(info.param); });

/// Numbers begin at `first`.
TEST_P(JournalOrder, IsThatOfTheBatchesHoweverTheyCome) {
    for (uint32_t seed = 0; seed < 30; ++seed)
        for (const uint64_t first : {uint64_t{1}, (uint64_t{1} << 32) - 20}) {
            const History history(GetParam(), seed);
            std::vector<size_t> order(history.journals.size());
            for (size_t i = 0; i < order.size(); ++i) order[i] = i;
            std::mt19937 random(seed);
            constexpr size_t kInFlight = 24;
            for (size_t i = 0; i < order.size(); i += kInFlight / 2)
                std::shuffle(order.begin() + static_cast<std::ptrdiff_t>(i),
                             order.begin() + static_cast<std::ptrdiff_t>(std::min(i + kInFlight, order.size())),
                             random);
            Host host;
            for (const size_t i : order) ASSERT_TRUE(host.apply(history.journals[i], first + i));
            ASSERT_EQ(host.places(), history.places) << "seed " << seed << ", numbers from " << first;
        }
}

TEST_P(JournalOrder, IsThatOfTheBatchesAmongWorkers) {
    for (uint32_t seed = 0; seed < 10; ++seed) {
        const History history(GetParam(), seed);
        Host host;
        std::atomic<size_t> next{0};
        std::atomic<bool> all{true};
        {
            std::vector<std::jthread> workers;
            for (unsigned i = 0; i < 4; ++i)
                workers.emplace_back([&] {
                    for (size_t own; (own = next++) < history.journals.size();)
                        if (!host.apply(history.journals[own], own + 1)) all = false;
                });
        }
        ASSERT_TRUE(all);
        ASSERT_EQ(host.places(), history.places) << "seed " << seed;
    }
}

}  // namespace
}  // namespace millrace::test
