#include "strings.hpp"

#include <algorithm>

namespace millrace::nf::nids::regex::test {
namespace {

constexpr size_t kMaxBytes = 3000;

void append(const Node& node, Random& random, std::map<uint32_t, std::string>& groups, std::string& text) {
    using Kind = Node::Kind;
    switch (node.kind) {
        case Kind::set: {
            if (node.set.none()) return;
            // Bytes that people write rather than any.
            for (int i = 0; i < 8; ++i) {
                const uint32_t byte = i < 6 ? 0x20 + pick(random, 0x5f) : pick(random, 256);
                if (node.set[byte]) return text.push_back(static_cast<char>(byte));
            }
            size_t skip = pick(random, static_cast<uint32_t>(node.set.count()));
            size_t byte = node.set._Find_first();
            while (skip-- > 0) byte = node.set._Find_next(byte);
            return text.push_back(static_cast<char>(byte));
        }
        case Kind::alternatives:
            return append(node.children[pick(random, static_cast<uint32_t>(node.children.size()))], random, groups,
                          text);
        case Kind::condition:
            return append(node.children[node.children.size() - 1 - pick(random, 2)], random, groups, text);
        case Kind::repeat: {
            const uint32_t extra = std::min(node.most - node.least, pick(random, 8) == 0 ? 40u : 4u);
            const uint32_t count = node.least + pick(random, extra + 1);
            for (uint32_t i = 0; i < count && text.size() < kMaxBytes; ++i)
                append(node.children[0], random, groups, text);
            return;
        }
        case Kind::back_reference: text += groups[node.group]; return;
        case Kind::look:
            // What must follow is put there now and then; mostly what follows in the pattern is it.
            if (!node.negative && !node.behind && pick(random, 3) == 0) append(node.children[0], random, groups, text);
            return;
        case Kind::assertion:
            if ((node.assertion == kLineStart || node.assertion == kLineEnd) && pick(random, 3) == 0) text += '\n';
            return;
        default: break;
    }
    const size_t start = text.size();
    for (const Node& child : node.children) append(child, random, groups, text);
    if (node.kind == Kind::capture) groups[node.group] = text.substr(std::min(start, text.size()));
}

}  // namespace

uint32_t pick(Random& random, uint32_t below) { return static_cast<uint32_t>(random() % below); }

std::string random_bytes(Random& random, size_t count) {
    std::string bytes(count, '\0');
    for (char& byte : bytes) byte = static_cast<char>(random());
    return bytes;
}

std::string string_from(const Node& node, Random& random) {
    std::map<uint32_t, std::string> groups;
    std::string text;
    append(node, random, groups, text);
    return text;
}

std::string mutated(std::string text, Random& random) {
    for (uint32_t i = pick(random, 3) + 1; i > 0 && !text.empty(); --i) {
        const size_t at = pick(random, static_cast<uint32_t>(text.size()));
        switch (pick(random, 4)) {
            case 0: text[at] = static_cast<char>(random()); break;
            case 1: text.erase(at, 1); break;
            case 2: text.insert(at, 1, text[pick(random, static_cast<uint32_t>(text.size()))]); break;
            default: text[at] = static_cast<char>(text[at] ^ 0x20); break;
        }
    }
    return text;
}

}  // namespace millrace::nf::nids::regex::test
