#include "millrace/nf/registry.hpp"

#include <map>
#include <stdexcept>

#include "millrace/nf/variant.hpp"

namespace millrace::nf {
namespace {

// Function-local so that they exist before the first registration, whatever the order of initialisation.
std::map<std::string, Type, std::less<>>& types() {
    static std::map<std::string, Type, std::less<>> all;
    return all;
}
/// By `kind:variant`.
std::map<std::string, Type, std::less<>>& variants() {
    static std::map<std::string, Type, std::less<>> all;
    return all;
}
constexpr char kOfVariant = ':';
DeviceSources& device_sources() {
    static DeviceSources all;
    return all;
}
thread_local Registrations* of_plugin = nullptr;

}  // namespace

Registrations::Registrations() { of_plugin = this; }
Registrations::~Registrations() { of_plugin = nullptr; }

void register_type(Type type) {
    // Nothing may be thrown through a library's constructors: whoever loads it looks at what has come.
    if (of_plugin != nullptr) {
        of_plugin->types.push_back(std::make_unique<Type>(std::move(type)));
        return;
    }
    const std::string name = type.name;
    auto& all = name.find(kOfVariant) == std::string::npos ? types() : variants();
    if (!all.emplace(name, std::move(type)).second)
        throw std::logic_error("two network functions are named '" + name + "'");
}

const Type& type_of(const Type& type, const NetworkFunction& function) {
    const auto* const varied = dynamic_cast<const Varied*>(&function);
    const Type& kind = kind_of(type);
    if (varied == nullptr || varied->variant().empty()) return kind;
    const auto found = variants().find(kind.name + kOfVariant + std::string(varied->variant()));
    if (found == variants().end())
        throw std::logic_error("'" + kind.name + "' has no variant '" + std::string(varied->variant()) + "'");
    return found->second;
}

const Type& kind_of(const Type& type) {
    const size_t sign = type.name.find(kOfVariant);
    const Type* const kind = sign == std::string::npos ? nullptr : find_built_in(type.name.substr(0, sign));
    return kind != nullptr ? *kind : type;
}

const Type* find_built_in(std::string_view name) {
    const auto found = types().find(name);
    return found == types().end() ? nullptr : &found->second;
}

std::vector<const Type*> all_built_in() {
    std::vector<const Type*> result;
    for (const auto& [name, type] : types()) result.push_back(&type);
    return result;
}

void register_device_source(const char* include_name, const char* begin, const char* end) {
    DeviceSources& sources = of_plugin != nullptr ? of_plugin->sources : device_sources();
    sources.insert_or_assign(include_name, std::string_view(begin, static_cast<size_t>(end - begin)));
}

const std::string_view* find_device_source(std::string_view include_name, const DeviceSources* own) {
    if (own != nullptr)
        if (const auto found = own->find(include_name); found != own->end()) return &found->second;
    const auto found = device_sources().find(include_name);
    return found == device_sources().end() ? nullptr : &found->second;
}

}  // namespace millrace::nf
