// Where the buffers of application protocols lie in one packet's payload, or in an HTTP message: HTTP/1, TLS, DNS.
//
// Of one packet's payload there is what it begins with: a head that ends in a later segment is seen as far as it goes,
// and nothing is decoded. Whoever follows HTTP messages has their heads and their bodies.
#pragma once

#include "millrace/nf/nids/scan.hpp"
#include "millrace/nf/nids/tables.hpp"
#include "millrace/nf/nids/tls_hello.hpp"

namespace millrace::nf::nids {

/// A buffer as options look at it.
struct Span {
    const uint8_t* data = nullptr;
    uint32_t bytes = 0;
    bool present = false;
    bool open = false;  ///< it is elsewhere in the message: what is asked of it may be met there
};

/// How much of an HTTP message a payload is taken for.
enum class TakenFor : uint8_t {
    what_it_is,
    body,  ///< a part of a body, whose head is elsewhere
    head,  ///< a message whose body goes on elsewhere
};

/// An HTTP message that is known as such: the bytes are its head and some of its body.
struct MessageParts {
    uint32_t head = 0;  ///< bytes of the head
    bool is_response = false;
    bool is_cut = false;      ///< the head's last bytes are missing
    bool from_start = false;  ///< the body's first bytes are there
};

/// Start line and headers of an HTTP/1 message that begins with the payload (RFC 9112, section 2).
struct HttpHead {
    enum class Kind : uint8_t { none, request, response };
    Kind kind = Kind::none;
    uint32_t first_space = 0;   ///< end of the method or of the version
    uint32_t second_space = 0;  ///< end of the URI or of the status code
    uint32_t line_end = 0;      ///< end of the start line, without CR LF
    uint32_t headers = 0;       ///< first byte of the header lines
    uint32_t headers_end = 0;   ///< behind the last header line's LF
    uint32_t body = 0;          ///< first byte of the body
    bool complete = false;      ///< the empty line is in this packet
};

namespace detail {

MILLRACE_DEVICE bool is_http_version(const uint8_t* data, uint32_t bytes) {
    return bytes >= 7 && data[0] == 'H' && data[1] == 'T' && data[2] == 'T' && data[3] == 'P' && data[4] == '/' &&
           data[5] >= '0' && data[5] <= '9' && data[6] == '.';
}

/// Length of the line at `at` without its LF; the rest when there is none.
template <class Lanes>
MILLRACE_DEVICE_CALL uint32_t line_bytes(const uint8_t* data, uint32_t bytes, uint32_t at, Lanes lanes) {
    if (at >= bytes) return 0;
    const auto is_end = [](uint32_t window) { return (window & 0xff) == '\n'; };
    return first_window(lanes, data, bytes, at, bytes, is_end, [](uint32_t) { return true; }) - at;
}

MILLRACE_DEVICE uint32_t without_cr(const uint8_t* data, uint32_t at, uint32_t bytes) {
    return bytes > 0 && data[at + bytes - 1] == '\r' ? bytes - 1 : bytes;
}

template <class Lanes>
MILLRACE_DEVICE bool find_start_line(const uint8_t* data, uint32_t bytes, HttpHead& head, Lanes lanes) {
    if (bytes < 10) return false;
    uint32_t space = 0;
    const bool response = is_http_version(data, bytes);
    if (response) {
        while (space < 12 && space < bytes && data[space] != ' ') ++space;
    } else {
        while (space < 32 && space < bytes && ((data[space] >= 'A' && data[space] <= 'Z') || data[space] == '_'))
            ++space;
    }
    if (space == 0 || space >= bytes || data[space] != ' ') return false;
    const uint32_t line = line_bytes(data, bytes, 0, lanes);
    head.line_end = without_cr(data, 0, line);
    if (space >= head.line_end) return false;
    head.first_space = space;
    if (response) {
        head.second_space = smaller(space + 4, head.line_end);
        head.kind = HttpHead::Kind::response;
    } else {
        uint32_t last = head.line_end;
        while (last > space && data[last - 1] != ' ') --last;
        if (last <= space + 1 || !is_http_version(data + last, head.line_end - last)) return false;
        head.second_space = last - 1;
        head.kind = HttpHead::Kind::request;
    }
    head.headers = smaller(line + 1, bytes);
    return true;
}

}  // namespace detail

/// The start line of the message that begins with the payload, or none; the headers are yet to be found.
template <class Lanes>
MILLRACE_DEVICE_CALL HttpHead find_http_start(const uint8_t* data, uint32_t bytes, Lanes lanes) {
    HttpHead head;
    return detail::find_start_line(data, bytes, head, lanes) ? head : HttpHead{};
}

/// The same with its headers, which takes a look at each of their bytes.
template <class Lanes>
MILLRACE_DEVICE_CALL HttpHead find_http_head(const uint8_t* data, uint32_t bytes, HttpHead head, Lanes lanes) {
    head.headers_end = head.body = bytes;
    if (head.headers == bytes) return head;
    // A line feed, the start line's or another, and an empty line behind it.
    const uint32_t before = head.headers - 1;
    const uint32_t feed = first_window(
        lanes, data, bytes, before, bytes - 1,
        [](uint32_t window) { return (window & 0xffff) == 0x0a0a || (window & 0xffffff) == 0x0a0d0a; },
        [&](uint32_t i) { return data[i + 1] == '\n' || i + 2 < bytes; });
    if (feed < bytes - 1) {
        head.complete = true;
        head.headers_end = feed + 1;
        head.body = feed + (data[feed + 1] == '\n' ? 2 : 3);
    } else if (data[bytes - 1] == '\r' && data[bytes - 2] == '\n') {
        head.headers_end = bytes - 1;  // it may go on with a line feed
    }
    return head;
}

/// The head of a message that is known as such, whatever it looks like: a line's first two words where there are any.
template <class Lanes>
MILLRACE_DEVICE_CALL HttpHead find_message_start(const uint8_t* data, const MessageParts& message, Lanes lanes) {
    HttpHead head = find_http_start(data, message.head, lanes);
    const HttpHead::Kind kind = message.is_response ? HttpHead::Kind::response : HttpHead::Kind::request;
    if (head.kind == kind) return head;
    const uint32_t line = detail::line_bytes(data, message.head, 0, lanes);
    const uint32_t end = detail::without_cr(data, 0, line);
    head.kind = kind;
    head.headers = smaller(line + 1, message.head);
    head.line_end = end;
    while (head.first_space < end && data[head.first_space] != ' ') ++head.first_space;
    head.second_space = smaller(head.first_space + 1, end);
    while (head.second_space < end && data[head.second_space] != ' ') ++head.second_space;
    return head;
}

/// The value of the first header line whose name, behind the line feed before it and with the colon behind it, is
/// `literal`, in lower case.
template <class Lanes>
MILLRACE_DEVICE_CALL Part find_header(const uint8_t* data, const HttpHead& head, const char* literal, Lanes lanes) {
    uint32_t bytes = 0;
    while (literal[bytes] != 0) ++bytes;
    if (head.headers_end < head.headers - 1 + bytes) return {};
    const uint32_t behind = head.headers_end - bytes + 1;
    const uint32_t feed = first_literal(lanes, data, head.headers_end, head.headers - 1, behind,
                                        reinterpret_cast<const uint8_t*>(literal), bytes, true);
    if (feed == behind) return {};
    uint32_t i = feed + bytes;
    uint32_t last = i + detail::line_bytes(data, head.headers_end, i, lanes);
    last = i + detail::without_cr(data, i, last - i);
    while (i < last && (data[i] == ' ' || data[i] == '\t')) ++i;
    while (last > i && (data[last - 1] == ' ' || data[last - 1] == '\t')) --last;
    return {i, last - i, true};
}

namespace detail {
/// What PayloadBuffers know of the HTTP message that they belong to.
template <bool kOfMessages>
struct OfMessage {
    bool is_message = false;
    TakenFor taken_for = TakenFor::what_it_is;
    MessageParts parts;
};
/// Nothing: code that asks is left out, as a GPU's instruction cache limits the search.
template <>
struct OfMessage<false> {
    static constexpr bool is_message = false;
    static constexpr TakenFor taken_for = TakenFor::what_it_is;
};
}  // namespace detail

/// Finds buffers in one payload; what several rules need is found once. Every lane has its own, and all ask at once.
/// `kOfMessages`: where HTTP messages are followed, and the bytes may be one's, or a part of one.
template <class Lanes = millrace::Lanes<1>, bool kOfMessages = false>
class PayloadBuffers : detail::OfMessage<kOfMessages> {
    using Message = detail::OfMessage<kOfMessages>;

public:
    static constexpr uint32_t kScratchBytes = 512;

