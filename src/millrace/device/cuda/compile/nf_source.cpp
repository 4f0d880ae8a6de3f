#include "millrace/device/cuda/compile/nf_source.hpp"

#include <fmt/format.h>

namespace millrace::device::cuda {

std::string function_name(const nf::Type& type, unsigned lanes, const char* what) {
    std::string name = type.name;
    for (char& c : name)
        if (c == '-' || c == ':') c = '_';
    return fmt::format("millrace_{}_{}_{}", name, lanes, what);
}

namespace {

/// nf::WantedAhead of an NF that has it.
std::string ahead_functions(const nf::Type& type, unsigned lanes) {
    const auto name = [&](const char* what) { return function_name(type, lanes, what); };
    return fmt::format(
        "using Ahead = millrace::nf::WantedAhead<Nf>;\n"
        "extern \"C\" __device__ void {}(millrace::Packet* packet, const void* tables, void* wanted, bool may, "
        "unsigned through) {{\n"
        "    static_cast<Ahead*>(wanted)->decide(*packet, *static_cast<const Tables*>(tables), may, through);\n}}\n"
        "extern \"C\" __device__ unsigned {}(const void* tables, const void* wanted) {{\n"
        "    return static_cast<unsigned>(static_cast<const Ahead*>(wanted)->holds(*static_cast<const "
        "Tables*>(tables)));\n}}\n"
        "extern \"C\" __device__ millrace::Decision {}(millrace::Packet* packet, const void* tables, const void* "
        "wanted, unsigned worth, const millrace::nf::InBatch* in) {{\n"
        "    return static_cast<const Ahead*>(wanted)->apply(*packet, *static_cast<const Tables*>(tables), "
        "static_cast<millrace::nf::Ahead>(worth), *in);\n}}\n"
        "extern \"C\" __device__ unsigned {}(millrace::Packet* packet, const void* tables, const void* wanted, "
        "const void* first, unsigned head, unsigned end, const millrace::nf::InBatch* in, millrace::Decision* "
        "decision) {{\n"
        "    return millrace::nf::Together<Nf>::decide(packet, *static_cast<const Tables*>(tables), "
        "static_cast<const Ahead*>(wanted), static_cast<const Ahead*>(first), head, end, *in, *decision);\n}}\n"
        "extern \"C\" __device__ void {}(const void* tables, unsigned what, unsigned packets) {{\n"
        "    static_cast<const Tables*>(tables)->state.add(static_cast<millrace::nf::KeyedCount>(what), "
        "packets);\n}}\n",
        name("decide_ahead"), name("holds"), name("apply"), name("decide_together"), name("count_keyed"));
}

/// Those of an NF with state per key.
std::string keyed_functions(const nf::Type& type, unsigned lanes) {
    const auto name = [&](const char* what) { return function_name(type, lanes, what); };
    const std::string decide =
        type.commits_keyed()
            ? fmt::format(
                  "extern \"C\" __device__ millrace::Decision {}(millrace::Packet* packet, const void* tables, "
                  "millrace::Decision decision, const void* wanted, const millrace::nf::InBatch* in) {{\n"
                  "    const auto own = *static_cast<const millrace::nf::Wanted<Nf>*>(wanted);\n"
                  "    return decltype(Tables::state)::decide_on(own, *packet, *static_cast<const Tables*>(tables), "
                  "*in, decision);\n}}\n",
                  name("commit"))
            : fmt::format(
                  "extern \"C\" __device__ millrace::Decision {}(millrace::Packet* packet, const void* tables, "
                  "const void* wanted, const millrace::nf::InBatch* in) {{\n{}}}\n",
                  name("process"),
                  type.decides_ahead ? "    return static_cast<const "
                                       "millrace::nf::WantedAhead<Nf>*>(wanted)->decide_in_sequence(*packet, "
                                       "*static_cast<const Tables*>(tables), *in);\n"
                                     : "    const auto own = *static_cast<const millrace::nf::Wanted<Nf>*>(wanted);\n"
                                       "    return decltype(Tables::state)::decide_on(own, *packet, *static_cast<const "
                                       "Tables*>(tables), *in);\n");
    return decide + (type.decides_ahead ? ahead_functions(type, lanes) : "") +
           fmt::format(
               "extern \"C\" __device__ unsigned {}(const millrace::Packet* packet, const void* tables, void* wanted) "
               "{{\n"
               "    return decltype(Tables::state)::order_key(*packet, *static_cast<const Tables*>(tables), "
               "*static_cast<millrace::nf::WantedOnDevice<Nf>::Type*>(wanted));\n}}\n"
               "extern \"C\" __device__ unsigned {}(const void* tables, unsigned* buckets) {{\n"
               "    return static_cast<const Tables*>(tables)->state.claim(*buckets);\n}}\n"
               "extern \"C\" __device__ unsigned {}(const void* tables, unsigned k) {{\n"
               "    return static_cast<const Tables*>(tables)->state.claimable(k);\n}}\n"
               "extern \"C\" __device__ void {}(millrace::Packet* teller, const void* tables, unsigned bucket, "
               "::uint64_t now, const millrace::nf::InBatch* in) {{\n"
               "    decltype(Tables::state)::sweep_of<Nf>(*teller, *static_cast<const Tables*>(tables), bucket, "
               "now, *in);\n}}\n",
               name("order_key"), name("claim"), name("claimable"), name("sweep"));
}

/// nf::Parts, as a translation unit exports them.
struct PartSignature {
    const char* name;
    const char* result;
    bool is_const, counted, by_lanes;
};
constexpr PartSignature kParts[] = {
    {"find", "void", true, false, true},   {"candidates", "unsigned", true, false, false},
    {"sift", "void", false, true, false},  {"sifted", "unsigned", true, false, false},
    {"check", "void", false, true, false}, {"checked", "unsigned", true, false, false},
    {"judge", "void", false, true, true},  {"conclude", "Decision", false, false, false}};

std::string part_functions(const nf::Type& type, unsigned lanes) {
    std::string text = "using millrace::Decision;\n";
    for (const PartSignature& part : kParts)
        text += fmt::format(
            "extern \"C\" __device__ {} {}({}millrace::Packet* packet, const void* tables, unsigned* kept{}) {{\n"
            "    return Nf::{}(*packet, *static_cast<const Tables*>(tables), kept{}{});\n}}\n",
            part.result, function_name(type, lanes, part.name), part.is_const ? "const " : "",
            part.counted ? ", unsigned number" : "", part.name, part.counted ? ", number" : "",
            part.by_lanes ? fmt::format(", millrace::Lanes<{}>{{}}", lanes) : "");
    return text;
}

}  // namespace

std::string keyed_taker(const nf::Type& type, unsigned lanes, uint16_t node) {
    if (type.commits_keyed()) return fmt::format("ending(batch, {}, {})", node, function_name(type, lanes, "commit"));
    const std::string process = function_name(type, lanes, "process");
    return type.emits_events ? fmt::format("telling(batch, {}, {})", node, process)
                             : fmt::format("deciding(batch, {}, {})", node, process);
}

std::string ahead_taker(const nf::Type& type, unsigned lanes) {
    if (!type.decides_ahead) return "NothingAhead{}";
    const auto name = [&](const char* what) { return function_name(type, lanes, what); };
    return fmt::format("decided_ahead({}, {}, {}, {})", name("holds"), name("apply"), name("decide_together"),
                       name("count_keyed"));
}

TranslationUnit nf_unit(const nf::Type& type, unsigned lanes) {
    std::string text = fmt::format("#include \"{}\"\nusing Nf = {};\nusing Tables = Nf::Tables;\n", type.device_header,
                                   type.device_struct);
    if (type.is_keyed()) text = "#include \"millrace/nf/state/together.hpp\"\n" + text;
    if (type.is_keyed()) text += keyed_functions(type, lanes);
    if (type.is_keyed() && !type.commits_keyed())
        return {fmt::format("{}_{}.cu", type.name, lanes), text, type.sources};
    text += fmt::format(
        "extern \"C\" __device__ millrace::Decision {}(millrace::Packet* packet, const void* tables) {{\n"
        "    return Nf::process(*packet, *static_cast<const Tables*>(tables), millrace::Lanes<{}>{{}});\n}}\n",
        function_name(type, lanes, "process"), lanes);
    if (type.in_parts()) text += part_functions(type, lanes);
    if (type.finishes) {
        text += fmt::format(
            "extern \"C\" __device__ millrace::Decision {}(millrace::Packet* packet, const void* tables, "
            "millrace::Decision decision) {{\n"
            "    return Nf::finish(*packet, *static_cast<const Tables*>(tables), decision);\n}}\n",
            function_name(type, lanes, "finish"));
    }
    if (type.block_bytes > 0) {
        text += fmt::format(
            "extern \"C\" __device__ void {}(const void* tables, unsigned* block) {{\n"
            "    Nf::stage(*static_cast<const Tables*>(tables), block);\n}}\n",
            function_name(type, lanes, "stage"));
    }
    if (type.numbered()) {
        text += fmt::format(
            "extern \"C\" __device__ unsigned {}(const millrace::Packet* packet, const void* tables) {{\n"
            "    return Nf::order_key(*packet, *static_cast<const Tables*>(tables));\n}}\n",
            function_name(type, lanes, "order_key"));
        text += fmt::format(
            "extern \"C\" __device__ millrace::MutableView<::uint64_t> {}(const void* tables) {{\n"
            "    return static_cast<const Tables*>(tables)->tickets;\n}}\n",
            function_name(type, lanes, "tickets"));
    }
    if (type.commit != nullptr && !type.is_keyed()) {
        text += fmt::format(
            "extern \"C\" __device__ millrace::Decision {}(millrace::Packet* packet, const void* tables, "
            "millrace::Decision decision) {{\n"
            "    return Nf::commit(*packet, *static_cast<const Tables*>(tables), decision);\n}}\n",
            function_name(type, lanes, "commit"));
    }
    return {fmt::format("{}_{}.cu", type.name, lanes), text, type.sources};
}

TranslationUnit fenced_unit(nf::Type type, unsigned lanes) {
    type.decides_ahead = false;
    return nf_unit(type, lanes);
}

std::string declarations(const chain::Node& node, unsigned lanes) {
    const bool keyed = node.type->is_keyed(), decides_keyed = keyed && !node.type->commits_keyed();
    std::string text = fmt::format("extern \"C\" __device__ Decision {}(Packet*, const void*{});\n",
                                   function_name(*node.type, lanes, "process"),
                                   decides_keyed ? ", const void*, const nf::InBatch*" : "");
    if (keyed)
        text += fmt::format(
            "extern \"C\" __device__ unsigned {}(const void*, unsigned*);\n"
            "extern \"C\" __device__ unsigned {}(const void*, unsigned);\n"
            "extern \"C\" __device__ void {}(Packet*, const void*, unsigned, uint64_t, const nf::InBatch*);\n",
            function_name(*node.type, lanes, "claim"), function_name(*node.type, lanes, "claimable"),
            function_name(*node.type, lanes, "sweep"));
    if (node.type->decides_ahead)
        text += fmt::format(
            "extern \"C\" __device__ void {}(Packet*, const void*, void*, bool, unsigned);\n"
            "extern \"C\" __device__ unsigned {}(const void*, const void*);\n"
            "extern \"C\" __device__ Decision {}(Packet*, const void*, const void*, unsigned, const nf::InBatch*);\n"
            "extern \"C\" __device__ unsigned {}(Packet*, const void*, const void*, const void*, unsigned, unsigned, "
            "const nf::InBatch*, Decision*);\n"
            "extern \"C\" __device__ void {}(const void*, unsigned, unsigned);\n",
            function_name(*node.type, lanes, "decide_ahead"), function_name(*node.type, lanes, "holds"),
            function_name(*node.type, lanes, "apply"), function_name(*node.type, lanes, "decide_together"),
            function_name(*node.type, lanes, "count_keyed"));
    if (node.type->ordered()) {
        text += fmt::format("extern \"C\" __device__ unsigned {}(const Packet*, const void*{});\n",
                            function_name(*node.type, lanes, "order_key"), keyed ? ", void*" : "");
        if (node.type->numbered())
            text += fmt::format("extern \"C\" __device__ MutableView<uint64_t> {}(const void*);\n",
                                function_name(*node.type, lanes, "tickets"));
    }
    if (node.type->in_parts())
        for (const PartSignature& part : kParts)
            text += fmt::format("extern \"C\" __device__ {} {}({}Packet*, const void*, unsigned*{});\n", part.result,
                                function_name(*node.type, lanes, part.name), part.is_const ? "const " : "",
                                part.counted ? ", unsigned" : "");
    if (node.type->finishes)
        text += fmt::format("extern \"C\" __device__ Decision {}(Packet*, const void*, Decision);\n",
                            function_name(*node.type, lanes, "finish"));
    if (node.type->block_bytes > 0)
        text += fmt::format("extern \"C\" __device__ void {}(const void*, unsigned*);\n",
                            function_name(*node.type, lanes, "stage"));
    if (node.type->commit != nullptr)
        text += fmt::format("extern \"C\" __device__ Decision {}(Packet*, const void*, Decision{});\n",
                            function_name(*node.type, lanes, "commit"),
                            keyed ? ", const void*, const nf::InBatch*" : "");
    return text;
}

TranslationUnit classifier_unit() {
    return {"classify.cu",
            "#include \"millrace/chain/kernel/classifier.hpp\"\n"
            "extern \"C\" __device__ void millrace_classify(const millrace::Packet* packet, const void* tables, "
            "millrace::chain::Entry* entry) {\n"
            "    *entry = millrace::chain::Classifier::entry_of(*packet, "
            "*static_cast<const millrace::chain::Classifier::Tables*>(tables));\n}\n",
            nullptr};
}

TranslationUnit make_nf_check(const nf::Type& type, unsigned lanes) {
    TranslationUnit unit = nf_unit(type, lanes);
    const auto call = [&](const char* what) { return function_name(type, lanes, what); };
    unit.text +=
        "extern \"C\" __global__ void millrace_check(millrace::Packet* packet, const void* tables, "
        "millrace::Decision* decision, unsigned* block) {\n";
    if (type.block_bytes > 0) unit.text += fmt::format("    {}(tables, block);\n", call("stage"));
    if (type.numbered())
        unit.text += fmt::format("    packet->set_ticket({}(tables)[{}(packet, tables)]);\n", call("tickets"),
                                 call("order_key"));
    // What a packet wants of the state may lie anywhere.
    const bool keyed = type.is_keyed(), decides_keyed = keyed && !type.commits_keyed();
    if (keyed)
        unit.text += fmt::format(
            "    const auto* const in = reinterpret_cast<const millrace::nf::InBatch*>(block);\n"
            "    {}(packet, tables, block);\n",
            call("order_key"));
    if (type.decides_ahead)
        unit.text += fmt::format(
            "    {}(packet, tables, block, true, 1);\n    *decision = {}(packet, tables, block, {}(tables, block), "
            "in);\n    {}(packet, tables, block, block, 0, 1, in, decision);\n",
            call("decide_ahead"), call("apply"), call("holds"), call("decide_together"));
    unit.text += fmt::format("    *decision = {}(packet, tables{});\n", call("process"),
                             decides_keyed ? ", block, in" : "");
    if (type.in_parts())
        for (const PartSignature& part : kParts)
            unit.text += fmt::format("    {}{}(packet, tables, block{});\n",
                                     part.result == std::string_view("Decision") ? "*decision = " : "", call(part.name),
                                     part.counted ? ", 0" : "");
    if (type.finishes) unit.text += fmt::format("    *decision = {}(packet, tables, *decision);\n", call("finish"));
    if (type.commit != nullptr)
        unit.text += fmt::format("    *decision = {}(packet, tables, *decision{});\n", call("commit"),
                                 keyed ? ", block, in" : "");
    unit.text += "}\n";
    return unit;
}

}  // namespace millrace::device::cuda
