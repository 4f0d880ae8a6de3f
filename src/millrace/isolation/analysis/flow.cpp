#include "millrace/isolation/analysis/flow.hpp"

#include <algorithm>

namespace millrace::isolation {
namespace {

using ptx::Statement;

bool ends_block(const Statement& statement) {
    return statement.is_instruction() && (statement.opcode == "bra" || statement.opcode == "ret");
}

void cut(const ptx::Function& function, Flow& flow) {
    const std::vector<Statement>& body = function.body;
    flow.block_of.resize(body.size());
    for (size_t i = 0; i < body.size(); ++i) {
        const bool begins = i == 0 || body[i].kind == Statement::Kind::label || ends_block(body[i - 1]);
        if (begins) flow.blocks.push_back({i, i, {}, {}, false, 0});
        flow.blocks.back().end = i + 1;
        flow.block_of[i] = static_cast<uint32_t>(flow.blocks.size() - 1);
    }
}

void connect(const ptx::Function& function, Flow& flow) {
    std::vector<uint32_t> at(function.labels);
    for (size_t i = 0; i < function.body.size(); ++i)
        if (function.body[i].kind == Statement::Kind::label) at[function.body[i].index] = flow.block_of[i];
    for (uint32_t b = 0; b < flow.blocks.size(); ++b) {
        Block& block = flow.blocks[b];
        const Statement& last = function.body[block.end - 1];
        const bool ends = ends_block(last);
        if (ends && last.opcode == "bra") block.next.push_back(at[last.operands[0].index]);
        if ((!ends || last.guarded) && b + 1 < flow.blocks.size()) block.next.push_back(b + 1);
    }
}

/// Depth first, without recursion: finds what is reached, the order, and where circles begin.
void walk(const ptx::Function& function, Flow& flow) {
    enum : uint8_t { fresh, open, done };
    std::vector<uint8_t> state(flow.blocks.size(), fresh);
    std::vector<std::pair<uint32_t, size_t>> path;
    const auto enter = [&](uint32_t b) {
        state[b] = open;
        flow.blocks[b].reached = true;
        path.emplace_back(b, 0);
    };
    enter(0);
    while (!path.empty()) {
        auto& [b, at] = path.back();
        Block& block = flow.blocks[b];
        if (at == block.next.size()) {
            state[b] = done;
            flow.in_order.push_back(b);
            path.pop_back();
            continue;
        }
        const size_t edge = at++;
        const uint32_t next = block.next[edge], from = b;
        flow.blocks[next].before.push_back(from);
        if (state[next] == fresh) enter(next);
        else if (state[next] == open) flow.loop_heads.push_back(next);
    }
    std::ranges::reverse(flow.in_order);
    for (uint32_t i = 0; i < flow.in_order.size(); ++i) flow.blocks[flow.in_order[i]].order = i;
    std::ranges::sort(flow.loop_heads);
    flow.loop_heads.erase(std::unique(flow.loop_heads.begin(), flow.loop_heads.end()), flow.loop_heads.end());
    const Block& last = flow.blocks.back();
    const Statement& end = function.body[last.end - 1];
    flow.falls_off = last.reached && (!ends_block(end) || end.guarded);
}

/// Cooper, Harvey, Kennedy: A Simple, Fast Dominance Algorithm, figure 3.
void find_dominators(Flow& flow) {
    flow.dominator.assign(flow.blocks.size(), -1);
    flow.dominator[0] = 0;
    constexpr size_t kMaxWork = size_t{1} << 26;  // some tenths of a second
    size_t work = 0;
    const auto meet = [&](int32_t a, int32_t b) {
        for (; a != b && work < kMaxWork; ++work)
            if (flow.blocks[a].order > flow.blocks[b].order) a = flow.dominator[a];
            else b = flow.dominator[b];
        return a;
    };
    bool changed = true;
    while (changed && work < kMaxWork) {
        changed = false;
        for (const uint32_t b : flow.in_order) {
            if (b == 0) continue;
            work += flow.blocks[b].before.size();
            int32_t found = -1;
            for (const uint32_t before : flow.blocks[b].before)
                if (flow.dominator[before] >= 0)
                    found = found < 0 ? static_cast<int32_t>(before) : meet(static_cast<int32_t>(before), found);
            changed |= found != flow.dominator[b];
            flow.dominator[b] = found;
        }
    }
    // Nobody writes such a function, and of every block this much is true.
    if (work >= kMaxWork)
        for (const uint32_t b : flow.in_order) flow.dominator[b] = 0;
}

void number_tree(Flow& flow) {
    std::vector<std::vector<uint32_t>> below(flow.blocks.size());
    for (const uint32_t b : flow.in_order)
        if (b != 0) below[static_cast<size_t>(flow.dominator[b])].push_back(b);
    flow.tree_begin.resize(flow.blocks.size());
    flow.tree_end.resize(flow.blocks.size());
    uint32_t clock = 0;
    std::vector<std::pair<uint32_t, size_t>> path{{0, 0}};
    flow.tree_begin[0] = clock++;
    while (!path.empty()) {
        const auto [b, at] = path.back();
        if (at == below[b].size()) {
            flow.tree_end[b] = clock++;
            path.pop_back();
            continue;
        }
        ++path.back().second;
        const uint32_t next = below[b][at];
        flow.tree_begin[next] = clock++;
        path.emplace_back(next, 0);
    }
}

}  // namespace

Flow flow_of(const ptx::Function& function) {
    Flow flow;
    if (function.body.empty()) {
        flow.falls_off = true;
        return flow;
    }
    cut(function, flow);
    connect(function, flow);
    walk(function, flow);
    find_dominators(flow);
    number_tree(flow);
    return flow;
}

std::vector<bool> read_before_written(const ptx::Function& function, const Flow& flow) {
    constexpr size_t kMaxWords = size_t{1} << 25;
    constexpr size_t kMaxWork = size_t{1} << 27, kWorkOfStatement = 16;  // words; some tenths of a second
    const size_t words = (function.registers.size() + 63) / 64;
    std::vector<bool> answer(function.registers.size(), true);
    if (flow.blocks.empty() || words * flow.blocks.size() > kMaxWords) return answer;
    // Backwards: what a block may read of those before it, until nothing changes. Of the first block it is the answer.
    std::vector<uint64_t> wanted(words * flow.blocks.size());
    std::vector<uint64_t> now(words);
    size_t work = 0;
    for (bool changed = true; changed;) {
        changed = false;
        work += wanted.size() + kWorkOfStatement * function.body.size();
        if (work > kMaxWork) return answer;
        for (auto b = flow.in_order.rbegin(); b != flow.in_order.rend(); ++b) {
            const Block& block = flow.blocks[*b];
            std::ranges::fill(now, 0);
            for (const uint32_t next : block.next)
                for (size_t w = 0; w < words; ++w) now[w] |= wanted[next * words + w];
            for (size_t i = block.end; i-- > block.begin;) {
                const Statement& statement = function.body[i];
                if (!statement.is_instruction()) continue;
                const Opcode& opcode = *find_opcode(statement.opcode);
                if (!statement.guarded)
                    for_each_written(statement, opcode, [&](uint32_t r) { now[r / 64] &= ~(uint64_t{1} << r % 64); });
                for_each_read(statement, opcode, [&](uint32_t r) { now[r / 64] |= uint64_t{1} << r % 64; });
            }
            for (size_t w = 0; w < words; ++w) {
                changed |= wanted[*b * words + w] != now[w];
                wanted[*b * words + w] = now[w];
            }
        }
    }
    for (size_t r = 0; r < answer.size(); ++r) answer[r] = wanted[r / 64] >> r % 64 & 1;
    return answer;
}

}  // namespace millrace::isolation
