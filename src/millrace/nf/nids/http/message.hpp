// One HTTP/1 message as its bytes come (RFC 9112): where its head ends, and what of the rest is its body, without what
// chunks are framed by.
//
// Senders that want to get past a reader send what only some recipients understand. So heads, fields and chunks are
// read generously (fields.hpp), and where a body is not what its head says, it is what has come.
#pragma once

#include "millrace/nf/nids/http/fields.hpp"

namespace millrace::nf::nids::http {

/// Room for the head of a message, of which the first bytes are kept.
struct HeadRoom {
    uint8_t* data;
    uint32_t bytes;
};

class Message {
public:
    /// What bytes have led to.
    enum class Got : uint8_t {
        more,      ///< all of them are taken, and more are to come
        head,      ///< the head is complete: body_follows must be called
        end,       ///< the message is over, what follows is the next one's
        not_http,  ///< it is none
    };
    /// How a message's body is framed by what its head does not say.
    enum class Body : uint8_t {
        as_said,     ///< by its fields
        not_wanted,  ///< an answer that has none, whatever its fields say (RFC 9112, section 6.3)
    };

    /// `lenient`: the other end's bytes were HTTP, so these are whatever they look like.
    MILLRACE_DEVICE void begin(bool response, bool lenient) {
        at_ = response ? Where::lead : Where::request;
        response_ = response;
        lenient_ = lenient;
        head_bytes_ = 0;
        left_ = 0;
        place_ = lines_ = empty_ = 0;
        cut_ = false;
        scan_.begin();
    }
    MILLRACE_DEVICE bool is_response() const { return response_; }
    /// Bytes of the head that are in its room; whether there were more.
    MILLRACE_DEVICE uint32_t head_bytes() const { return head_bytes_; }
    MILLRACE_DEVICE bool is_cut() const { return cut_; }
    MILLRACE_DEVICE bool is_in_body() const { return at_ >= Where::maybe; }
    MILLRACE_DEVICE const BodyFields& fields() const { return scan_.fields(); }

    /// Takes of data[0, bytes) what is the message's; `body(data, bytes)` gets what is its body's.
    template <class Sink>
    MILLRACE_DEVICE_CALL Got take(const uint8_t* data, uint32_t bytes, uint32_t& taken, HeadRoom room, Sink&& body) {
        taken = 0;
        while (taken < bytes) {
            const uint8_t byte = data[taken];
            switch (at_) {
                case Where::request:
                    ++taken;
                    if (!request_line(byte, room)) return Got::not_http;
                    break;
                case Where::lead:
                    ++taken;
                    if (!lead(byte, room)) {
                        if (!lenient_ || head_bytes_ == 0) return Got::not_http;
                        // An answer of HTTP/0.9: all of it is body.
                        const uint32_t those = head_bytes_;
                        head_bytes_ = 0;
                        at_ = Where::rest;
                        body(room.data, those);
                    }
                    break;
                case Where::head:
                    if (blank_ == kDecides && !is_blank(byte) && !is_letter(byte)) {
                        end_head();  // a blank line ends it, if what follows is no field
                        return Got::head;
                    }
                    ++taken;
                    keep(byte, room);
                    scan_.take(byte);
                    if (head_ends(byte)) {
                        end_head();
                        return Got::head;
                    }
                    break;
                case Where::maybe: {
                    if (byte == next_of_version(place_)) {
                        ++taken;
                        if (++place_ < kVersion) break;
                        return Got::end;
                    }
                    const uint32_t those = place_;
                    frame_body();
                    if (those > 0) give(reinterpret_cast<const uint8_t*>("HTTP/"), those, body);
                    if (at_ == Where::ended) return Got::end;
                    break;
                }
                case Where::counted:
                case Where::chunk: {
                    const auto those = static_cast<uint32_t>(smaller<uint64_t>(left_, bytes - taken));
                    body(data + taken, those);
                    taken += those;
                    left_ -= those;
                    if (left_ > 0) break;
                    if (at_ == Where::counted) return Got::end;
                    begin_chunk();
                    break;
                }
                case Where::chunk_size:
                    if (!chunk_size(byte)) break;  // the byte is another's
                    ++taken;
                    break;
                case Where::chunk_line:
                    ++taken;
                    if (byte == '\n') {
                        at_ = left_ > 0 ? Where::chunk : Where::trailer;
                        line_is_empty_ = true;
                    }
                    break;
                case Where::trailer:
                    ++taken;
                    if (byte == '\n' && line_is_empty_) return Got::end;
                    line_is_empty_ = byte == '\n' || (line_is_empty_ && byte == '\r');
                    break;
                case Where::rest:
                    body(data + taken, bytes - taken);
                    taken = bytes;
                    break;
                case Where::ended: return Got::end;
            }
        }
        return at_ == Where::ended ? Got::end : Got::more;
    }

