#include "millrace/base/text/yaml_reader.hpp"

#include <fmt/format.h>
#include <yaml-cpp/eventhandler.h>
#include <yaml-cpp/yaml.h>

#include <algorithm>
#include <istream>
#include <streambuf>
#include <string_view>
#include <vector>

#include "millrace/base/text/diagnostic.hpp"

namespace millrace {
namespace {

Location place(const YAML::Mark& mark, const std::string& file) {
    return {file, static_cast<uint32_t>(mark.line + 1), static_cast<uint32_t>(mark.column + 1)};
}

[[noreturn]] void fail_as_too_deep(const Location& where) {
    throw ConfigError(Diagnostic{where, fmt::format("this is nested more than {} deep", kMaxYamlDepth),
                                 "look for a bracket or a '- ' too many"});
}
[[noreturn]] void fail_as_too_many(const Location& where) {
    throw ConfigError(Diagnostic{
        where, fmt::format("there are more than {} values up to here", kMaxYamlValues),
        "routes, rules and flows can stand in files of their own; an alias counts as all that it refers to"});
}

/// Where a file goes on behind `text`, its beginning. Columns count characters.
Location place_in(std::string_view text, const std::string& file) {
    Location where{file, 1, 1};
    where.line += static_cast<uint32_t>(std::count(text.begin(), text.end(), '\n'));
    const size_t line = text.rfind('\n') + 1;  // 0 where there is none
    where.column += static_cast<uint32_t>(
        std::count_if(text.begin() + static_cast<ptrdiff_t>(line), text.end(),
                      [](char c) { return (static_cast<unsigned char>(c) & 0xc0) != 0x80; }));
    return where;
}

/// How much the parser has read of a text without telling of any of it. It tells of a collection in brackets once it
/// has read the end, and keeps all of it until then, a few hundred bytes for each sign of it.
class Ahead {
public:
    Ahead(std::string_view text, const std::string& file) : text_(text), file_(file) {}

    /// The parser has told of something: what it has read is nothing to wonder about.
    void told() { brackets_ = commas_ = 0; }
    /// Throws ConfigError where more has been begun than a configuration may hold, texts and comments included.
    void read(size_t from, size_t to) {
        constexpr int64_t kMaxOpen = 1024 * int64_t{kMaxYamlDepth};
        for (size_t at = from; at < to; ++at) {
            const char c = text_[at];
            brackets_ += c == '[' || c == '{' ? 1 : c == ']' || c == '}' ? -1 : 0;
            commas_ += c == ',' ? 1u : 0u;
            if (brackets_ > kMaxOpen) fail_as_too_deep(place(at));
            if (commas_ > kMaxYamlValues) fail_as_too_many(place(at));
        }
    }

private:
    Location place(size_t at) const { return place_in(text_.substr(0, at), file_); }

    const std::string_view text_;
    const std::string& file_;
    int64_t brackets_ = 0;
    size_t commas_ = 0;
};

/// Makes values of what a document holds, and refuses what is beyond a limit where it is met.
class Builder : public YAML::EventHandler {
public:
    Builder(const std::string& file, Ahead& ahead) : file_(file), ahead_(ahead) {}

    /// The document's value; null where there was no document.
    std::shared_ptr<const YamlNode> root() {
        if (root_ == nullptr) root_ = &tree_->nodes.emplace_back();
        return owned(tree_, root_);
    }

    void OnDocumentStart(const YAML::Mark& mark) override {
        if (++documents_ > 1) fail(mark, "a second YAML document begins here", "make it a file of its own");
    }
    void OnDocumentEnd() override {}
    void OnNull(const YAML::Mark& mark, YAML::anchor_t anchor) override { leaf(mark, anchor); }
    void OnScalar(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                  const std::string& value) override {
        check_tag(mark, tag);
        YamlNode& node = leaf(mark, anchor);
        node.kind = YamlNode::Kind::scalar;
        node.tag = tag;
        node.scalar = value;
    }
    void OnAlias(const YAML::Mark& mark, YAML::anchor_t anchor) override {
        if (anchor >= kept_.size() || kept_[anchor].size == 0) fail(mark, "this alias stands in what it refers to", "");
        count(mark, kept_[anchor].size);
        put(kept_[anchor].node);
    }
    void OnSequenceStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                         YAML::EmitterStyle::value style) override {
        begin(YamlNode::Kind::list, mark, tag, anchor, style);
    }
    void OnSequenceEnd() override { end(); }
    void OnMapStart(const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
                    YAML::EmitterStyle::value style) override {
        begin(YamlNode::Kind::map, mark, tag, anchor, style);
    }
    void OnMapEnd() override { end(); }

private:
    struct Open {
        YamlNode* node;
        YAML::anchor_t anchor;
        size_t values_before;
    };
    struct Kept {
        YamlNode* node = nullptr;
        size_t size = 0;  ///< with all that is in it; 0 while it is open
    };

