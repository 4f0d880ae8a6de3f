#include "millrace/nf/nids/regex/parse/group_references.hpp"

namespace millrace::nf::nids::regex {
namespace {

constexpr uint32_t kNamed = 0x80000000;  // a group that is an index into the names used

}  // namespace

void GroupReferences::name_next(const std::string& name, size_t offset) {
    if (!names_.emplace(name, groups_ + 1).second) throw Refusal{"two groups named " + name, offset};
}

uint32_t GroupReferences::by_number(uint64_t number, size_t offset) {
    if (number == 0 || number > 0xffff) throw Refusal{"there is no group " + std::to_string(number), offset};
    numbers_used_.emplace_back(static_cast<uint32_t>(number), offset);
    return static_cast<uint32_t>(number);
}

uint32_t GroupReferences::by_name(std::string name, size_t offset) {
    names_used_.emplace_back(std::move(name), offset);
    return kNamed | static_cast<uint32_t>(names_used_.size() - 1);
}

void GroupReferences::resolve(Node& root) const {
    for (const auto& [group, offset] : numbers_used_)
        if (group > groups_) throw Refusal{"there is no group " + std::to_string(group), offset};
    for (const auto& [name, offset] : names_used_)
        if (!names_.contains(name)) throw Refusal{"there is no group named " + name, offset};
    resolve_names(root);
}

void GroupReferences::resolve_names(Node& node) const {
    const bool refers = node.kind == Node::Kind::back_reference || node.kind == Node::Kind::condition;
    if (refers && (node.group & kNamed) != 0) node.group = names_.at(names_used_[node.group & ~kNamed].first);
    for (Node& child : node.children) resolve_names(child);
}

}  // namespace millrace::nf::nids::regex
