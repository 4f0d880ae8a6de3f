#include "millrace/nf/nids/pattern/filter_builder.hpp"

#include <algorithm>
#include <bit>
#include <numeric>
#include <span>
#include <string_view>

namespace millrace::nf::nids::pattern {
namespace {

constexpr size_t kWindow = 4;           // bytes that the filter looks at
constexpr size_t kShortest = 3;         // a pattern of three bytes passes with any fourth one
constexpr size_t kMaxMore = 8;          // bytes that a branch has behind its key
constexpr size_t kPlacesPerBranch = 4;  // at least: a look-up waits for each place that it finds taken

using Strings = std::vector<std::string>;

Strings distinct_folded(const Strings& patterns) {
    Strings distinct = patterns;
    for (std::string& pattern : distinct)
        for (char& c : pattern) c = static_cast<char>(fold(static_cast<uint8_t>(c)));
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    return distinct;
}

/// Up to four bytes as device code sees them.
uint32_t packed(std::string_view bytes) {
    uint32_t word = 0;
    for (size_t i = 0; i < bytes.size(); ++i) word |= static_cast<uint32_t>(static_cast<uint8_t>(bytes[i])) << (8 * i);
    return word;
}

/// What the hashes of the patterns' first bytes set.
class BitsBuilder {
public:
    void add(std::string_view pattern) {
        const uint32_t window = packed(pattern.substr(0, kWindow));
        if (pattern.size() >= kWindow) return set(window);
        for (uint32_t last = 0; last < 256; ++last) set(window | last << 24);
    }
    uint32_t count() const {
        return std::accumulate(bits_.begin(), bits_.end(), 0u, [](uint32_t sum, uint32_t word) {
            return sum + static_cast<uint32_t>(std::popcount(word));
        });
    }
    std::vector<uint32_t> take() { return std::move(bits_); }

private:
    void set(uint32_t window) {
        const uint32_t folded = detail::roughly_folded(window);
        bits_[detail::filter_offset(folded) / sizeof(uint32_t)] |= 1u << (folded & detail::kFilterBit) |
                                                                   1u << (folded >> 8 & detail::kFilterBit);
    }
    std::vector<uint32_t> bits_ = std::vector<uint32_t>(kFilterWords);
};

/// Builds the tree of the patterns, which are sorted and distinct.
class TreeBuilder {
public:
    TreeBuilder(const Strings& patterns, const Automaton& automaton) : automaton_(automaton) {
        std::vector<std::string_view> all(patterns.begin(), patterns.end());
        root_sizes_ = open({0, 0, std::move(all)});
        // A list and not calls of calls: patterns may be long.
        while (!open_.empty()) {
            const Node node = std::move(open_.back());
            open_.pop_back();
            add_branches(node);
        }
    }
    const std::vector<Branch>& branches() const { return branches_; }
    uint32_t root_sizes() const { return root_sizes_; }

private:
    struct Node {
        uint32_t number = 0;
        size_t depth = 0;
        std::vector<std::string_view> patterns;  ///< that lead on behind it, sorted
    };

    /// Leaves a node with patterns for later; the sizes of its keys.
    uint16_t open(Node node) {
        uint32_t sizes = 0;
        for (const std::string_view pattern : node.patterns)
            sizes |= 1u << (std::min(pattern.size() - node.depth, kWindow) - 1);
        if (sizes != 0) open_.push_back(std::move(node));
        return static_cast<uint16_t>(sizes);
    }

    void add_branches(const Node& node) {
        std::vector<std::string_view> longer;
        for (const std::string_view pattern : node.patterns) {
            if (pattern.size() - node.depth >= kWindow) {
                longer.push_back(pattern);
            } else {
                branches_.push_back(branch(node, pattern));
                branches_.back().match = match_of(pattern);
            }
        }
        for (auto begin = longer.begin(); begin != longer.end();) {
            const std::string_view key = begin->substr(node.depth, kWindow);
            const auto end = std::find_if(
                begin, longer.end(), [&](std::string_view other) { return other.substr(node.depth, kWindow) != key; });
            add_group(node, {begin, end});
            begin = end;
        }
    }