    MILLRACE_DEVICE PayloadBuffers(const uint8_t* data, uint32_t bytes, bool tcp, Lanes lanes = {})
        : data_(data), bytes_(bytes), tcp_(tcp), lanes_(lanes) {}
    /// Of a message: `bytes` are those of its head and some of its body.
    MILLRACE_DEVICE PayloadBuffers(const uint8_t* data, uint32_t bytes, const MessageParts& message, Lanes lanes = {})
        requires kOfMessages
        : Message{true, TakenFor::what_it_is, message}, data_(data), bytes_(bytes), tcp_(true), lanes_(lanes) {}

    MILLRACE_DEVICE const uint8_t* data() const { return data_; }
    MILLRACE_DEVICE uint32_t bytes() const { return bytes_; }
    /// Whether an HTTP message begins here, which most rules of HTTP ask for and no more.
    MILLRACE_DEVICE HttpHead::Kind http_kind() { return http_start().kind; }
    MILLRACE_DEVICE bool is_tls() const { return tcp_ && !Message::is_message && looks_like_tls(data_, bytes_); }

    MILLRACE_DEVICE void take_for(TakenFor what)
        requires kOfMessages
    {
        Message::taken_for = what;
    }

    /// The buffer as bytes, until the next call; with `dot_prefix` a '.' stands before it (Suricata's `dotprefix`).
    MILLRACE_DEVICE Span find(Buffer buffer, bool dot_prefix) {
        Span span;
        if (is_open(buffer)) {
            span.open = true;
            return span;
        }
        if (buffer == Buffer::payload ||
            (Message::taken_for == TakenFor::body && is_of_body(buffer) && !is_of_whole_body(buffer))) {
            span = {data_, bytes_, true};
        } else if (buffer == Buffer::dns_query) {
            span = dns_query();
        } else if (buffer == Buffer::http_header_names) {
            span = header_names();
        } else {
            const Part part = buffer == Buffer::tls_sni && tcp_ ? find_tls_sni(data_, bytes_) : http_part(buffer);
            span = {data_ + part.at, part.bytes, part.present};
        }
        if (!dot_prefix || !span.present) return span;
        if (span.bytes + 1 > kScratchBytes) return {};
        for (uint32_t i = span.bytes; i > 0; --i) scratch_[i] = span.data[i - 1];
        scratch_[0] = '.';
        return {scratch_, span.bytes + 1, true};
    }

private:
    MILLRACE_DEVICE bool is_open(Buffer buffer) const {
        if (Message::taken_for == TakenFor::what_it_is || !is_of_http(buffer)) return false;
        return is_of_body(buffer) == (Message::taken_for == TakenFor::head);
    }
    MILLRACE_DEVICE const HttpHead& http_start() {
        if (known_ == Known::nothing) {
            http_ = tcp_ ? find_start() : HttpHead{};
            known_ = Known::start;
        }
        return http_;
    }
    MILLRACE_DEVICE HttpHead find_start() const {
        if constexpr (kOfMessages)
            if (Message::is_message) return find_message_start(data_, Message::parts, lanes_);
        return find_http_start(data_, bytes_, lanes_);
    }
    /// There must be a start line.
    MILLRACE_DEVICE const HttpHead& http_head() {
        if (known_ != Known::head) http_ = find_head();
        known_ = Known::head;
        return http_;
    }
    MILLRACE_DEVICE HttpHead find_head() const {
        if constexpr (!kOfMessages) return find_http_head(data_, bytes_, http_, lanes_);
        else if (!Message::is_message) return find_http_head(data_, bytes_, http_, lanes_);
        else {
            HttpHead head = find_http_head(data_, Message::parts.head, http_, lanes_);
            head.body = Message::parts.head;
            head.complete = !Message::parts.is_cut;
            return head;
        }
    }

