// HTTP conversations of which it is known what they say, for tests of whoever follows messages.
#pragma once

#include <random>
#include <string>
#include <vector>

namespace millrace::nf::nids {

/// One message as it is sent, and what it says.
struct Said {
    std::string head;  ///< with the empty line
    std::string sent;  ///< the body, as it is sent
    std::string body;
};

/// What both ends of a connection say, in as many requests as answers; a body that ends with the connection is the
/// last.
struct Conversation {
    std::vector<Said> requests, answers;
    std::string from_client() const { return all(requests); }
    std::string from_server() const { return all(answers); }

private:
    static std::string all(const std::vector<Said>& messages) {
        std::string text;
        for (const Said& said : messages) text += said.head + said.sent;
        return text;
    }
};

/// A body in chunks of random sizes, with extensions and trailers.
std::string chunked(const std::string& body, std::mt19937& rng);

/// Several requests and answers, of every framing and coding; bodies of up to `most` bytes.
Conversation random_conversation(std::mt19937& rng, size_t most);

}  // namespace millrace::nf::nids
