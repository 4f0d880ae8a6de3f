// Tenants in a configuration: who may attach, and what is agreed on their functions.
#pragma once

#include <sys/types.h>

#include <chrono>
#include <map>
#include <memory>
#include <string>
#include <vector>

#include "millrace/base/text/config.hpp"
#include "millrace/chain/program.hpp"
#include "millrace/chain/promises/promise.hpp"
#include "millrace/isolation/rewrite.hpp"

namespace millrace::chain {

struct Configuration;

/// Who may attach as a tenant: an entry of `tenants:`.
struct Tenant {
    std::string name;
    uid_t user = 0;      ///< whose processes may be it
    std::string socket;  ///< at which they attach
    Location where;
};

/// The entries of `tenants:`. Behind the output folder, which sockets are relative to. Throws ConfigError.
void read_tenants(const Config& root, Configuration& result);

/// `names`: fields as `millrace explain` writes them, or `headers`, `five-tuple`, `everything`. Throws ConfigError.
Fields read_fields(const Config& names);

/// A node that is a tenant's function: what it may see and do. It runs in the tenant's process, or fenced on a GPU;
/// whoever runs it here finds it absent.
class TenantFunction : public nf::NetworkFunction {
public:
    /// What happens to packets while the tenant does not answer.
    enum class Absent : uint8_t { drop, bypass, punt };
    /// Most outcomes that a tenant may have.
    static constexpr size_t kMaxOutcomes = 30;
    static constexpr size_t kMaxOutcomeBytes = 31;  ///< of an outcome's name
    /// The outcome of packets that the tenant has not decided on; the last one, behind the tenant's own.
    static constexpr const char* kAbsent = "absent";

    /// Reads `reads`, `writes`, `outcomes`, `absent`, `memory`, `patience`, `rate`, `latency`, `runs-on` and
    /// `isolation` of an entry of `nfs:`. Throws ConfigError.
    TenantFunction(const Config& entry, const Tenant& tenant);

    /// Its kind, which lives as long as this object.
    const nf::Type& type() const { return type_; }
    const Tenant& tenant() const { return tenant_; }
    Fields sees() const { return type_.reads; }
    Fields changes() const { return type_.writes; }
    uint32_t outcomes() const { return static_cast<uint32_t>(type_.outcomes.size() - 1); }  ///< the tenant's own
    uint32_t absent() const { return outcomes(); }
    uint64_t memory_bytes() const { return memory_bytes_; }  ///< that may be shared with it, and that it has of a GPU
    bool may_run_on_gpu() const { return may_run_on_gpu_; }  ///< its device half, where it sends one
    isolation::Isolation isolation() const { return isolation_; }    ///< there
    std::chrono::nanoseconds patience() const { return patience_; }  ///< within which it answers to a batch
    const Promise& promise() const { return promise_; }

    const nf::Image& image() const override { return image_; }
    /// Why a packet was absent.
    std::string explain(const Decision& decision) const override;
    std::string summary() const override;

private:
    void read_patience(const Config& entry);
    void read_outcomes(const Config& entry);
    void read_place(const Config& entry);

    const Tenant tenant_;
    nf::Type type_;
    uint64_t memory_bytes_ = 16 << 20;
    std::chrono::nanoseconds patience_ = std::chrono::milliseconds(100);
    Promise promise_;
    bool may_run_on_gpu_ = true;
    isolation::Isolation isolation_ = isolation::Isolation::fenced;
    nf::Image image_;
};

/// Why a tenant has not decided on a packet: the detail of the decision `absent`.
enum class AbsentFor : uint8_t {
    away,      ///< nobody is attached
    busy,      ///< more packets came than it takes
    late,      ///< it did not answer in time
    wrong,     ///< it answered what it may not
    lost,      ///< it went away with the packet
    too_long,  ///< what it would see of the packet is more than was agreed on
};
inline constexpr const char* kAbsentForNames[] = {"away", "busy", "late", "wrong", "lost", "too-long"};

/// An entry `- tenant: …` of `nfs:` as a node of `program`. `chain_of` gets the chain that the tenant stands in: it may
/// stand in one. Throws ConfigError.
Node read_tenant_node(const Config& entry, const std::vector<Tenant>& tenants, const Program& program,
                      std::map<std::string, std::string>& chain_of);
/// Throws ConfigError where a chain's options do not go with a tenant's function in it, or a function that is nobody's
/// can only be a tenant's.
void check_tenants(const Config& chain, const Program& program);

/// The function that a node is, if it is a tenant's; else null.
const TenantFunction* tenant_of(const Node& node);

}  // namespace millrace::chain
