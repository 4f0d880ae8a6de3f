#include "nf/nids/http/conversation.hpp"

#include <fmt/format.h>

#include "nf/nids/http/compress.hpp"

namespace millrace::nf::nids {
namespace {

std::string random_text(std::mt19937& rng, size_t bytes) {
    static const char* const kWords[] = {
        "HTTP/1.1 200 OK\r\n", "GET / HTTP/1.1\r\n", "word ", "another ", "\r\n\r\n", "0\r\n"};
    std::string text = "=";  // no body looks like the next message
    while (text.size() < bytes) text += kWords[rng() % std::size(kWords)];
    text.resize(bytes);
    return text;
}

/// A body with the fields that say how it is sent. `last`: it may end with the connection.
Said say(std::mt19937& rng, const std::string& start, size_t most, bool last) {
    Said said;
    said.body = random_text(rng, rng() % 5 == 0 ? 0 : rng() % most);
    said.head = start + "\r\nX-Field: " + std::string(rng() % 60, 'x') + "\r\n";
    std::string sent = said.body;
    switch (rng() % 6) {
        case 0:
            sent = compress(sent, Wrap::gzip, 1 + static_cast<int>(rng() % 9));
            said.head += "Content-Encoding: gzip\r\n";
            break;
        case 1:
            sent = compress(sent, rng() % 2 == 0 ? Wrap::zlib : Wrap::bare);
            said.head += "content-encoding:\tDEFLATE\r\n";
            break;
        case 2:
            sent = compress(compress(sent, Wrap::gzip), Wrap::zlib);
            said.head += "Content-Encoding: gzip,\r\n deflate\r\n";
            break;
        default: break;
    }
    if (rng() % 2 == 0) {
        sent = chunked(sent, rng);
        said.head += rng() % 2 == 0 ? "Transfer-Encoding: chunked\r\n"
                                    : "TRANSFER-ENCODING : chunked\r\nContent-Length: 3\r\n";
    } else if (!last) {
        said.head += fmt::format("Content-Length: {}\r\n", sent.size());
    }
    said.head += "\r\n";
    said.sent = sent;
    return said;
}

}  // namespace

std::string chunked(const std::string& body, std::mt19937& rng) {
    std::string sent;
    for (size_t at = 0; at < body.size();) {
        const size_t bytes = std::min<size_t>(body.size() - at, 1 + rng() % (1 + body.size() / 3));
        sent += fmt::format(fmt::runtime(rng() % 2 == 0 ? "{:x}" : "{:07X}"), bytes);
        if (rng() % 4 == 0) sent += " ;name=\"value\"";
        sent += "\r\n" + body.substr(at, bytes) + "\r\n";
        at += bytes;
    }
    return sent + "0\r\n" + (rng() % 3 == 0 ? "Trailer: value\r\n" : "") + "\r\n";
}

Conversation random_conversation(std::mt19937& rng, size_t most) {
    Conversation made;
    const size_t turns = 1 + rng() % 4;
    for (size_t i = 0; i < turns; ++i) {
        const bool last = i + 1 == turns;
        const std::string uri = fmt::format("/{}/{}", i, std::string(rng() % 40, 'u'));
        switch (rng() % 4) {
            case 0: made.requests.push_back({fmt::format("GET {} HTTP/1.1\r\nHost: a\r\n\r\n", uri), "", ""}); break;
            case 1: {
                made.requests.push_back({fmt::format("HEAD {} HTTP/1.1\r\nHost: a\r\n\r\n", uri), "", ""});
                made.answers.push_back({"HTTP/1.1 200 OK\r\nContent-Length: 1000\r\n\r\n", "", ""});
                continue;
            }
            default: made.requests.push_back(say(rng, fmt::format("POST {} HTTP/1.1", uri), most, false)); break;
        }
        if (rng() % 4 == 0) made.answers.push_back({"HTTP/1.1 100 Continue\r\n\r\n", "", ""});
        if (rng() % 5 == 0) made.answers.push_back({"HTTP/1.1 304 Not Modified\r\nETag: \"1\"\r\n\r\n", "", ""});
        else made.answers.push_back(say(rng, fmt::format("HTTP/1.1 {} As it is", 200 + rng() % 4), most, last));
    }
    return made;
}

}  // namespace millrace::nf::nids
