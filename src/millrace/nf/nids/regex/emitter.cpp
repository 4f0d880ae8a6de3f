#include "millrace/nf/nids/regex/emitter.hpp"

#include <algorithm>

#include "millrace/nf/nids/regex/parse/byte_class.hpp"
#include "millrace/nf/nids/regex/program_writer.hpp"

namespace millrace::nf::nids::regex {
namespace {

using Kind = Node::Kind;

constexpr uint64_t kMaxCopiedWords = 96;  // a repetition up to this size is written out, a larger one counts
constexpr uint32_t kMaxLiteralBytes = 4096;
const First kUnknown{ByteSet{}, true};

/// About how many words `node` takes; for the choice between writing out and counting.
uint64_t weight(const Node& node) {
    if (node.kind == Kind::set) return 1;
    uint64_t sum = 4;
    for (const Node& child : node.children) sum += weight(child);
    return node.kind == Kind::repeat ? sum * std::max<uint64_t>(1, std::min<uint64_t>(node.least, 8)) : sum;
}

std::optional<uint8_t> only_byte(const ByteSet& set) {
    if (set.count() != 1) return std::nullopt;
    return static_cast<uint8_t>(set._Find_first());
}
/// The lower-case byte of a set that is one byte without regard to case.
std::optional<uint8_t> only_folded(const ByteSet& set) {
    const size_t first = set._Find_first();
    const bool letter = (first >= 'A' && first <= 'Z');
    if (letter && set.count() == 2 && set[first + 32]) return static_cast<uint8_t>(first + 32);
    const bool lower = first >= 'a' && first <= 'z';
    if (set.count() == 1 && !letter && !lower) return static_cast<uint8_t>(first);
    return std::nullopt;
}

}  // namespace

class Emitter {
public:
    Emitter(const Parsed& parsed, const std::function<uint32_t(const ByteSet&)>& set_index)
        : parsed_(parsed), set_index_(set_index) {}

    std::vector<uint32_t> program() {
        collect(parsed_.root);
        const uint32_t captures = out_.registers();
        emit(parsed_.root, kUnknown);
        out_.put(kMatch);
        uint32_t flags = captures << 8;
        if (starts_with(parsed_.root, kSubjectStart)) flags |= kOnlyAtZero;
        if (starts_with(parsed_.root, kLineStart)) flags |= kOnlyAtLines;
        if (parsed_.anchored || starts_with(parsed_.root, kSearchStart)) flags |= kOnlyAtStart;
        out_.set(kHeaderFlags, flags);
        out_.set(kHeaderFirst, guard(first_of(parsed_.root, kUnknown)));
        out_.set(kHeaderLeast, least_bytes(parsed_.root));
        out_.set(kHeaderBehind, behind_set());
        return out_.take();
    }

private:
    /// Where a group that something refers to keeps its start and, one higher, its end.
    struct Slot {
        uint32_t start;
        uint32_t opened;  ///< where the start waits until the group closes
    };

    /// Gives registers to the groups that something refers to.
    void collect(const Node& node) {
        const bool refers = node.kind == Kind::back_reference ||
                            (node.kind == Kind::condition && node.children.size() == 2);
        if (refers && !slots_.contains(node.group)) slots_[node.group] = {out_.reserve(2, node.offset), 0};
        if (refers) slots_[node.group].opened = slots_[node.group].start;
        for (const Node& child : node.children) collect(child);
    }
    /// Whether something within `node` refers to `group`.
    static bool refers_to(const Node& node, uint32_t group) {
        if ((node.kind == Kind::back_reference || node.kind == Kind::condition) && node.group == group) return true;
        return std::ranges::any_of(node.children, [&](const Node& child) { return refers_to(child, group); });
    }

