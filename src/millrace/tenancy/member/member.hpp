// The tenant's side: attaches to a manager, and answers its questions.
#pragma once

#include <algorithm>
#include <chrono>
#include <memory>
#include <optional>
#include <string>
#include <vector>

#include "millrace/tenancy/exchange/exchange.hpp"

namespace millrace::tenancy {

class Member {
public:
    /// Throws std::runtime_error with what is wrong, such as the manager's reason for a refusal. A manager is not
    /// trusted either: memory that it could take away or that is too small is refused.
    Member(const std::string& manager, const std::string& name,
           std::chrono::milliseconds patience = std::chrono::seconds(5));

    const Shape& shape() const { return shape_; }
    const Terms& terms() const { return terms_; }

    /// A batch to answer.
    struct Batch {
        uint64_t number = 0;
        uint32_t lane = 0;
        uint32_t count = 0;
        Stage stage = Stage::whole;  ///< as the manager says: any number
        const Question* question = nullptr;
        Answer* answer = nullptr;
        Shape shape;

        std::span<const uint8_t> in(uint32_t packet) const {
            const auto* const bytes = reinterpret_cast<const uint8_t*>(question + 1);
            return {bytes + size_t{packet} * shape.in_bytes,
                    std::min<uint32_t>(question->lengths[packet], shape.in_bytes)};
        }
        const About& about(uint32_t packet) const { return question->about[packet]; }
        std::span<uint8_t> back(uint32_t packet) const {
            auto* const bytes = reinterpret_cast<uint8_t*>(answer + 1);
            return {bytes + size_t{packet} * shape.back_bytes, shape.back_bytes};
        }
        /// Of the device half, of Stage::after; any numbers.
        Decision decision(uint32_t packet) const { return question->decisions[packet]; }
        uint32_t& outcome(uint32_t packet) const { return answer->words[packet]; }
        uint32_t& argument(uint32_t packet) const { return answer->words[packet]; }  ///< of Stage::before
    };
    /// The next one, of each lane in the order in which they were asked; nothing when none has come by then. What the
    /// manager has given up meanwhile is passed over.
    std::optional<Batch> next(std::chrono::milliseconds wait);
    void answer(const Batch& batch);
    /// What PTX the manager's GPU takes; empty: it takes no device half.
    const std::string& architecture() const { return architecture_; }
    /// Sends a device half, in sealed memory (half.hpp). Once. Throws std::runtime_error.
    void offer(int memory);
    /// What has become of it, when the manager has said so; told once.
    std::optional<Notice> placement();
    /// Whether the manager still holds its end. Hears what it says.
    bool attached();
    /// Why the manager has let go, if it has said so.
    const std::string& why() const { return why_; }
    int socket() const { return socket_.get(); }

private:
    /// Of the batches that are there and not done, of any lane.
    std::optional<Batch> oldest();
    std::optional<Batch> oldest(uint32_t lane);
    std::atomic<uint32_t>& sleeps() { return reinterpret_cast<Rest*>(answer_memory_->at(0))->sleeps; }

    Descriptor socket_;
    Shape shape_;
    std::unique_ptr<Descriptor> questions_, answers_, event_;
    std::unique_ptr<Mapping> question_memory_, answer_memory_;
    Terms terms_;
    std::string architecture_, why_;
    bool parted_ = false;
    std::optional<Notice> placement_;
    std::vector<uint64_t> done_;  // by lane: the last batch
    uint32_t next_lane_ = 0;
};

}  // namespace millrace::tenancy