    MILLRACE_DEVICE Part http_part(Buffer buffer) {
        if (Message::taken_for == TakenFor::body) return {};
        const HttpHead::Kind kind = http_start().kind;
        if (buffer == Buffer::file_data_part && kind == HttpHead::Kind::none) return {0, bytes_, bytes_ > 0};
        if (kind == HttpHead::Kind::none) return {};
        const bool request = kind == HttpHead::Kind::request;
        if (is_in_start_line(buffer)) return start_line_part(buffer, http_, request);
        if constexpr (kOfMessages)
            if (Message::is_message && !Message::parts.from_start && is_of_whole_body(buffer)) return {};
        // Rules of one list often look into the same header.
        if (buffer != last_) last_part_ = part_behind(buffer, http_head(), request);
        last_ = buffer;
        return last_part_;
    }
    MILLRACE_DEVICE static Part start_line_part(Buffer buffer, const HttpHead& head, bool request) {
        if (head.first_space >= head.second_space) return {};  // no line has come
        switch (buffer) {
            case Buffer::http_method: return {0, head.first_space, request};
            case Buffer::http_uri: return {head.first_space + 1, head.second_space - head.first_space - 1, request};
            case Buffer::http_protocol:
                if (request && head.second_space >= head.line_end) return {};
                return request ? Part{head.second_space + 1, head.line_end - head.second_space - 1, true}
                               : Part{0, head.first_space, true};
            case Buffer::http_request_line: return {0, head.line_end, request};
            case Buffer::http_response_line: return {0, head.line_end, !request};
            case Buffer::http_stat_code:
                return {head.first_space + 1, head.second_space - head.first_space - 1, !request};
            case Buffer::http_stat_msg: {
                const uint32_t at = smaller(head.second_space + 1, head.line_end);
                return {at, head.line_end - at, !request};
            }
            default: return {};
        }
    }
    MILLRACE_DEVICE Part part_behind(Buffer buffer, const HttpHead& head, bool request) const {
        const uint32_t rest = bytes_ - head.body;
        switch (buffer) {
            case Buffer::http_header: return {head.headers, head.headers_end - head.headers, true};
            case Buffer::http_start: return {0, head.body, head.complete};
            case Buffer::http_request_body:
            case Buffer::http_request_body_part: return {head.body, rest, request && rest > 0};
            case Buffer::http_response_body:
            case Buffer::http_response_body_part:
            case Buffer::file_data:
            case Buffer::file_data_part: return {head.body, rest, !request && rest > 0};
            default: return header_value(buffer, head);
        }
    }

