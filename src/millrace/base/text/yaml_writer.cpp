#include <yaml-cpp/emitter.h>
#include <yaml-cpp/emittermanip.h>

#include <unordered_map>

#include "millrace/base/text/yaml_node.hpp"

namespace millrace {
namespace {

/// Writes as the YAML library writes a tree of its own.
class Writer {
public:
    explicit Writer(const YamlNode& root) {
        count(root);
        write(root);
    }
    std::string text() const { return emitter_.c_str(); }

private:
    struct Use {
        size_t count = 0, anchor = 0;  ///< the latter: 0 unless it has been written with one
    };

    void count(const YamlNode& node) {
        if (++uses_[&node].count > 1) return;
        for (const YamlNode* child : node.children) count(*child);
    }
    void write(const YamlNode& node) {
        Use& use = uses_[&node];
        if (use.anchor != 0) {
            emitter_ << YAML::Alias(std::to_string(use.anchor));
            return;
        }
        if (node.kind != YamlNode::Kind::null && !node.tag.empty() && node.tag != "?" && node.tag != "!")
            emitter_ << YAML::VerbatimTag(node.tag);
        if (use.count > 1) emitter_ << YAML::Anchor(std::to_string(use.anchor = ++anchors_));
        switch (node.kind) {
            case YamlNode::Kind::null: emitter_ << YAML::Null; break;
            case YamlNode::Kind::scalar: emitter_ << node.scalar; break;
            case YamlNode::Kind::list:
                begin(node.style, YAML::BeginSeq);
                for (const YamlNode* child : node.children) write(*child);
                emitter_ << YAML::EndSeq;
                break;
            case YamlNode::Kind::map:
                begin(node.style, YAML::BeginMap);
                for (size_t i = 0; i < node.children.size(); ++i) {
                    emitter_ << (i % 2 == 0 ? YAML::Key : YAML::Value);
                    write(*node.children[i]);
                }
                emitter_ << YAML::EndMap;
                break;
        }
    }
    void begin(YamlNode::Style style, YAML::EMITTER_MANIP collection) {
        if (style != YamlNode::Style::any) emitter_ << (style == YamlNode::Style::flow ? YAML::Flow : YAML::Block);
        // Of the collections in this one each has a style of its own.
        emitter_.RestoreGlobalModifiedSettings();
        emitter_ << collection;
    }

    YAML::Emitter emitter_;
    std::unordered_map<const YamlNode*, Use> uses_;
    size_t anchors_ = 0;
};

}  // namespace

std::string written(const YamlNode& node) { return Writer(node).text(); }

}  // namespace millrace
