// Graphs of the CUDA driver's interface, as far as the program uses them: kernels, copies and events, which run one
// after the other.
#include <deque>
#include <map>

#include "driver.hpp"

using namespace emulator;

namespace {

/// CUDA_MEMCPY3D.
struct Copy3D {
    size_t from_x, from_y, from_z, from_level;
    unsigned from_kind;
    const unsigned char* from_host;
    unsigned char* from_device;
    void* from_array;
    void* reserved0;
    size_t from_pitch, from_height;
    size_t to_x, to_y, to_z, to_level;
    unsigned to_kind;
    unsigned char* to_host;
    unsigned char* to_device;
    void* to_array;
    void* reserved1;
    size_t to_pitch, to_height;
    size_t width, height, depth;
};

/// kInvalidValue unless the GPU's side lies in its memory.
int as_copy(const Copy3D& from, Copy& copy) {
    if (from.height != 1 || from.depth != 1 || from.from_kind == from.to_kind) return kInvalidValue;
    copy = {from.to_kind == kHost ? from.to_host : from.to_device,
            from.from_kind == kHost ? from.from_host : from.from_device, from.width};
    return current->memory.has(from.to_kind == kDevice ? copy.to : copy.from, copy.bytes) ? kSuccess : kInvalidValue;
}

/// A step of a graph: they run in the order in which they were added.
struct Node {
    enum class Kind { kernel, copy, record, wait } kind;
    Launch launch;
    Copy copy{};
    Event* event = nullptr;
};
struct Graph {
    std::deque<Node> nodes;
};
struct GraphProgram {
    std::map<const Node*, Node> nodes;
    std::vector<const Node*> order;
};

/// A step of a kind that has no more to it than an event.
Node of_event(Node::Kind kind, Event* event) { return {.kind = kind, .launch = {}, .copy = {}, .event = event}; }
int add(Graph* graph, Node** node, Node made) {
    graph->nodes.push_back(std::move(made));
    *node = &graph->nodes.back();
    return kSuccess;
}
Node* find(GraphProgram* program, Node* node, Node::Kind kind) {
    const auto found = program->nodes.find(node);
    return found != program->nodes.end() && found->second.kind == kind ? &found->second : nullptr;
}
int set_event(GraphProgram* program, Node* node, Node::Kind kind, Event* event) {
    Node* own = find(program, node, kind);
    if (own == nullptr) return kInvalidValue;
    own->event = event;
    return kSuccess;
}

}  // namespace

extern "C" {

int cuGraphCreate(Graph** graph, unsigned) {
    ANSWER_TROUBLE;
    *graph = new Graph;
    return kSuccess;
}
int cuGraphDestroy(Graph* graph) {
    delete graph;
    return kSuccess;
}
int cuGraphAddKernelNode_v2(Node** node, Graph* graph, Node* const*, size_t, const KernelCall* call) {
    ANSWER_TROUBLE;
    Launch launch = as_launch(*call);
    if (const int result = launch.trouble(); result != kSuccess) return result;
    return add(graph, node, {.kind = Node::Kind::kernel, .launch = std::move(launch)});
}
int cuGraphAddMemcpyNode(Node** node, Graph* graph, Node* const*, size_t, const Copy3D* from, void*) {
    ANSWER_TROUBLE;
    Copy copy{};
    if (const int result = as_copy(*from, copy); result != kSuccess) return result;
    return add(graph, node, {.kind = Node::Kind::copy, .launch = {}, .copy = copy});
}
int cuGraphAddEventRecordNode(Node** node, Graph* graph, Node* const*, size_t, Event* event) {
    ANSWER_TROUBLE;
    return add(graph, node, of_event(Node::Kind::record, event));
}
int cuGraphAddEventWaitNode(Node** node, Graph* graph, Node* const*, size_t, Event* event) {
    ANSWER_TROUBLE;
    return add(graph, node, of_event(Node::Kind::wait, event));
}
int cuGraphInstantiateWithFlags(GraphProgram** program, Graph* graph, unsigned long long) {
    ANSWER_TROUBLE;
    *program = new GraphProgram;
    for (const Node& node : graph->nodes) {
        (*program)->nodes.emplace(&node, node);
        (*program)->order.push_back(&node);
    }
    return kSuccess;
}
int cuGraphExecKernelNodeSetParams_v2(GraphProgram* program, Node* node, const KernelCall* call) {
    ANSWER_TROUBLE;
    Node* own = find(program, node, Node::Kind::kernel);
    Launch launch = as_launch(*call);
    if (own == nullptr || launch.trouble() != kSuccess) return kInvalidValue;
    own->launch = std::move(launch);
    return kSuccess;
}
int cuGraphExecMemcpyNodeSetParams(GraphProgram* program, Node* node, const Copy3D* from, void*) {
    ANSWER_TROUBLE;
    Node* own = find(program, node, Node::Kind::copy);
    return own == nullptr ? kInvalidValue : as_copy(*from, own->copy);
}
int cuGraphExecEventRecordNodeSetEvent(GraphProgram* program, Node* node, Event* event) {
    ANSWER_TROUBLE;
    return set_event(program, node, Node::Kind::record, event);
}
int cuGraphExecEventWaitNodeSetEvent(GraphProgram* program, Node* node, Event* event) {
    ANSWER_TROUBLE;
    return set_event(program, node, Node::Kind::wait, event);
}
int cuGraphLaunch(GraphProgram* program, Stream* stream) {
    ANSWER_TROUBLE;
    const std::shared_lock lock(current->launches);
    for (const Node* one : program->order) {
        const Node& node = program->nodes.at(one);
        switch (node.kind) {
            case Node::Kind::kernel: put_launch(of(stream), node.launch); break;
            case Node::Kind::copy: put_copy(of(stream), node.copy); break;
            case Node::Kind::record: put_record(of(stream), node.event); break;
            case Node::Kind::wait: put_wait(of(stream), node.event); break;
        }
    }
    return kSuccess;
}
int cuGraphExecDestroy(GraphProgram* program) {
    delete program;
    return kSuccess;
}
}
