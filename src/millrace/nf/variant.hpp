// Network functions with several device halves for the same tables: one that does everything, say, and a smaller one
// that is faster where its tables ask for no more.
#pragma once

#include <string_view>

#include "millrace/nf/nf.hpp"

namespace millrace::nf {

/// A NetworkFunction derives from it, too, when its kind has variants. A variant is registered as any type, by the name
/// `kind:variant`, which nobody can write in the YAML.
class Varied {
public:
    virtual ~Varied() = default;
    /// The variant whose device half these tables are for; empty: the kind's own. It stays the same over all
    /// generations of changes.
    virtual std::string_view variant() const = 0;
};

/// The type of an NF that was made as `type`: that, or the variant that it names. Throws std::logic_error for a variant
/// that is not there.
const Type& type_of(const Type& type, const NetworkFunction& function);
/// The kind that a type is a variant of, or itself.
const Type& kind_of(const Type& type);

}  // namespace millrace::nf
