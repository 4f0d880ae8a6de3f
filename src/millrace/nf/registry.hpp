// Where registrations go while a plugin is loaded. For plugin.cpp and registry.cpp.
#pragma once

#include <memory>
#include <vector>

#include "millrace/nf/nf.hpp"

namespace millrace::nf {

/// Takes what the constructors of a library register on this thread, for as long as it lives.
class Registrations {
public:
    Registrations();
    ~Registrations();
    Registrations(const Registrations&) = delete;
    Registrations& operator=(const Registrations&) = delete;
    std::vector<std::unique_ptr<Type>> types;
    DeviceSources sources;
};

/// Those that the program itself has.
const Type* find_built_in(std::string_view name);
std::vector<const Type*> all_built_in();

}  // namespace millrace::nf
