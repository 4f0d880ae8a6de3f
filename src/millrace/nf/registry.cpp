#include <dlfcn.h>

#include <map>
#include <stdexcept>

#include "millrace/nf/nf.hpp"

namespace millrace::nf {
namespace {

// Function-local so that they exist before the first registration, whatever the order of initialisation.
std::map<std::string, Type, std::less<>>& types() {
    static std::map<std::string, Type, std::less<>> all;
    return all;
}
std::map<std::string, std::string_view, std::less<>>& device_sources() {
    static std::map<std::string, std::string_view, std::less<>> all;
    return all;
}

}  // namespace

void register_type(Type type) {
    const std::string name = type.name;
    if (!types().emplace(name, std::move(type)).second)
        throw std::logic_error("two network functions are named '" + name + "'");
}

const Type* find_type(std::string_view name) {
    const auto found = types().find(name);
    return found == types().end() ? nullptr : &found->second;
}

std::vector<const Type*> all_types() {
    std::vector<const Type*> result;
    for (const auto& [name, type] : types()) result.push_back(&type);
    return result;
}

void load_plugin(const std::string& path) {
    // Never closed: its functions are used until the program ends.
    if (dlopen(path.c_str(), RTLD_NOW | RTLD_LOCAL) == nullptr) throw std::runtime_error(dlerror());
}

void register_device_source(std::string include_name, std::string_view text) {
    device_sources().insert_or_assign(std::move(include_name), text);
}

const std::string_view* find_device_source(std::string_view include_name) {
    const auto found = device_sources().find(include_name);
    return found == device_sources().end() ? nullptr : &found->second;
}

}  // namespace millrace::nf
