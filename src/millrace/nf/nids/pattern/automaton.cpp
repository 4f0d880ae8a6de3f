#include "millrace/nf/nids/pattern/automaton.hpp"

#include <algorithm>
#include <array>
#include <numeric>
#include <stdexcept>
#include <string_view>

namespace millrace::nf::nids::pattern {
namespace {

std::string folded(std::string_view pattern) {
    std::string result(pattern);
    for (char& c : result) c = static_cast<char>(fold(static_cast<uint8_t>(c)));
    return result;
}

/// The tree of all pattern prefixes, nodes breadth first; the children of a node are neighbours and
/// ascend by byte.
struct Trie {
    struct Node {
        uint32_t parent = 0;
        uint32_t first_child = 0;
        uint32_t child_count = 0;
        uint32_t depth = 0;
        uint32_t suffix = 0;            ///< node of its longest proper suffix in the tree
        uint32_t pattern = kNoPattern;  ///< index of the distinct pattern that ends here
        uint8_t byte = 0;               ///< that leads here from its parent
    };
    std::vector<Node> nodes;

    /// The child of `node` by `byte`, or 0.
    uint32_t child(uint32_t node, uint8_t byte) const {
        const Node& n = nodes[node];
        const auto begin = nodes.begin() + n.first_child;
        const auto end = begin + n.child_count;
        const auto found = std::lower_bound(begin, end, byte, [](const Node& c, uint8_t b) { return c.byte < b; });
        return found != end && found->byte == byte ? static_cast<uint32_t>(found - nodes.begin()) : 0;
    }
};

/// `distinct` is sorted: a pattern shares nodes with its predecessor as far as both are equal, and makes
/// new ones behind.
Trie make_trie(const std::vector<std::string>& distinct) {
    std::vector<Trie::Node> depth_first(1);
    std::vector<uint32_t> path{0};
    for (uint32_t i = 0; i < distinct.size(); ++i) {
        const std::string& pattern = distinct[i];
        const std::string_view before = i == 0 ? std::string_view{} : std::string_view(distinct[i - 1]);
        const auto differ = std::mismatch(before.begin(), before.end(), pattern.begin(), pattern.end());
        const size_t shared = differ.first - before.begin();
        path.resize(shared + 1);
        for (size_t k = shared; k < pattern.size(); ++k) {
            Trie::Node node;
            node.parent = path.back();
            node.depth = static_cast<uint32_t>(k + 1);
            node.byte = static_cast<uint8_t>(pattern[k]);
            path.push_back(static_cast<uint32_t>(depth_first.size()));
            depth_first.push_back(node);
        }
        depth_first[path.back()].pattern = i;
    }
    // Depth first in byte order, sorted by depth and otherwise left in place, is breadth first.
    std::vector<uint32_t> order(depth_first.size());
    std::iota(order.begin(), order.end(), 0u);
    std::stable_sort(order.begin(), order.end(),
                     [&](uint32_t a, uint32_t b) { return depth_first[a].depth < depth_first[b].depth; });
    std::vector<uint32_t> place(order.size());
    for (uint32_t i = 0; i < order.size(); ++i) place[order[i]] = i;
    Trie trie;
    trie.nodes.reserve(order.size());
    for (uint32_t i = 0; i < order.size(); ++i) {
        Trie::Node node = depth_first[order[i]];
        node.parent = place[node.parent];
        trie.nodes.push_back(node);
        if (i == 0) continue;
        Trie::Node& parent = trie.nodes[node.parent];
        if (parent.child_count++ == 0) parent.first_child = i;
    }
    return trie;
}

/// Aho and Corasick's failure function (algorithm 3): what of the text read so far may still be the
/// beginning of a pattern when the tree has no way on.
void link_suffixes(Trie& trie) {
    for (uint32_t i = 1; i < trie.nodes.size(); ++i) {
        Trie::Node& node = trie.nodes[i];
        if (node.parent == 0) continue;
        uint32_t suffix = trie.nodes[node.parent].suffix;
        uint32_t target = trie.child(suffix, node.byte);
        while (target == 0 && suffix != 0) {
            suffix = trie.nodes[suffix].suffix;
            target = trie.child(suffix, node.byte);
        }
        node.suffix = target;
    }
}

/// Numbers the bytes that occur in patterns; all others share one class. Classes that ordinary traffic
/// uses most come first, so that a row's busy entries share its first cache line.
uint32_t number_classes(const std::vector<std::string>& distinct, std::vector<uint8_t>& class_of) {
    std::array<bool, 256> used{};
    for (const std::string& pattern : distinct)
        for (const char c : pattern) used[static_cast<uint8_t>(c)] = true;
    uint32_t count = 0;
    std::array<int, 256> number;
    number.fill(-1);
    const auto give = [&](uint8_t byte) {
        if (used[byte] && number[byte] < 0) number[byte] = static_cast<int>(count++);
    };
    constexpr std::string_view kBusy("etaoinsrlcdpumhgfb ./\"=-<>vwky0123\0x:;\r\n", 40);
    for (const char c : kBusy) give(static_cast<uint8_t>(c));
    const bool rest = std::any_of(used.begin(), used.end(), [](bool u) { return !u; });
    const uint32_t other = count;
    if (rest) ++count;
    for (unsigned byte = 0x20; byte < 0x7f; ++byte) give(static_cast<uint8_t>(byte));
    for (unsigned byte = 0; byte < 256; ++byte) give(static_cast<uint8_t>(byte));
    class_of.resize(256);
    for (unsigned byte = 0; byte < 256; ++byte) {
        const int own = number[fold(static_cast<uint8_t>(byte))];
        class_of[byte] = static_cast<uint8_t>(own < 0 ? other : static_cast<uint32_t>(own));
    }
    return count;
}

/// The numbers of the trie's nodes as states: states without output first, each kind breadth first.
/// `match_of[node]` is the match whose patterns end in it, or kNoPattern.
struct Numbering {
    std::vector<uint32_t> state_of;
    std::vector<uint32_t> node_of_match;
    uint32_t first_match = 0;
};

Numbering number_states(const Trie& trie) {
    Numbering numbering;
    const size_t count = trie.nodes.size();
    std::vector<bool> matches(count);
    for (size_t i = 1; i < count; ++i) {
        const Trie::Node& node = trie.nodes[i];
        matches[i] = node.pattern != kNoPattern || matches[node.suffix];
        if (matches[i]) numbering.node_of_match.push_back(static_cast<uint32_t>(i));
    }
    numbering.first_match = static_cast<uint32_t>(count - numbering.node_of_match.size());
    numbering.state_of.resize(count);
    uint32_t plain = 0;
    uint32_t match = numbering.first_match;
    for (size_t i = 0; i < count; ++i) numbering.state_of[i] = matches[i] ? match++ : plain++;
    return numbering;
}

/// Fills the rows breadth first: a node's row is its suffix's row, but for its own children.
template <class Entry>
LargePageVector<Entry> fill_rows(const Trie& trie, const Numbering& numbering, const std::vector<uint8_t>& class_of,
                                 uint32_t stride) {
    LargePageVector<Entry> next(trie.nodes.size() * stride + kTablePadding);
    for (uint32_t i = 0; i < trie.nodes.size(); ++i) {
        const Trie::Node& node = trie.nodes[i];
        Entry* row = next.data() + static_cast<size_t>(numbering.state_of[i]) * stride;
        const Entry* suffix_row = next.data() + static_cast<size_t>(numbering.state_of[node.suffix]) * stride;
        if (i != 0) std::copy_n(suffix_row, stride, row);
        for (uint32_t c = node.first_child; c < node.first_child + node.child_count; ++c)
            row[class_of[trie.nodes[c].byte]] = static_cast<Entry>(numbering.state_of[c]);
    }
    return next;
}

template <class T, class Allocator>
std::shared_ptr<const std::vector<T, Allocator>> share(std::vector<T, Allocator> values) {
    return std::make_shared<const std::vector<T, Allocator>>(std::move(values));
}

/// By bytes: the lowest states at least so deep. Those in which no pattern ends come first, the others from
/// `first_match` on; each kind is in order of depth.
std::vector<Level> levels_of(const std::vector<uint32_t>& depth, uint32_t first_match) {
    const auto behind = depth.begin() + first_match;
    const auto lowest = [&](auto from, auto to, uint32_t deep) {
        return static_cast<uint32_t>(std::lower_bound(from, to, deep) - depth.begin());
    };
    std::vector<Level> levels;
    for (uint32_t deep = 0; levels.empty() || levels.back().plain < first_match || levels.back().match < depth.size();
         ++deep)
        levels.push_back({lowest(depth.begin(), behind, deep), lowest(behind, depth.end(), deep)});
    return levels;
}

/// `ids[i]`: the ids of distinct pattern i.
void fill_outputs(const Trie& trie, const Numbering& numbering, const std::vector<std::vector<uint32_t>>& ids,
                  Automaton& automaton) {
    std::vector<uint32_t> begin, output;
    for (const uint32_t i : numbering.node_of_match) {
        const Trie::Node& node = trie.nodes[i];
        begin.push_back(static_cast<uint32_t>(output.size()));
        if (node.pattern != kNoPattern) output.insert(output.end(), ids[node.pattern].begin(), ids[node.pattern].end());
        const uint32_t suffix = numbering.state_of[node.suffix];
        automaton.output_link.push_back(suffix >= numbering.first_match ? suffix - numbering.first_match : kNoPattern);
    }
    begin.push_back(static_cast<uint32_t>(output.size()));
    automaton.output_begin = share(std::move(begin));
    automaton.output_ids = share(std::move(output));
}

/// Sorts outputs into common and rare. Matches are in order of length: the first ones are the shortest.
void fill_matches(Automaton& automaton) {
    const std::vector<uint32_t>& begin = *automaton.output_begin;
    const std::vector<uint32_t>& ids = *automaton.output_ids;
    uint32_t common_matches = 0;
    while (common_matches < automaton.match_count() && begin[common_matches + 1] <= kCommonIds) ++common_matches;
    std::vector<uint32_t> common(ids.begin(), ids.begin() + begin[common_matches]);
    std::sort(common.begin(), common.end());
    std::vector<Match> matches(automaton.match_count());
    for (uint32_t m = 0; m < matches.size(); ++m) {
        const uint32_t link = automaton.output_link[m];
        const Match suffix = link == kNoPattern ? Match{} : matches[link];
        matches[m] = {suffix.common, suffix.rare, suffix.rare, suffix.only_rare};
        if (m >= common_matches) {
            if (begin[m] == begin[m + 1]) continue;
            matches[m].rare = m;
            matches[m].only_rare = suffix.rare == kNoPattern && begin[m] + 1 == begin[m + 1] ? ids[begin[m]]
                                                                                             : kNoPattern;
            continue;
        }
        for (uint32_t i = begin[m]; i < begin[m + 1]; ++i)
            matches[m].common |= uint64_t{1}
                                 << (std::lower_bound(common.begin(), common.end(), ids[i]) - common.begin());
    }
    automaton.matches = share(std::move(matches));
    automaton.common_ids = share(std::move(common));
}

}  // namespace

uint32_t Automaton::state_behind(std::string_view text) const {
    uint32_t state = 0;
    for (const char c : text) {
        const size_t entry = static_cast<size_t>(state) * stride + (*class_of)[static_cast<uint8_t>(c)];
        state = wide->empty() ? (*narrow)[entry] : (*wide)[entry];
    }
    return state;
}

uint64_t Automaton::bytes() const {
    return class_of->size() + narrow->size() * sizeof(uint16_t) + matches->size() * sizeof(Match) +
           sizeof(uint32_t) * (wide->size() + depth->size() + 2 * levels->size() + output_begin->size() +
                               output_ids->size() + common_ids->size());
}

Automaton build_automaton(const std::vector<std::string>& patterns) {
    std::vector<std::string> distinct;
    for (const std::string& pattern : patterns) {
        if (pattern.empty()) throw std::invalid_argument("a pattern must not be empty");
        distinct.push_back(folded(pattern));
    }
    std::vector<std::string> by_id = distinct;
    std::sort(distinct.begin(), distinct.end());
    distinct.erase(std::unique(distinct.begin(), distinct.end()), distinct.end());
    std::vector<std::vector<uint32_t>> ids(distinct.size());
    for (uint32_t id = 0; id < by_id.size(); ++id)
        ids[std::lower_bound(distinct.begin(), distinct.end(), by_id[id]) - distinct.begin()].push_back(id);

    Trie trie = make_trie(distinct);
    link_suffixes(trie);
    const Numbering numbering = number_states(trie);

    Automaton automaton;
    std::vector<uint8_t> class_of;
    automaton.class_count = number_classes(distinct, class_of);
    automaton.stride = automaton.class_count;
    automaton.state_count = static_cast<uint32_t>(trie.nodes.size());
    automaton.first_match = numbering.first_match;
    if (static_cast<uint64_t>(trie.nodes.size()) * automaton.stride >= uint64_t{1} << 31)
        throw std::length_error("the patterns need " + std::to_string(trie.nodes.size()) + " states of " +
                                std::to_string(automaton.stride) + " entries; the table holds at most 2^31 entries");
    const bool is_narrow = automaton.state_count <= 65536;
    automaton.narrow = share(is_narrow ? fill_rows<uint16_t>(trie, numbering, class_of, automaton.stride)
                                       : LargePageVector<uint16_t>{});
    automaton.wide = share(is_narrow ? LargePageVector<uint32_t>{}
                                     : fill_rows<uint32_t>(trie, numbering, class_of, automaton.stride));
    std::vector<uint32_t> depth(trie.nodes.size());
    for (size_t i = 0; i < trie.nodes.size(); ++i) depth[numbering.state_of[i]] = trie.nodes[i].depth;
    automaton.levels = share(levels_of(depth, numbering.first_match));
    automaton.depth = share(std::move(depth));
    automaton.class_of = share(std::move(class_of));
    fill_outputs(trie, numbering, ids, automaton);
    fill_matches(automaton);
    return automaton;
}

}  // namespace millrace::nf::nids::pattern
