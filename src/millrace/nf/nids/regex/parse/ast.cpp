#include "millrace/nf/nids/regex/parse/ast.hpp"

#include <algorithm>
#include <utility>

#include "millrace/nf/nids/regex/parse/byte_class.hpp"

namespace millrace::nf::nids::regex {
namespace {

using Kind = Node::Kind;

uint32_t capped(uint64_t bytes) { return static_cast<uint32_t>(std::min<uint64_t>(bytes, 0x7fffffff)); }

/// The branches of alternatives and conditions: the children without the condition itself.
size_t first_branch(const Node& node) { return node.kind == Kind::condition && node.children.size() == 3 ? 1 : 0; }

}  // namespace

Node make_node(Kind kind, size_t offset) {
    Node node;
    node.kind = kind;
    node.offset = offset;
    return node;
}

Node make_set(const ByteSet& set, size_t offset) {
    Node node = make_node(Kind::set, offset);
    node.set = set;
    return node;
}

Node make_assertion(Op op, size_t offset) {
    Node node = make_node(Kind::assertion, offset);
    node.assertion = op;
    return node;
}

Node wrap(Kind kind, Node child, size_t offset) {
    Node node = make_node(kind, offset);
    node.children.push_back(std::move(child));
    return node;
}

Node any_line_end(size_t offset) {
    Node pair = make_node(Kind::sequence, offset);
    pair.children.push_back(make_set(one_byte('\r'), offset));
    pair.children.push_back(make_set(one_byte('\n'), offset));
    Node either = make_node(Kind::alternatives, offset);
    either.children.push_back(std::move(pair));
    either.children.push_back(make_set(*escape_class('v'), offset));
    return wrap(Kind::atomic, std::move(either), offset);
}

First unite(const First& a, const First& b) { return {a.set | b.set, a.open || b.open}; }

First first_of(const Node& node, const First& follow) {
    switch (node.kind) {
        case Kind::set: return {node.set, false};
        case Kind::sequence: {
            First first = follow;
            for (size_t i = node.children.size(); i-- > 0;) first = first_of(node.children[i], first);
            return first;
        }
        case Kind::alternatives:
        case Kind::condition: {
            First first;
            for (size_t i = first_branch(node); i < node.children.size(); ++i)
                first = unite(first, first_of(node.children[i], follow));
            return first;
        }
        case Kind::repeat: {
            if (node.most == 0) return follow;
            const First first = first_of(node.children[0], follow);
            return node.least == 0 ? unite(first, follow) : first;
        }
        case Kind::capture:
        case Kind::atomic: return first_of(node.children[0], follow);
        case Kind::look:
        case Kind::assertion: return follow;
        case Kind::back_reference: return {ByteSet{}, true};
    }
    return {ByteSet{}, true};
}

uint32_t least_bytes(const Node& node) {
    switch (node.kind) {
        case Kind::set: return 1;
        case Kind::sequence: {
            uint64_t sum = 0;
            for (const Node& child : node.children) sum += least_bytes(child);
            return capped(sum);
        }
        case Kind::alternatives:
        case Kind::condition: {
            uint32_t least = kUnlimited;
            for (size_t i = first_branch(node); i < node.children.size(); ++i)
                least = std::min(least, least_bytes(node.children[i]));
            return least;
        }
        case Kind::repeat: return capped(uint64_t{node.least} * least_bytes(node.children[0]));
        case Kind::capture:
        case Kind::atomic: return least_bytes(node.children[0]);
        default: return 0;
    }
}

std::optional<uint32_t> fixed_bytes(const Node& node) {
    switch (node.kind) {
        case Kind::set: return 1;
        case Kind::sequence: {
            uint64_t sum = 0;
            for (const Node& child : node.children) {
                const auto bytes = fixed_bytes(child);
                if (!bytes) return std::nullopt;
                sum += *bytes;
            }
            return capped(sum);
        }
        case Kind::alternatives:
        case Kind::condition: {
            const auto bytes = fixed_bytes(node.children[first_branch(node)]);
            for (size_t i = first_branch(node); i < node.children.size(); ++i)
                if (fixed_bytes(node.children[i]) != bytes) return std::nullopt;
            return bytes;
        }
        case Kind::repeat: {
            const auto bytes = fixed_bytes(node.children[0]);
            if (!bytes || (node.least != node.most && *bytes != 0)) return std::nullopt;
            return capped(uint64_t{node.least} * *bytes);
        }
        case Kind::capture:
        case Kind::atomic: return fixed_bytes(node.children[0]);
        case Kind::look:
        case Kind::assertion: return 0;
        case Kind::back_reference: return std::nullopt;
    }
    return std::nullopt;
}

bool starts_with(const Node& node, Op op) {
    switch (node.kind) {
        case Kind::assertion: return node.assertion == op;
        case Kind::sequence: return !node.children.empty() && starts_with(node.children[0], op);
        case Kind::alternatives:
            return std::ranges::all_of(node.children, [&](const Node& child) { return starts_with(child, op); });
        case Kind::repeat: return node.least > 0 && starts_with(node.children[0], op);
        case Kind::capture:
        case Kind::atomic: return starts_with(node.children[0], op);
        default: return false;
    }
}

}  // namespace millrace::nf::nids::regex