    /// If the pattern starts with an unlimited run of a set, a start within such a run finds nothing that
    /// the run's own start didn't.
    uint32_t behind_set() {
        const Node* first = &parsed_.root;
        if (first->kind == Kind::sequence && !first->children.empty()) first = &first->children[0];
        if (first->kind != Kind::repeat || first->children[0].kind != Kind::set || first->most != kUnlimited) return 0;
        if (mentions_search_start(parsed_.root)) return 0;
        return set_index_(first->children[0].set);
    }
    static bool mentions_search_start(const Node& node) {
        if (node.kind == Kind::assertion && node.assertion == kSearchStart) return true;
        return std::ranges::any_of(node.children, mentions_search_start);
    }

    /// The set to test for `first` before going there; 0: nothing to test.
    uint32_t guard(const First& first) {
        if (first.open || first.set.all()) return 0;
        return set_index_(first.set);
    }

    /// `follow`: what comes behind the node, for guards that rule out a path before it is taken. Within
    /// atomic groups and lookarounds it is unknown: there the first path counts, whatever follows.
    void emit(const Node& node, const First& follow) {
        switch (node.kind) {
            case Kind::sequence: return emit_sequence(node.children, follow);
            case Kind::alternatives: return emit_alternatives(node, follow);
            case Kind::set: return emit_set(node.set);
            case Kind::repeat: return emit_repeat(node, follow);
            case Kind::capture: return emit_capture(node, follow);
            case Kind::atomic: return emit_atomic(node.children[0], node.offset);
            case Kind::look: return emit_look(node);
            case Kind::assertion: return out_.put(node.assertion, 0);
            case Kind::back_reference:
                out_.put(kBackReference, slots_.at(node.group).start);
                out_.put(node.folded);
                return;
            case Kind::condition: return emit_condition(node, follow);
        }
    }

    void emit_set(const ByteSet& set) {
        if (const auto byte = only_byte(set)) {
            out_.put_literal(kLiteral, {*byte});
        } else if (set.all()) {
            out_.put(kAny, 0);
        } else {
            out_.put(kSet, set_index_(set));
        }
    }

    void emit_sequence(const std::vector<Node>& nodes, const First& follow) {
        // What follows each node, found from the end.
        std::vector<First> follows(nodes.size() + 1, follow);
        for (size_t i = nodes.size(); i-- > 0;) follows[i] = first_of(nodes[i], follows[i + 1]);
        for (size_t i = 0; i < nodes.size();) {
            const size_t taken = emit_literal(nodes, i);
            if (taken == 0) {
                emit(nodes[i], follows[i + 1]);
                ++i;
            }
            i += taken;
        }
    }
    /// The bytes from node `from` on as one instruction. Returns the number of nodes that it covers.
    size_t emit_literal(const std::vector<Node>& nodes, size_t from) {
        std::vector<uint8_t> exact, folded;
        for (size_t i = from; i < nodes.size() && i < from + kMaxLiteralBytes && nodes[i].kind == Kind::set; ++i) {
            const auto byte = only_byte(nodes[i].set), either = only_folded(nodes[i].set);
            if (byte && exact.size() == i - from) exact.push_back(*byte);
            if (either && folded.size() == i - from) folded.push_back(*either);
            if (std::max(exact.size(), folded.size()) == i - from) break;
        }
        const std::vector<uint8_t>& bytes = exact.size() >= folded.size() ? exact : folded;
        if (bytes.empty()) return 0;
        out_.put_literal(&bytes == &exact ? kLiteral : kLiteralFolded, bytes);
        return bytes.size();
    }

    void emit_alternatives(const Node& node, const First& follow) {
        const size_t count = node.children.size();
        std::vector<First> firsts(count);
        for (size_t i = count; i-- > 0;) firsts[i] = first_of(node.children[i], follow);
        std::vector<First> rests = firsts;  // what this branch or a later one can start with
        for (size_t i = count - 1; i-- > 0;) rests[i] = unite(rests[i], rests[i + 1]);
        std::vector<uint32_t> ends;
        for (size_t i = 0; i < count; ++i) {
            if (i + 1 == count) {
                emit(node.children[i], follow);
                break;
            }
            const uint32_t next = out_.put_choice(false, guard(firsts[i]), guard(rests[i + 1]));
            emit(node.children[i], follow);
            ends.push_back(out_.put_jump());
            out_.land(next);
        }
        for (uint32_t end : ends) out_.land(end);
    }