    [[noreturn]] void fail(const YAML::Mark& mark, const std::string& message, const std::string& hint) const {
        throw ConfigError(Diagnostic{place(mark, file_), message, hint});
    }
    void check_tag(const YAML::Mark& mark, const std::string& tag) const {
        static const std::vector<std::string_view> kPlain = {"", "?", "!"};
        static const std::vector<std::string_view> kKnown = {"str", "int", "float", "bool", "null", "map", "seq"};
        constexpr std::string_view kCore = "tag:yaml.org,2002:";
        const std::string_view word(tag);
        if (std::find(kPlain.begin(), kPlain.end(), word) != kPlain.end()) return;
        if (word.starts_with(kCore) &&
            std::find(kKnown.begin(), kKnown.end(), word.substr(kCore.size())) != kKnown.end())
            return;
        fail(mark, "the tag of this value means nothing here", "leave out what begins with '!'");
    }
    void count(const YAML::Mark& mark, size_t values) {
        ahead_.told();
        values_ += values;
        if (values_ > kMaxYamlValues) fail_as_too_many(place(mark, file_));
    }
    void keep(YAML::anchor_t anchor, YamlNode* node, size_t size) {
        if (anchor == 0) return;
        if (anchor >= kept_.size()) kept_.resize(2 * anchor + 1);
        kept_[anchor] = {node, size};
    }
    void put(const YamlNode* node) {
        if (open_.empty()) root_ = node;
        else open_.back().node->children.push_back(node);
    }
    YamlNode& add(const YAML::Mark& mark) {
        YamlNode& node = tree_->nodes.emplace_back();
        node.place = {mark.line, mark.column};
        put(&node);
        return node;
    }
    YamlNode& leaf(const YAML::Mark& mark, YAML::anchor_t anchor) {
        count(mark, 1);
        YamlNode& node = add(mark);
        keep(anchor, &node, 1);
        return node;
    }
    void begin(YamlNode::Kind kind, const YAML::Mark& mark, const std::string& tag, YAML::anchor_t anchor,
               YAML::EmitterStyle::value style) {
        check_tag(mark, tag);
        const size_t before = values_;
        count(mark, 1);
        if (open_.size() >= kMaxYamlDepth) fail_as_too_deep(place(mark, file_));
        YamlNode& node = add(mark);
        node.kind = kind;
        node.tag = tag;
        node.style = style == YAML::EmitterStyle::Flow    ? YamlNode::Style::flow
                     : style == YAML::EmitterStyle::Block ? YamlNode::Style::block
                                                          : YamlNode::Style::any;
        keep(anchor, &node, 0);
        open_.push_back({&node, anchor, before});
    }
    void end() {
        keep(open_.back().anchor, open_.back().node, values_ - open_.back().values_before);
        open_.pop_back();
    }

    const std::string& file_;
    Ahead& ahead_;
    const std::shared_ptr<YamlTree> tree_ = std::make_shared<YamlTree>();
    const YamlNode* root_ = nullptr;
    size_t documents_ = 0, values_ = 0;
    std::vector<Open> open_;
    std::vector<Kept> kept_;  // by anchor
};

/// Gives a text out piece by piece, without copying it.
class TextBuffer : public std::streambuf {
public:
    TextBuffer(const std::string& text, Ahead& ahead) : text_(text), ahead_(ahead) {}

private:
    int_type underflow() override {
        constexpr size_t kPieceBytes = 4096;
        const size_t from = given_;
        given_ = std::min(text_.size(), from + kPieceBytes);
        if (from == given_) return traits_type::eof();
        ahead_.read(from, given_);
        char* const begin = const_cast<char*>(text_.data());
        setg(begin + from, begin + from, begin + given_);
        return traits_type::to_int_type(text_[from]);
    }

    const std::string& text_;
    Ahead& ahead_;
    size_t given_ = 0;
};

/// How many bytes the character at `at` takes; 0 when it is none of UTF-8 (RFC 3629).
size_t character_bytes(std::string_view text, size_t at) {
    const auto byte = [&](size_t i) { return i < text.size() ? static_cast<unsigned char>(text[i]) : 0u; };
    const unsigned first = byte(at);
    if (first < 0x80) return 1;
    const size_t length = first >= 0xf5 ? 0 : first >= 0xf0 ? 4 : first >= 0xe0 ? 3 : first >= 0xc2 ? 2 : 0;
    for (size_t i = 1; i < length; ++i)
        if ((byte(at + i) & 0xc0) != 0x80) return 0;
    const unsigned second = byte(at + 1);
    const bool is_too_long = (first == 0xe0 && second < 0xa0) || (first == 0xf0 && second < 0x90);
    const bool is_no_character = (first == 0xed && second >= 0xa0) || (first == 0xf4 && second >= 0x90);
    return is_too_long || is_no_character ? 0 : length;
}

void check_characters(std::string_view text, const std::string& file) {
    if (text.starts_with("\xff\xfe") || text.starts_with("\xfe\xff"))
        throw ConfigError(Diagnostic{{file, 1, 1}, "this is UTF-16, not UTF-8", "save it as UTF-8"});
    Location where{file, 1, 1};
    for (size_t at = 0; at < text.size();) {
        const auto byte = static_cast<unsigned char>(text[at]);
        const size_t length = character_bytes(text, at);
        if (length == 0)
            throw ConfigError(
                Diagnostic{where, fmt::format("the byte 0x{:02x} is not UTF-8", byte), "save the file as UTF-8"});
        if ((byte < 0x20 && byte != '\t' && byte != '\n' && byte != '\r') || byte == 0x7f)
            throw ConfigError(
                Diagnostic{where, fmt::format("there is a control character here (0x{:02x})", byte), "take it out"});
        at += length;
        ++where.column;
        if (byte != '\n') continue;
        ++where.line;
        where.column = 1;
    }
}

}  // namespace

std::shared_ptr<const YamlNode> read_yaml(const std::string& text, const std::string& file) {
    if (text.size() > kMaxYamlBytes)
        throw ConfigError(Diagnostic{place_in(std::string_view(text).substr(0, kMaxYamlBytes), file),
                                     fmt::format("the file is longer than {} bytes", kMaxYamlBytes),
                                     "routes, rules and flows can stand in files of their own"});
    check_characters(text, file);
    Ahead ahead(text, file);
    TextBuffer buffer(text, ahead);
    std::istream in(&buffer);
    YAML::Parser parser(in);
    Builder builder(file, ahead);
    while (parser.HandleNextDocument(builder)) {
    }
    return builder.root();
}

}  // namespace millrace
