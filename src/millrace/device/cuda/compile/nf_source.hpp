// The translation units of network functions, which chains are linked from.
#pragma once

#include <string>

#include "millrace/chain/program.hpp"
#include "millrace/device/cuda/compile/chain_source.hpp"

namespace millrace::device::cuda {

/// The function that a translation unit of an NF exports: "millrace_router_8_process".
std::string function_name(const nf::Type& type, unsigned lanes, const char* what);
/// The unit of a kind of NF, the same for every chain that it stands in.
TranslationUnit nf_unit(const nf::Type& type, unsigned lanes);
/// The same for one that is fenced in a window of its own, where nothing is decided on ahead of sequence.
TranslationUnit fenced_unit(nf::Type type, unsigned lanes);
/// What takes packets of an NF with state per key in a keyed step (device/kernel/keyed.hpp); `node`: its place in the
/// program.
std::string keyed_taker(const nf::Type& type, unsigned lanes, uint16_t node);
/// What writes down there what was decided on its packets ahead of sequence.
std::string ahead_taker(const nf::Type& type, unsigned lanes);
/// What a chain's unit says of a node's functions.
std::string declarations(const chain::Node& node, unsigned lanes);
/// What finds packets' chains; the same for every program.
TranslationUnit classifier_unit();
inline constexpr const char* kClassifierDeclaration =
    "extern \"C\" __device__ void millrace_classify(const Packet*, const void*, chain::Entry*);\n";

}  // namespace millrace::device::cuda
