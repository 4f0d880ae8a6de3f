// The messages of the streams of one bucket, as a test or a fuzzer lets them be followed.
#pragma once

#include <map>
#include <string>
#include <vector>

#include "millrace/nf/nids/http/messages.hpp"

namespace millrace::nf::nids::http {

/// Memory of one bucket.
class BucketMemory {
public:
    BucketMemory(uint32_t rooms, uint32_t head, uint32_t tail, uint32_t decoders, uint32_t inflate)
        : words_(MessageMemory::words_of_bucket(rooms, head, tail)), decoders_(DecoderPool::words_of(decoders)),
          counts_(static_cast<size_t>(MessageCount::count)) {
        memory.words = {words_.data(), words_.size()};
        memory.counts = {counts_.data(), counts_.size()};
        memory.decoders.words = {decoders_.data(), decoders_.size()};
        memory.decoders.count = decoders;
        memory.rooms = rooms;
        memory.head = head;
        memory.tail = tail;
        memory.inflate = inflate;
    }
    uint64_t count(MessageCount what) const { return counts_[static_cast<size_t>(what)]; }
    /// Decoders that are anybody's.
    size_t decoders_in_use() const {
        size_t n = 0;
        for (uint32_t i = 0; i < memory.decoders.count; ++i) n += memory.decoders.of(i).owner != 0;
        return n;
    }
    MessageMemory memory;

private:
    std::vector<uint64_t> words_, decoders_, counts_;
};

/// What was looked at of one message.
struct Heard {
    std::string head, body;
    bool is_response = false, from_start = true;
};

/// Keeps what it is shown, by whose room it was; `Check` sees each look first.
struct Listener {
    std::map<uint64_t, size_t> by_owner;
    std::vector<Heard> heard;
    bool judges = false;  ///< messages that segments begin with are judged with these

    bool judged(const MessagePiece&) const { return judges; }
    void note(MessageRoom&) const {}
    void look(const MessageLook& look, MessageRoom& room) {
        const auto [at, added] = by_owner.emplace(room.owner, heard.size());
        if (added) heard.emplace_back();
        Heard& own = heard[at->second];
        const auto* const data = reinterpret_cast<const char*>(look.data);
        own.is_response = look.is_response;
        own.head.assign(data, look.head);
        const std::string before(data + look.head, look.tail);
        ok = ok && before.size() <= own.body.size() &&
             own.body.compare(own.body.size() - before.size(), before.size(), before) == 0 &&
             look.from_start == (look.tail == own.body.size());
        own.body.append(data + look.head + look.tail, look.fresh);
    }
    bool ok = true;  ///< tails were what came before
};

/// Lets a piece of a stream be followed, from memory that ends where it does.
inline void follow(const MessageBucket& bucket, uint32_t number, const std::string& bytes, uint32_t seq,
                   Listener& listener, uint64_t now = 1) {
    const std::vector<uint8_t> data(bytes.begin(), bytes.end());
    auto gone = [](uint32_t) { return false; };
    MessageFollower<decltype(gone), Listener> follower(bucket, number, (number & 1) != 0, now, gone, listener);
    if (follower.follows()) follower.take({data.data(), static_cast<uint32_t>(data.size()), seq, true, true, true});
}

}  // namespace millrace::nf::nids::http
