// The fields of an HTTP/1 head that say how its body is sent (RFC 9112, sections 6 and 7; RFC 9110, section 8.4), byte
// by byte as they come.
//
// Read as generously as any reader does whom a sender may want to reach: names with bytes in them or behind them that
// are no text, values that have the word somewhere in them, lines that end in CR or LF, values that go on in the next
// line. A body that turns out otherwise is taken as it is.
#pragma once

#include "millrace/nf/nids/scan.hpp"

namespace millrace::nf::nids::http {

/// What the fields have told.
struct BodyFields {
    static constexpr uint32_t kMaxCodings = 7;
    uint64_t length = 0;  ///< of the first Content-Length
    uint8_t has_length = 0;
    uint8_t chunked = 0;
    uint8_t codings = 0;  ///< how often gzip or deflate is named
    uint8_t unknown = 0;  ///< a coding is named that is neither, nor identity
};

/// Reads the lines behind the start line.
class FieldScan {
public:
    MILLRACE_DEVICE void begin() {
        at_ = Where::line_start;
        of_ = 0;
        place_ = 0;
        fields_ = {};
    }
    MILLRACE_DEVICE const BodyFields& fields() const { return fields_; }

    MILLRACE_DEVICE_CALL void take(uint8_t byte) {
        const bool ends_line = byte == '\n' || byte == '\r';
        switch (at_) {
            case Where::line_start:
                if (byte <= ' ') return;
                at_ = Where::name;
                of_ = kAll;
                place_ = 0;
                [[fallthrough]];
            case Where::name: name(byte, ends_line); return;
            case Where::behind_name:
                if (byte == ':') at_ = Where::value, begin_value();
                else if (byte > ' ' && byte < 0x7f) at_ = Where::skip;
                return;
            case Where::value:
                if (byte == '\n') at_ = Where::folds;
                else value(byte);
                return;
            case Where::folds:  // the value goes on if the next line begins with a blank
                if (byte == '\n' || byte == '\r' || byte > ' ') {
                    end_value();
                    at_ = Where::line_start;
                    take(byte);
                } else {
                    at_ = Where::value;
                    value(' ');
                }
                return;
            case Where::skip:
                if (ends_line) at_ = Where::line_start;
                return;
        }
    }
    /// The head is over.
    MILLRACE_DEVICE void end() {
        if (at_ == Where::value || at_ == Where::folds) end_value();
        at_ = Where::line_start;
    }

private:
    enum class Where : uint8_t { line_start, name, behind_name, value, folds, skip };
    static constexpr uint8_t kTransfer = 1, kCoding = 2, kLength = 4, kAll = 7;

    MILLRACE_DEVICE static const char* name_of(uint8_t which) {
        return which == kTransfer ? "transfer-encoding" : which == kCoding ? "content-encoding" : "content-length";
    }
    MILLRACE_DEVICE void name(uint8_t byte, bool ends_line) {
        if (byte == ':' || byte == ' ' || byte == '\t' || ends_line) {
            uint8_t whole = 0;
            for (uint8_t which = 1; which <= kLength; which = static_cast<uint8_t>(which * 2))
                if ((of_ & which) && name_of(which)[place_] == 0) whole = which;
            of_ = whole;
            if (whole == 0) {
                at_ = ends_line ? Where::line_start : Where::skip;
            } else if (byte == ':') {
                at_ = Where::value;
                begin_value();
            } else {
                at_ = Where::behind_name;
            }
            return;
        }
        if (byte < ' ' || byte >= 0x7f) return;  // as if it were not there
        const uint8_t lower = to_lower(byte);
        for (uint8_t which = 1; which <= kLength; which = static_cast<uint8_t>(which * 2))
            if ((of_ & which) && static_cast<uint8_t>(name_of(which)[place_]) != lower)
                of_ = static_cast<uint8_t>(of_ & ~which);
        ++place_;
        if (of_ == 0) at_ = Where::skip;
    }

    MILLRACE_DEVICE void begin_value() {
        chunked_ = gzip_ = deflate_ = identity_ = 0;
        digits_ = 0;
        word_ = known_ = false;
    }
    MILLRACE_DEVICE static void match(uint8_t& place, const char* word, uint8_t byte) {
        if (word[place] == 0) place = 0;
        place = static_cast<uint8_t>(static_cast<uint8_t>(word[place]) == byte ? place + 1
                                     : static_cast<uint8_t>(word[0]) == byte   ? 1
                                                                               : 0);
    }
    MILLRACE_DEVICE void value(uint8_t byte) {
        if (of_ == kLength) {
            const bool digit = byte >= '0' && byte <= '9';
            if (!digit && digits_ == 1) digits_ = 2;  // behind the number
            if (!digit || digits_ == 2 || fields_.has_length) return;
            if (digits_ == 0) fields_.length = 0;
            digits_ = 1;
            constexpr uint64_t kMax = ~uint64_t{0} / 16;
            fields_.length = fields_.length > kMax / 10 ? kMax : fields_.length * 10 + (byte - '0');
            return;
        }
        if (byte == ',') end_word();
        if (byte <= ' ' || byte >= 0x7f) return;
        const uint8_t lower = to_lower(byte);
        if (lower != ',') word_ = true;
        match(chunked_, "chunked", lower);
        if (chunked_ == 7 && of_ == kTransfer) fields_.chunked = 1;
        match(gzip_, "gzip", lower);
        match(deflate_, "deflate", lower);
        match(identity_, "identity", lower);
        if (gzip_ == 4 || deflate_ == 7) {
            known_ = true;
            if (fields_.codings < BodyFields::kMaxCodings) ++fields_.codings;
        }
        if (identity_ == 8) known_ = true;
    }
    MILLRACE_DEVICE void end_word() {
        if (of_ == kCoding && word_ && !known_) fields_.unknown = 1;
        word_ = known_ = false;
    }
    MILLRACE_DEVICE void end_value() {
        if (of_ == kLength && digits_ != 0) fields_.has_length = 1;
        if (of_ != kLength) end_word();
    }

    BodyFields fields_;
    Where at_;
    uint8_t of_;     ///< the fields whose name may be this one; the one whose value it is
    uint8_t place_;  ///< in the name
    uint8_t chunked_, gzip_, deflate_, identity_;
    uint8_t digits_;  ///< 0: none yet, 1: a number, 2: behind it
    bool word_, known_;
};

}  // namespace millrace::nf::nids::http