    /// Behind Got::head.
    MILLRACE_DEVICE void body_follows(Body how) {
        place_ = 0;
        if (how == Body::as_said) frame_body();
        else at_ = Where::maybe;
    }
    /// How many bytes of a started version are no part of this message: behind Got::end.
    MILLRACE_DEVICE uint32_t given_back() const { return at_ == Where::maybe ? kVersion : 0; }
    /// Goes on behind bytes that are missing; false where it is not known what they were.
    MILLRACE_DEVICE_CALL bool skip(uint32_t bytes) {
        if (at_ == Where::rest) return true;
        if ((at_ != Where::counted && at_ != Where::chunk) || bytes >= left_) return false;
        left_ -= bytes;
        return true;
    }

private:
    enum class Where : uint8_t {
        lead,     ///< before a status line
        request,  ///< in the request line
        head,
        maybe,  ///< a body or the next message: of an answer that ought to have no body
        counted,
        chunk_size,
        chunk_line,  ///< behind the size
        chunk,
        trailer,
        rest,  ///< all that comes is body
        ended
    };
    static constexpr uint32_t kMaxLead = 64, kMaxMethod = 32, kVersion = 5;
    static constexpr uint8_t kNoLine = 0, kNothing = 1, kBlank = 2, kText = 3, kDecides = 4;  // of `blank_`

    MILLRACE_DEVICE static bool is_letter(uint8_t c) { return to_lower(c) >= 'a' && to_lower(c) <= 'z'; }
    MILLRACE_DEVICE static bool is_blank(uint8_t c) { return c == ' ' || c == '\t' || c == '\r' || c == '\n'; }
    MILLRACE_DEVICE static uint8_t next_of_version(uint32_t i) { return static_cast<uint8_t>("HTTP/"[i]); }

    MILLRACE_DEVICE void keep(uint8_t byte, HeadRoom room) {
        if (head_bytes_ < room.bytes) room.data[head_bytes_++] = byte;
        else cut_ = true;
    }

    /// A method, a blank, and a version at the line's end.
    MILLRACE_DEVICE_CALL bool request_line(uint8_t byte, HeadRoom room) {
        if (head_bytes_ == 0 && (byte == '\r' || byte == '\n') && lines_ < 8) {
            ++lines_;
            return true;
        }
        keep(byte, room);
        scan_.take(byte);
        if (place_ == 0) {  // in the method
            if (byte == ' ') place_ = head_bytes_ > 1 ? 1 : 2;
            if (place_ != 0) return place_ == 1;
            return (is_letter(byte) || byte == '_' || byte == '-') && head_bytes_ <= kMaxMethod;
        }
        if (byte != '\n') return true;
        if (!cut_ && !ends_with_version(room.data, head_bytes_)) return false;
        at_ = Where::head;
        blank_ = kNothing;
        return true;
    }
    MILLRACE_DEVICE static bool ends_with_version(const uint8_t* line, uint32_t bytes) {
        while (bytes > 0 && line[bytes - 1] <= ' ') --bytes;
        uint32_t begin = bytes;
        while (begin > 0 && line[begin - 1] != ' ') --begin;
        return begin > 0 && bytes - begin >= kVersion && is_version(line + begin);
    }
    MILLRACE_DEVICE static bool is_version(const uint8_t* at) {
        return to_lower(at[0]) == 'h' && to_lower(at[1]) == 't' && to_lower(at[2]) == 't' && to_lower(at[3]) == 'p' &&
               at[4] == '/';
    }

