// Lets tenants in, and has workers ask them: the side of a run that owns ports and devices.
#pragma once

#include <atomic>
#include <map>
#include <memory>
#include <mutex>
#include <string>
#include <thread>
#include <vector>

#include "millrace/exec/tenants.hpp"
#include "millrace/base/descriptor.hpp"
#include "millrace/schedule/profile.hpp"
#include "millrace/tenancy/manager/door.hpp"
#include "millrace/tenancy/manager/placer.hpp"
#include "millrace/tenancy/manager/seat.hpp"

namespace millrace::tenancy {

/// What a tenant and the manager have agreed on, from its node in the configuration.
Terms terms_of(const chain::TenantFunction& function);
/// Throws ConfigError where its memory has no room for a packet for each worker.
Shape shape_of(const chain::TenantFunction& function, unsigned lanes, const Location& where);

/// One thread of its own listens at the sockets. Workers' engines look at the seats.
class Manager : public exec::Tenants {
public:
    /// `profile`: of the chains beside which tenants work on the device; null: nobody has measured them.
    explicit Manager(unsigned workers, std::shared_ptr<const schedule::Profile> profile = nullptr,
                     Placer::Measure measure = Placer::measure);
    ~Manager() override;
    Manager(const Manager&) = delete;
    Manager& operator=(const Manager&) = delete;

    void run_on(std::shared_ptr<device::Device> device) override;
    std::unique_ptr<exec::Engine> engine(exec::Delivery& delivery, unsigned worker, size_t most_packets) override;
    std::unique_ptr<exec::ChainTenants> in_chain(std::shared_ptr<const chain::Program> undivided,
                                                 unsigned worker) override;
    /// Opens the sockets of tenants that are new, and closes those that are not needed any more. Whoever is attached by
    /// other terms is told so, and may come again.
    void follow(const chain::Configuration& configuration) override;
    chain::TenantsOnDevice on_device() const override;
    std::vector<exec::TenantReport> report() const override;

    /// Any thread. Made where there is none.
    Seat& seat(const std::string& name);

private:
    /// A tenant of the present configuration.
    struct Known {
        Expected expected;
        std::string chain, socket;
    };
    /// A tenant whose promise had no room.
    struct Refused {
        pid_t process = 0;
        chain::MeasuredTenant measured;
        std::string why;
        uint64_t as_of = 0;  ///< `changes_` when it had none
    };
    /// A tenant that was detached for what its function did on the GPU: it gets back there later, each time later.
    struct KeptOff {
        Placer::Clock::time_point until;
        std::chrono::seconds pause{0};
    };
    void keep_off(const std::string& name);
    void listen();
    void open_doors(std::map<std::string, std::map<std::string, Expected>> wanted);
    void let_in();
    void let_go();
    void take_offer(const std::string& name, const std::shared_ptr<Attachment>& attachment);
    bool is_there(const std::string& name);
    void tell(const std::string& message, const std::string& hint) const;
    chain::TenantsOnDevice those_on_device() const;
    bool admit(Attachment& attachment, const ConfinedFunction& function);
    std::vector<Placer::Chain> chains_in_one_piece();
    std::string no_room_for(const std::string& name, pid_t process);

    const unsigned workers_;
    const std::shared_ptr<const schedule::Profile> profile_;
    const Placer::Measure measure_;
    mutable std::mutex mutex_;  // of all below but the thread
    std::map<std::string, Known> known_;
    std::map<std::string, std::unique_ptr<Seat>> seats_;
    std::map<std::string, std::unique_ptr<Door>> doors_;            // by path
    std::vector<std::shared_ptr<const chain::Program>> undivided_;  // chains of the present configuration
    chain::Demand demand_;
    std::map<std::string, Refused> refused_;
    std::map<std::string, KeptOff> kept_off_;
    uint64_t changes_ = 0;  // of the demand, and of who is on the device
    Reporter reporter_;
    std::unique_ptr<Placer> placer_;  // null: no device runs tenants' device halves
    const Descriptor called_;         // wakes the thread
    std::atomic<bool> stopping_{false};
    std::thread thread_;
};

}  // namespace millrace::tenancy