    /// Adds the branch of patterns whose next four bytes are the same.
    void add_group(const Node& node, std::span<const std::string_view> group) {
        const size_t behind_key = node.depth + kWindow;
        Branch own = branch(node, group.front());
        // Sorted: what the first and the last have in common all have. The first is the shortest of those that end on
        // the way.
        const auto differ = std::mismatch(group.front().begin(), group.front().end(), group.back().begin(),
                                          group.back().end());
        const size_t common = static_cast<size_t>(differ.first - group.front().begin());
        const std::string_view more = group.front().substr(behind_key, std::min(common - behind_key, kMaxMore));
        own.more[0] = packed(more.substr(0, 4));
        if (more.size() > 4) own.more[1] = packed(more.substr(4));
        own.more_bytes = static_cast<uint16_t>(more.size());
        const size_t depth = behind_key + more.size();
        if (group.front().size() == depth) {
            own.match = match_of(group.front());
            group = group.subspan(1);
        }
        own.node = ++nodes_;
        own.sizes = open({own.node, depth, {group.begin(), group.end()}});
        branches_.push_back(own);
    }

    static Branch branch(const Node& node, std::string_view pattern) {
        const std::string_view key = pattern.substr(node.depth, kWindow);
        Branch own;
        own.from = detail::branch_from(node.number, static_cast<uint32_t>(key.size()));
        own.key = packed(key);
        return own;
    }
    uint32_t match_of(std::string_view pattern) const {
        return automaton_.state_behind(pattern) - automaton_.first_match;
    }

    const Automaton& automaton_;
    std::vector<Node> open_;
    std::vector<Branch> branches_;
    uint32_t nodes_ = 0;
    uint32_t root_sizes_ = 0;
};

/// The branches where device code looks for them.
std::vector<Branch> hashed(const std::vector<Branch>& branches, uint32_t& shift) {
    const size_t places = std::bit_ceil(std::max<size_t>(kPlacesPerBranch * branches.size(), 2));
    shift = 32 - static_cast<uint32_t>(std::countr_zero(places));
    std::vector<Branch> table(places);
    for (const Branch& branch : branches) {
        size_t place = detail::branch_place(branch.from, branch.key, shift);
        while (table[place].from != kNoBranch) place = (place + 1) % places;
        table[place] = branch;
    }
    return table;
}

/// Whether it begins with four equal bytes, and another one follows.
bool leaves_a_run(std::string_view pattern) {
    const size_t run = std::min(pattern.find_first_not_of(pattern.front()), pattern.size());
    return run >= kWindow && run < pattern.size();
}

}  // namespace

Filter build_filter(const std::vector<std::string>& patterns, const Automaton& automaton) {
    const Strings distinct = distinct_folded(patterns);
    BitsBuilder bits;
    for (const std::string& pattern : distinct) {
        if (pattern.size() < kShortest) return {};
        bits.add(pattern);
    }
    if (distinct.empty() || bits.count() > kMaxFilterBits) return {};
    const TreeBuilder tree(distinct, automaton);
    Filter filter;
    filter.sizes = tree.root_sizes();
    for (const std::string& pattern : distinct) {
        const auto first = static_cast<uint8_t>(pattern.front());
        if (pattern.size() < kWindow) filter.short_begins[first / 32] |= 1u << first % 32;
    }
    filter.skips_runs = std::none_of(distinct.begin(), distinct.end(), leaves_a_run);
    filter.branches = std::make_shared<const std::vector<Branch>>(hashed(tree.branches(), filter.shift));
    filter.bits = std::make_shared<const std::vector<uint32_t>>(bits.take());
    return filter;
}

}  // namespace millrace::nf::nids::pattern
