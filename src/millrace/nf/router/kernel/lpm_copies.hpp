// Copies of a lookup table that changes: each generation reads one, which stays as it is.
#pragma once

#include <memory>
#include <mutex>
#include <vector>

namespace millrace::nf::router {

/// A copy that no generation uses any more becomes the next one, by what has changed since it was made.
template <class Table>
class LpmCopies {
public:
    using Copy = typename Table::Copy;

    /// The table as it stands now; the same object until it changes. One thread at a time.
    std::shared_ptr<const Copy> of(const Table& table) {
        if (auto newest = newest_.lock(); newest != nullptr && newest->version == table.version()) return newest;
        std::unique_ptr<Copy> copy = unused_->take(table.root().size());
        table.bring_up(*copy);
        // Whoever lets go of it last gives it back.
        std::shared_ptr<const Copy> made(copy.release(), [unused = unused_](const Copy* done) {
            unused->put(std::unique_ptr<Copy>(const_cast<Copy*>(done)));
        });
        newest_ = made;
        return made;
    }

private:
    class Unused {
    public:
        /// Copies with another root are of no use any more: the table has become large, or small.
        std::unique_ptr<Copy> take(size_t root_entries) {
            const std::lock_guard lock(mutex_);
            std::erase_if(copies_, [=](const auto& copy) { return copy->root.size() != root_entries; });
            if (copies_.empty()) return std::make_unique<Copy>();
            auto copy = std::move(copies_.back());
            copies_.pop_back();
            return copy;
        }
        void put(std::unique_ptr<Copy> copy) {
            const std::lock_guard lock(mutex_);
            copies_.push_back(std::move(copy));
        }

    private:
        std::mutex mutex_;
        std::vector<std::unique_ptr<Copy>> copies_;
    };

    std::shared_ptr<Unused> unused_ = std::make_shared<Unused>();
    std::weak_ptr<const Copy> newest_;
};

}  // namespace millrace::nf::router