    void emit_run(const Node& node, const First& follow) {
        const ByteSet& set = node.children[0].set;
        const bool shut_out = !follow.open && (set & follow.set).none();
        Op op = node.greed == Greed::lazy ? kRunLazy : kRunGreedy;
        // Where the next byte can't be one of the run's, there is one length only.
        if (node.greed == Greed::possessive || shut_out) op = kRunPossessive;
        out_.put(op, set_index_(set));
        out_.put(node.least);
        out_.put(node.most);
        out_.put(node.greed == Greed::possessive ? 0 : guard(follow));
    }

    void emit_repeat(const Node& node, const First& follow) {
        const Node& body = node.children[0];
        if (node.most == 0) return;
        if (node.least == 1 && node.most == 1) {
            return node.greed == Greed::possessive ? emit_atomic(body, node.offset) : emit(body, follow);
        }
        if (body.kind == Kind::set) return emit_run(node, follow);
        if (node.greed == Greed::possessive) {
            Node inner = node;
            inner.greed = Greed::greedy;
            return emit_atomic(inner, node.offset);
        }
        const uint64_t copies = node.most == kUnlimited ? std::max(node.least, 1u) : node.most;
        if (copies > 1 && copies * weight(body) > kMaxCopiedWords) return emit_counted(node, follow);
        emit_copies(node, follow);
    }

    /// X{2,} as X X+, X{2,4} as X X (X (X)?)?.
    void emit_copies(const Node& node, const First& follow) {
        const Node& body = node.children[0];
        const bool lazy = node.greed == Greed::lazy, unlimited = node.most == kUnlimited;
        const First inner = unite(first_of(body, follow), follow);
        const uint32_t body_set = guard(first_of(body, inner)), exit_set = guard(follow);
        const uint32_t mandatory = unlimited && node.least > 0 ? node.least - 1 : node.least;
        for (uint32_t i = 0; i < mandatory; ++i) emit(body, inner);
        if (!unlimited) {
            std::vector<uint32_t> exits;
            for (uint32_t i = node.least; i < node.most; ++i) {
                exits.push_back(out_.put_choice(lazy, body_set, exit_set));
                emit(body, inner);
            }
            for (uint32_t exit : exits) out_.land(exit);
            return;
        }
        // A pass that takes no byte is the last, as in PCRE.
        const bool may_be_empty = least_bytes(body) == 0;
        const uint32_t mark = may_be_empty ? out_.reserve(1, node.offset) : 0;
        const uint32_t skip = node.least == 0 ? out_.put_choice(lazy, body_set, exit_set) : 0;
        const uint32_t start = out_.here();
        if (may_be_empty) out_.put(kStorePosition, mark);
        emit(body, inner);
        uint32_t idle = 0;
        if (may_be_empty) {
            out_.put(kIfEmpty, mark);
            idle = out_.put_later();
        }
        // Back to `start` or on from here: the choice's "there" is the body.
        const uint32_t again = out_.put_choice(!lazy, exit_set, body_set);
        out_.set(again, start);
        if (skip != 0) out_.land(skip);
        if (idle != 0) out_.land(idle);
    }

    void emit_counted(const Node& node, const First& follow) {
        const Node& body = node.children[0];
        const bool lazy = node.greed == Greed::lazy;
        const First inner = unite(first_of(body, follow), follow);
        const uint32_t body_set = guard(first_of(body, inner)), exit_set = guard(follow);
        const bool may_be_empty = node.most == kUnlimited && least_bytes(body) == 0;
        const uint32_t counter = out_.reserve(1, node.offset);
        const uint32_t mark = may_be_empty ? out_.reserve(1, node.offset) : kNone;
        out_.put(kCounterInit, counter);
        const uint32_t skip = node.least == 0 ? out_.put_choice(lazy, body_set, exit_set) : 0;
        const uint32_t start = out_.here();
        if (may_be_empty) out_.put(kStorePosition, mark);
        emit(body, inner);
        out_.put(kCounterNext, counter);
        for (uint32_t word : {node.least, node.most, start, body_set, exit_set, mark, static_cast<uint32_t>(lazy)})
            out_.put(word);
        if (skip != 0) out_.land(skip);
    }