    /// A status line, or blanks and at most two other lines before it.
    MILLRACE_DEVICE_CALL bool lead(uint8_t byte, HeadRoom room) {
        keep(byte, room);
        if (head_bytes_ > kMaxLead || cut_) return false;
        if (place_ == 0 && byte <= ' ') return true;
        if (place_ == kVersion) {  // in another line
            if (byte == '\n') place_ = 0;
            return true;
        }
        if (to_lower(byte) != to_lower(next_of_version(place_))) {
            if (!lenient_ || ++lines_ > 2) return false;
            place_ = byte == '\n' ? 0 : kVersion;
            return true;
        }
        if (++place_ < 4) return true;
        for (uint32_t i = 0; i < 4; ++i) room.data[i] = room.data[head_bytes_ - 4 + i];
        head_bytes_ = 4;
        at_ = Where::head;
        blank_ = kText;
        for (uint32_t i = 0; i < 4; ++i) scan_.take(room.data[i]);
        return true;
    }

    /// Whether the head ends with a byte: with an empty line.
    MILLRACE_DEVICE bool head_ends(uint8_t byte) {
        if (byte == '\n') {
            if (blank_ == kNothing || blank_ == kDecides) return true;
            blank_ = blank_ == kBlank ? kDecides : kNothing;
            empty_ = 0;
            return false;
        }
        if (blank_ == kDecides) blank_ = byte == '\r' ? kNothing : kBlank;  // it was no end
        if (byte == '\r') {
            if (blank_ == kNothing && empty_++ > 0) blank_ = kBlank;
        } else if (byte == ' ' || byte == '\t') {
            if (blank_ == kNothing) blank_ = kBlank;
        } else {
            blank_ = kText;
        }
        return false;
    }
    MILLRACE_DEVICE void end_head() {
        scan_.end();
        blank_ = kNoLine;
    }

    MILLRACE_DEVICE void frame_body() {
        const BodyFields& fields = scan_.fields();
        left_ = 0;
        if (fields.chunked) {
            at_ = Where::chunk_size;
            first_chunk_ = true;
            place_ = 0;
        } else {
            frame_plain();
        }
    }
    MILLRACE_DEVICE void frame_plain() {
        const BodyFields& fields = scan_.fields();
        left_ = fields.length;
        if (fields.has_length) at_ = left_ > 0 ? Where::counted : Where::ended;
        else at_ = response_ ? Where::rest : Where::ended;
    }
    template <class Sink>
    MILLRACE_DEVICE void give(const uint8_t* data, uint32_t bytes, Sink&& body) {
        if (at_ == Where::counted || at_ == Where::rest) {
            const auto those = at_ == Where::rest ? bytes : static_cast<uint32_t>(smaller<uint64_t>(left_, bytes));
            body(data, those);
            if (at_ == Where::counted && (left_ -= those) == 0) at_ = Where::ended;
        } else if (at_ == Where::chunk_size) {
            at_ = Where::rest;  // no size begins like that
            body(data, bytes);
        }
    }

    MILLRACE_DEVICE void begin_chunk() {
        at_ = Where::chunk_size;
        first_chunk_ = false;
        place_ = 0;
        left_ = 0;
    }
    /// Blanks and lines that are empty, digits, anything to the line's end. False where the byte is no part of it.
    MILLRACE_DEVICE bool chunk_size(uint8_t byte) {
        const uint8_t lower = to_lower(byte);
        const bool digit = byte >= '0' && byte <= '9', letter = lower >= 'a' && lower <= 'f';
        if (digit || letter) {
            constexpr uint64_t kMax = ~uint64_t{0} >> 8;
            left_ = left_ > kMax ? left_ : left_ * 16 + (digit ? byte - '0' : lower - 'a' + 10u);
            place_ = 1;
            return true;
        }
        if (place_ == 0 && byte <= ' ') return true;
        if (place_ != 0) {
            at_ = Where::chunk_line;
            return false;
        }
        if (first_chunk_) frame_plain();
        else at_ = Where::rest;
        return false;
    }

    FieldScan scan_;
    uint64_t left_;  ///< bytes of the body, or of the chunk, that are to come
    uint32_t head_bytes_;
    Where at_;
    uint8_t place_;  ///< in the version; whether the method, or a digit, has come
    uint8_t lines_;  ///< before the start line
    uint8_t blank_;  ///< what the head's line has so far
    uint8_t empty_;  ///< CRs at its start
    bool response_, lenient_, cut_, first_chunk_, line_is_empty_;
};

}  // namespace millrace::nf::nids::http
