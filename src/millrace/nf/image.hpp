// The tables of one NF in one generation, in a form that any device can take in.
#pragma once

#include <algorithm>
#include <atomic>
#include <cstddef>
#include <cstring>
#include <memory>
#include <string>
#include <type_traits>
#include <vector>

#include "millrace/packet/view.hpp"

namespace millrace::nf {

/// What is known of the contents of memory that serves one generation's array, later, when nobody reads it any more,
/// another one's, and takes over then what has changed meanwhile. A device that has the former need not copy it whole.
struct Revision {
    struct Range {
        uint64_t first, bytes;
    };
    uint64_t now = 0;            ///< no other contents of any array have this number
    uint64_t before = 0;         ///< that of what the memory had before; 0: of nothing
    std::vector<Range> changed;  ///< since then, apart from each other and in order
    uint64_t changed_bytes() const {
        uint64_t bytes = 0;
        for (const Range& range : changed) bytes += range.bytes;
        return bytes;
    }
    /// A number for `now`. Any thread.
    static uint64_t next_number() {
        static std::atomic<uint64_t> last{0};
        return ++last;
    }
};

/// A `Tables` struct and the arrays that its views point to.
///
/// The host half fills one: `image.start<Tables>()`, scalars by assignment, arrays by `attach`.
/// A device copies the arrays into its own memory and the struct with the views pointed there;
/// the cpu device uses the struct as it is. Arrays are immutable once attached and are shared
/// between generations by their owner, so that a device needs to copy only those that are new.
class Image {
public:
    struct Array {
        size_t member_offset;  ///< of the view within Tables
        const void* data;
        uint64_t bytes;
        uint64_t count;
        std::shared_ptr<const void> owner;              ///< keeps `data`; its identity is the array's
        std::string state_name;                         ///< empty: a read-only array
        uint64_t changing_bytes = 0;                    ///< of state, from its start: what comes back with each batch
        bool resident = false;                          ///< state that does not come back with batches
        std::shared_ptr<const Revision> revision = {};  ///< null: nothing is known
        bool is_state() const { return !state_name.empty(); }
    };

    /// Makes a value-initialised `Tables`, the only one of this image, and returns it to be filled.
    template <class Tables>
    Tables& start() {
        static_assert(std::is_standard_layout_v<Tables> && std::is_trivially_copyable_v<Tables>);
        storage_ = std::make_shared<Tables>();
        tables_ = storage_.get();
        tables_bytes_ = sizeof(Tables);
        arrays_.clear();
        return *static_cast<Tables*>(tables_);
    }

    /// Makes a `Tables` that begins as another image's: both share the arrays that are attached there.
    template <class Tables>
    Tables& start_from(const Image& other) {
        static_assert(std::is_standard_layout_v<Tables> && std::is_trivially_copyable_v<Tables>);
        storage_ = std::make_shared<Tables>(*static_cast<const Tables*>(other.tables_));
        tables_ = storage_.get();
        tables_bytes_ = sizeof(Tables);
        arrays_ = other.arrays_;
        return *static_cast<Tables*>(tables_);
    }

    /// Points `view`, a member of this image's Tables, at `array`. The image shares its ownership.
    template <class T, class Allocator>
    void attach(View<T>& view, std::shared_ptr<const std::vector<T, Allocator>> array,
                std::shared_ptr<const Revision> revision = {}) {
        view = View<T>(array->data(), array->size());
        add(&view, array->data(), array->size(), sizeof(T), array, {});
        arrays_.back().revision = std::move(revision);
    }
    template <class T>
    void attach(View<T>& view, std::vector<T> array) {
        attach(view, std::make_shared<const std::vector<T>>(std::move(array)));
    }

    /// The same, where an array may have no elements: then `view` stays empty, and there is nothing to copy to a
    /// device.
    template <class T>
    void attach_some(View<T>& view, std::vector<T> array) {
        if (!array.empty()) attach(view, std::move(array));
    }

    /// Points `view` at state that device code changes. The vector is the host's copy of it: current
    /// whenever no batch is on a device. Hand the same vector to the next generation to keep it. Only the first
    /// `changing` elements come back from a device; the others stay as they are with these tables.
    template <class T>
    void attach_state(MutableView<T>& view, std::shared_ptr<std::vector<T>> state, std::string name,
                      uint64_t changing = UINT64_MAX) {
        static_assert(sizeof(T) % 4 == 0, "devices copy state in words of four bytes");
        view = MutableView<T>(state->data(), state->size());
        add(&view, state->data(), state->size(), sizeof(T), state, std::move(name));
        arrays_.back().changing_bytes = std::min<uint64_t>(changing, state->size()) * sizeof(T);
    }

    /// Points `view` at state that stays where the NF runs. The vector is the host's copy: current while the CPU runs
    /// the NF, and where a device begins.
    template <class T, class Allocator>
    void attach_resident(MutableView<T>& view, std::shared_ptr<std::vector<T, Allocator>> state, std::string name) {
        view = MutableView<T>(state->data(), state->size());
        add(&view, state->data(), state->size(), sizeof(T), state, std::move(name));
        arrays_.back().resident = true;
    }

    /// Has the system give all memory of the host's copies of state that stays where the NF runs: where the CPU runs
    /// it, packets do not wait for that.
    void make_resident_present() const;

    const void* tables() const { return tables_; }
    size_t tables_bytes() const { return tables_bytes_; }
    const std::vector<Array>& arrays() const { return arrays_; }
    /// Bytes of all read-only arrays and of all state.
    uint64_t array_bytes() const {
        uint64_t bytes = 0;
        for (const Array& array : arrays_) bytes += array.bytes;
        return bytes;
    }

    /// A copy of Tables with its views pointed at `addresses` (one an array, in order of `arrays()`):
    /// what device code gets.
    std::vector<std::byte> relocated(const std::vector<void*>& addresses) const {
        std::vector<std::byte> copy(tables_bytes_);
        std::memcpy(copy.data(), tables_, tables_bytes_);
        for (size_t i = 0; i < arrays_.size(); ++i) {
            // Both view types begin with the address; see View.
            std::memcpy(copy.data() + arrays_[i].member_offset, &addresses[i], sizeof(void*));
        }
        return copy;
    }

private:
    void add(const void* view, const void* data, uint64_t count, size_t element, std::shared_ptr<const void> owner,
             std::string state_name) {
        const size_t offset = static_cast<size_t>(static_cast<const std::byte*>(view) -
                                                  static_cast<const std::byte*>(tables_));
        arrays_.push_back({offset, data, count * element, count, std::move(owner), std::move(state_name)});
    }

    std::shared_ptr<void> storage_;
    void* tables_ = nullptr;
    size_t tables_bytes_ = 0;
    std::vector<Array> arrays_;
};

static_assert(sizeof(View<int>) == 16 && sizeof(MutableView<int>) == 16);

}  // namespace millrace::nf