    void emit_capture(const Node& node, const First& follow) {
        const Node& body = node.children[0];
        const auto slot = slots_.find(node.group);
        if (slot == slots_.end()) return emit(body, follow);
        // While the group is open, its own reference still means its last pass.
        if (slot->second.opened == slot->second.start && refers_to(body, node.group))
            slot->second.opened = out_.reserve(1, node.offset);
        const Slot registers = slot->second;
        out_.put(kStorePosition, registers.opened);
        emit(body, follow);
        out_.put(kCaptureClose, registers.start);
        out_.put(registers.opened);
    }

    void emit_atomic(const Node& body, size_t offset) {
        const uint32_t mark = out_.reserve(2, offset);
        out_.put(kAtomicBegin, mark);
        emit(body, kUnknown);
        out_.put(kAtomicEnd, mark);
    }

    /// The body of a lookaround: each alternative of a lookbehind steps back by its own length.
    void emit_look_body(const Node& look) {
        const Node& body = look.children[0];
        if (!look.behind) return emit(body, kUnknown);
        if (body.kind != Kind::alternatives) return emit_behind(body, look.offset);
        std::vector<uint32_t> ends;
        for (size_t i = 0; i < body.children.size(); ++i) {
            if (i + 1 == body.children.size()) {
                emit_behind(body.children[i], look.offset);
                break;
            }
            const uint32_t next = out_.put_choice(false, 0, 0);
            emit_behind(body.children[i], look.offset);
            ends.push_back(out_.put_jump());
            out_.land(next);
        }
        for (uint32_t end : ends) out_.land(end);
    }
    void emit_behind(const Node& body, size_t offset) {
        const auto bytes = fixed_bytes(body);
        if (!bytes) throw Refusal{"a lookbehind without a fixed length", offset};
        if (*bytes > 0xffff) throw Refusal{"a lookbehind of more than 65535 bytes", offset};
        out_.put(kBack, *bytes);
        emit(body, kUnknown);
    }

    void emit_look(const Node& node) {
        const uint32_t mark = out_.reserve(2, node.offset);
        if (!node.negative) {
            out_.put(kLookBegin, mark);
            emit_look_body(node);
            out_.put(kLookEnd, mark);
            return;
        }
        out_.put(kBranchBegin, mark);
        const uint32_t target = out_.put_later();
        emit_look_body(node);
        out_.put(kNegativeEnd, mark);
        out_.land(target);
    }

    void emit_condition(const Node& node, const First& follow) {
        const Node& yes = node.children[node.children.size() - 2];
        const Node& no = node.children[node.children.size() - 1];
        uint32_t otherwise = 0;
        if (node.children.size() == 2) {
            out_.put(kIfUnset, slots_.at(node.group).start);
            otherwise = out_.put_later();
        } else {
            const Node& look = node.children[0];
            const uint32_t mark = out_.reserve(2, node.offset);
            out_.put(kBranchBegin, mark);
            otherwise = out_.put_later();
            emit_look_body(look);
            // PCRE keeps what groups within the lookaround matched, even that of a negative one.
            out_.put(kLookEnd, mark);
            if (look.negative) {
                const uint32_t end_of_look = out_.put_jump();
                out_.land(otherwise);
                otherwise = end_of_look;
            }
        }
        emit(yes, follow);
        const uint32_t end = out_.put_jump();
        out_.land(otherwise);
        emit(no, follow);
        out_.land(end);
    }

    const Parsed& parsed_;
    const std::function<uint32_t(const ByteSet&)>& set_index_;
    ProgramWriter out_;
    std::map<uint32_t, Slot> slots_;
};

std::vector<uint32_t> emit_program(const Parsed& parsed, const std::function<uint32_t(const ByteSet&)>& set_index) {
    return Emitter(parsed, set_index).program();
}

}  // namespace millrace::nf::nids::regex
