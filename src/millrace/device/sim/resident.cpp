// A resident kernel on the simulated device: threads that work through the same list, one for each team.
#include <thread>

#include "millrace/device/communication_list.hpp"
#include "millrace/device/sim/sim_device.hpp"

namespace millrace::device::sim {

class SimDevice::ResidentTeams : public Resident {
public:
    ResidentTeams(SimDevice& device, std::shared_ptr<LoadedProgram> program, unsigned depth)
        : device_(device), program_(std::move(program)), entries_(depth), list_(entries_.data(), depth, kMaxTeams) {
        for (unsigned team = 0; team < list_.teams(); ++team) teams_.emplace_back([this, team] { work(team); });
    }
    ~ResidentTeams() override {
        stop();
        for (std::thread& team : teams_) team.join();
    }

    Status submit(const ResidentBatch& batch, uint64_t& number) override {
        number = list_.submit(batch);
        bell_.fetch_add(1, std::memory_order_release);
        bell_.notify_all();
        const std::lock_guard lock(device_.mutex_);
        return device_.state_;
    }

    Status query(uint64_t number) override {
        if (list_.done(number)) {
            list_.release(number);
            return Status::ok;
        }
        const std::lock_guard lock(device_.mutex_);
        if (device_.stalled_polls_ > 0) --device_.stalled_polls_;
        return device_.state_ == Status::ok ? Status::pending : device_.state_;
    }

    void stop() override {
        stopped_ = true;
        bell_.fetch_add(1, std::memory_order_release);
        bell_.notify_all();
        // The step at work ends first: it may read packets that are the host's again from here on.
        const std::lock_guard lock(device_.mutex_);
    }

private:
    void work(unsigned team) {
        for (uint64_t next = team;; next += list_.teams()) {
            uint32_t heard = bell_.load(std::memory_order_acquire);
            for (; list_.posted() <= next && !stopped_; heard = bell_.load(std::memory_order_acquire))
                bell_.wait(heard, std::memory_order_acquire);
            ResidentEntry& entry = entries_[next % entries_.size()];
            if (stopped_ || !run(entry.batch)) return;
            std::atomic_ref(entry.state).store(ResidentEntry::done, std::memory_order_release);
        }
    }

    /// All steps of a batch; false when the device has failed, or the kernel is to end.
    bool run(const ResidentBatch& batch) {
        for (const ResidentMove& in : batch.in)
            if (in.bytes != 0 && !move(in, true)) return false;
        const std::vector<Step>& steps = program_->steps();
        const auto is_ordered = [](const Step& step) { return step.in_order(); };
        const auto first = std::find_if(steps.begin(), steps.end(), is_ordered);
        const auto behind = std::find_if(steps.rbegin(), steps.rend(), is_ordered).base();
        for (auto step = steps.begin(); step != steps.end(); ++step) {
            if (step == first && !await_sequence(batch)) return false;
            const auto index = static_cast<size_t>(step - steps.begin());
            if ((step->kind != Step::Kind::gather || batch.gather != 0) &&
                !carry_out(Operation::Kind::kernel, [&] { return device_.run(*program_, index, batch.view); }))
                return false;
            if (first != steps.end() && step + 1 == behind)
                std::atomic_ref(*batch.sequence_word).store(batch.sequence, std::memory_order_release);
        }
        for (const ResidentMove& out : batch.out)
            if (out.bytes != 0 && !move(out, false)) return false;
        return true;
    }

    bool move(const ResidentMove& piece, bool in) {
        return carry_out(Operation::Kind::copy, [&] {
            return device_.copy(piece.host, reinterpret_cast<Address>(piece.device), piece.bytes, in);
        });
    }

    bool await_sequence(const ResidentBatch& batch) {
        while (std::atomic_ref(*batch.sequence_word).load(std::memory_order_acquire) + 1 < batch.sequence) {
            if (stopped_ || device_.state() != Status::ok) return false;
            std::this_thread::yield();
        }
        return true;
    }

    template <class Run>
    bool carry_out(Operation::Kind kind, Run&& run) {
        while (!stopped_) {
            {
                const std::lock_guard lock(device_.mutex_);
                if (stopped_ || device_.state_ != Status::ok) return false;
                if (device_.stalled_polls_ == 0 && !device_.goes_wrong(kind)) {
                    if (run()) return true;
                    device_.state_ = Status::failed;
                }
            }
            std::this_thread::yield();
        }
        return false;
    }

    SimDevice& device_;
    const std::shared_ptr<LoadedProgram> program_;
    std::vector<ResidentEntry> entries_;
    CommunicationList list_;
    std::atomic<uint32_t> bell_{0};  ///< counts what the teams should look for
    std::atomic<bool> stopped_{false};
    std::vector<std::thread> teams_;
};

std::shared_ptr<Resident> SimDevice::start_resident(std::shared_ptr<LoadedProgram> program, unsigned depth) {
    return std::make_shared<ResidentTeams>(*this, std::move(program), depth);
}

}  // namespace millrace::device::sim
