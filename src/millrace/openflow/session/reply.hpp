// Answers to multipart requests.
#pragma once

#include "millrace/openflow/datapath.hpp"

namespace millrace::openflow {

inline constexpr size_t kMaxBytes = 60'000;  // of a message; one that would be longer goes on in another one
inline constexpr uint16_t kMore = 1;         // OFPMPF_REPLY_MORE

/// The messages of one answer, cut between entries.
class Reply {
public:
    Reply(Multipart type, uint32_t xid, Bytes& output) : type_(type), xid_(xid), writer_(output) { begin(); }
    ~Reply() { end(); }

    template <class Write>
    void entry(Write&& write) {
        if (writer_.size() - begin_ > kMaxBytes) {
            writer_.set_u16(begin_ + 10, kMore);
            end();
            begin();
        }
        write(writer_);
    }

private:
    void begin() {
        begin_ = writer_.size();
        writer_.u8(kVersion)
            .u8(static_cast<uint8_t>(Type::multipart_reply))
            .u16(0)
            .u32(xid_)
            .u16(static_cast<uint16_t>(type_))
            .u16(0)
            .zeros(4);
    }
    void end() { writer_.set_u16(begin_ + 2, writer_.size() - begin_); }

    Multipart type_;
    uint32_t xid_;
    Writer writer_;
    size_t begin_ = 0;
};

/// What each table can (ofp_table_features). Throws Error where the request wants to change that.
void answer_table_features(Datapath& datapath, Reader& request, Reply& reply);

}  // namespace millrace::openflow