    MILLRACE_DEVICE Part header_value(Buffer buffer, const HttpHead& head) const {
        const char* literal = "";
        switch (buffer) {
            case Buffer::http_host:
            case Buffer::http_host_raw: literal = "\nhost:"; break;
            case Buffer::http_user_agent: literal = "\nuser-agent:"; break;
            case Buffer::http_cookie:
                literal = head.kind == HttpHead::Kind::request ? "\ncookie:" : "\nset-cookie:";
                break;
            case Buffer::http_referer: literal = "\nreferer:"; break;
            case Buffer::http_content_type: literal = "\ncontent-type:"; break;
            case Buffer::http_content_len: literal = "\ncontent-length:"; break;
            case Buffer::http_accept: literal = "\naccept:"; break;
            case Buffer::http_accept_lang: literal = "\naccept-language:"; break;
            case Buffer::http_accept_enc: literal = "\naccept-encoding:"; break;
            case Buffer::http_connection: literal = "\nconnection:"; break;
            case Buffer::http_location: literal = "\nlocation:"; break;
            case Buffer::http_server: literal = "\nserver:"; break;
            default: return {};
        }
        Part part = find_header(data_, head, literal, lanes_);
        if (buffer == Buffer::http_host && part.present && data_[part.at] != '[') {
            uint32_t length = 0;  // without the port
            while (length < part.bytes && data_[part.at + length] != ':') ++length;
            part.bytes = length;
        }
        return part;
    }

    /// The name of the first question, with dots, of a DNS query (RFC 1035, section 4.1).
    MILLRACE_DEVICE_CALL Span dns_query() {
        const uint32_t start = tcp_ ? 2 : 0;  // over TCP a length comes first (section 4.2.2)
        if (bytes_ < start + 12 + 5) return {};
        const uint8_t* message = data_ + start;
        const uint32_t bytes = bytes_ - start;
        if ((message[2] & 0x80) != 0 || load_be16(message + 4) == 0) return {};
        uint32_t at = 12, length = 0;
        while (at < bytes && message[at] != 0) {
            const uint32_t label = message[at];
            if (label > 63 || at + 1 + label >= bytes || length + label + 1 > 255) return {};
            if (length > 0) scratch_[length++] = '.';
            for (uint32_t i = 0; i < label; ++i) scratch_[length++] = message[at + 1 + i];
            at += 1 + label;
        }
        if (at + 5 > bytes) return {};
        return {scratch_, length, true};
    }

    /// CR LF, each header's name followed by CR LF, CR LF: Suricata's `http.header_names`.
    MILLRACE_DEVICE_CALL Span header_names() {
        if (http_kind() == HttpHead::Kind::none) return {};
        const HttpHead& head = http_head();
        if (!head.complete) return {};
        uint32_t length = 0;
        scratch_[length++] = '\r';
        scratch_[length++] = '\n';
        for (uint32_t at = head.headers; at < head.headers_end;) {
            const uint32_t line = detail::line_bytes(data_, head.headers_end, at, lanes_);
            for (uint32_t i = at; i < at + line && data_[i] != ':' && data_[i] != '\r'; ++i) {
                if (length + 5 > kScratchBytes) return {};
                scratch_[length++] = data_[i];
            }
            if (length + 4 > kScratchBytes) return {};
            scratch_[length++] = '\r';
            scratch_[length++] = '\n';
            at += line + 1;
        }
        scratch_[length++] = '\r';
        scratch_[length++] = '\n';
        return {scratch_, length, true};
    }

    const uint8_t* data_;
    uint32_t bytes_;
    bool tcp_;
    enum class Known : uint8_t { nothing, start, head };
    Known known_ = Known::nothing;  ///< of `http_`
    HttpHead http_;
    Buffer last_ = Buffer::payload;  ///< the one that was looked for last of those behind the start line
    Part last_part_;
    Lanes lanes_;
    alignas(8) uint8_t scratch_[kScratchBytes];  ///< lanes read whole words
};

}  // namespace millrace::nf::nids
