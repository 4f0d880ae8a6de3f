#include "millrace/io/xdp/kernel_functions.hpp"

#include <linux/btf.h>

#include <cstring>
#include <fstream>
#include <optional>
#include <vector>

namespace millrace::io {
namespace {

// Kinds that are younger than some distributions' headers.
constexpr uint32_t kEnum64 = 19;

/// What stands behind a type of this kind; nothing for kinds that nobody knows yet.
std::optional<size_t> bytes_behind(uint32_t kind, size_t members) {
    switch (kind) {
        case BTF_KIND_INT:
        case BTF_KIND_VAR:
        case BTF_KIND_DECL_TAG: return 4;
        case BTF_KIND_ARRAY: return sizeof(btf_array);
        case BTF_KIND_STRUCT:
        case BTF_KIND_UNION:
        case BTF_KIND_DATASEC:
        case kEnum64: return members * 12;
        case BTF_KIND_ENUM:
        case BTF_KIND_FUNC_PROTO: return members * 8;
        case BTF_KIND_PTR:
        case BTF_KIND_FWD:
        case BTF_KIND_TYPEDEF:
        case BTF_KIND_VOLATILE:
        case BTF_KIND_CONST:
        case BTF_KIND_RESTRICT:
        case BTF_KIND_FUNC:
        case BTF_KIND_FLOAT:
        case BTF_KIND_TYPE_TAG: return 0;
        default: return std::nullopt;
    }
}

}  // namespace

uint32_t find_function(std::span<const uint8_t> btf, std::string_view name) {
    btf_header header{};
    if (btf.size() < sizeof header) return 0;
    std::memcpy(&header, btf.data(), sizeof header);
    if (header.magic != BTF_MAGIC || header.hdr_len > btf.size()) return 0;
    const auto body = btf.subspan(header.hdr_len);
    const auto part = [&](uint64_t offset, uint64_t bytes) {
        return offset + bytes <= body.size() ? body.subspan(offset, bytes) : std::span<const uint8_t>{};
    };
    const auto types = part(header.type_off, header.type_len), texts = part(header.str_off, header.str_len);
    size_t at = 0;
    for (uint32_t id = 1; at + sizeof(btf_type) <= types.size(); ++id) {
        btf_type type{};
        std::memcpy(&type, types.data() + at, sizeof type);
        const uint32_t kind = BTF_INFO_KIND(type.info);
        if (kind == BTF_KIND_FUNC && type.name_off < texts.size()) {
            const auto* const text = reinterpret_cast<const char*>(texts.data() + type.name_off);
            if (std::string_view(text, strnlen(text, texts.size() - type.name_off)) == name) return id;
        }
        const auto behind = bytes_behind(kind, BTF_INFO_VLEN(type.info));
        if (!behind) return 0;
        at += sizeof type + *behind;
    }
    return 0;
}

uint32_t kernel_function(std::string_view name) {
    constexpr size_t kAtOnce = size_t{1} << 20;
    std::ifstream file("/sys/kernel/btf/vmlinux", std::ios::binary);
    std::vector<uint8_t> btf;
    for (size_t bytes = 0; file; btf.resize(bytes)) {
        btf.resize(bytes + kAtOnce);
        file.read(reinterpret_cast<char*>(btf.data() + bytes), kAtOnce);
        bytes += static_cast<size_t>(file.gcount());
    }
    return find_function(btf, name);
}

}  // namespace millrace::io
