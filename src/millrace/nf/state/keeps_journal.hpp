// Network functions whose state per key outlives a device.
#pragma once

#include "millrace/nf/state/journal.hpp"

namespace millrace::nf {

/// A NetworkFunction derives from it, too. Workers call it for batches that have come back, several at the same time.
class KeepsJournal {
public:
    virtual ~KeepsJournal() = default;
    /// Whether devices write a journal with these tables.
    virtual bool keeps_journal() const = 0;
    /// Applies records to the host's copy, the first of so many `bytes` and those behind it, as long as they are of
    /// `node`. How many bytes they take; 0: the first one can be none, nor what follows. `batch`: its number,
    /// from 1.
    virtual uint32_t apply(const uint8_t* records, uint32_t bytes, uint16_t node, uint64_t batch) = 0;
    /// The CPU has the state again, all of it, from a device.
    virtual void returned() = 0;
    /// Sets aside the memory that records are applied to, before packets come.
    virtual void make_present() const = 0;
    /// A batch's last packet came at `now_ns`.
    virtual void reached(uint64_t now_ns) = 0;
    /// A batch had more records than room: the copy is no more what it should be.
    virtual void missed() = 0;
};

class NetworkFunction;

/// Sets aside all memory that the host needs for a function's state per key, before packets come: where the CPU runs
/// it, or may go on with what a device has written down.
void make_state_present(const NetworkFunction& function, bool on_cpu);

}  // namespace millrace::nf
