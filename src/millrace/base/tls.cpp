#include "millrace/base/tls.hpp"

#include <stdexcept>

#if MILLRACE_TLS

#include <arpa/inet.h>
#include <openssl/bio.h>
#include <openssl/err.h>
#include <openssl/pem.h>
#include <openssl/ssl.h>
#include <openssl/x509v3.h>
#include <sys/socket.h>

#include <algorithm>
#include <cerrno>
#include <cstring>

namespace millrace {
namespace {

template <auto Free>
struct Freed {
    template <class T>
    void operator()(T* thing) const {
        Free(thing);
    }
};
using Bio = std::unique_ptr<BIO, Freed<BIO_free>>;
using Certificate = std::unique_ptr<X509, Freed<X509_free>>;
using Key = std::unique_ptr<EVP_PKEY, Freed<EVP_PKEY_free>>;

Bio text_of(const std::string& pem) { return Bio(BIO_new_mem_buf(pem.data(), static_cast<int>(pem.size()))); }

/// What the library says of its last mistake.
std::string library_trouble() {
    std::string trouble;
    while (const unsigned long error = ERR_get_error()) {
        const char* const reason = ERR_reason_error_string(error);
        if (reason != nullptr) trouble = reason;
    }
    return trouble;
}

[[noreturn]] void fail(const std::string& what) {
    const std::string trouble = library_trouble();
    throw std::runtime_error(trouble.empty() ? what : what + " (" + trouble + ")");
}

/// Nobody is there to type a password.
int no_password(char*, int, int, void*) { return -1; }

/// The library's own way to a socket would end the program when the other side has gone (SIGPIPE).
int write_quietly(BIO* bio, const char* data, int count) {
    BIO_clear_retry_flags(bio);
    const ssize_t sent = ::send(static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))), data,
                                static_cast<size_t>(count), MSG_NOSIGNAL);
    if (sent < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_write(bio);
    return static_cast<int>(sent);
}
int read_socket(BIO* bio, char* data, int count) {
    BIO_clear_retry_flags(bio);
    const ssize_t got = ::recv(static_cast<int>(reinterpret_cast<intptr_t>(BIO_get_data(bio))), data,
                               static_cast<size_t>(count), 0);
    if (got < 0 && (errno == EAGAIN || errno == EINTR)) BIO_set_retry_read(bio);
    return static_cast<int>(got);
}
long control_socket(BIO*, int command, long, void*) { return command == BIO_CTRL_FLUSH ? 1 : 0; }

BIO* make_bio(int socket) {
    static BIO_METHOD* const method = [] {
        BIO_METHOD* const made = BIO_meth_new(BIO_get_new_index() | BIO_TYPE_SOURCE_SINK, "socket without signals");
        BIO_meth_set_write(made, write_quietly);
        BIO_meth_set_read(made, read_socket);
        BIO_meth_set_ctrl(made, control_socket);
        return made;
    }();
    BIO* const bio = BIO_new(method);
    BIO_set_data(bio, reinterpret_cast<void*>(static_cast<intptr_t>(socket)));
    BIO_set_init(bio, 1);
    return bio;
}

}  // namespace

struct TlsContext::Library {
    std::unique_ptr<SSL_CTX, Freed<SSL_CTX_free>> context{SSL_CTX_new(TLS_method())};
};

bool TlsContext::is_built_in() { return true; }

TlsContext::TlsContext(TlsFiles files) : files_(std::move(files)), library_(std::make_unique<Library>()) {
    ERR_clear_error();
    SSL_CTX* const context = library_->context.get();
    SSL_CTX_set_min_proto_version(context, TLS1_2_VERSION);
    SSL_CTX_set_mode(context, SSL_MODE_ENABLE_PARTIAL_WRITE | SSL_MODE_ACCEPT_MOVING_WRITE_BUFFER);
    SSL_CTX_set_verify(context, SSL_VERIFY_PEER | SSL_VERIFY_FAIL_IF_NO_PEER_CERT, nullptr);
    // A session taken up again would not be verified again.
    SSL_CTX_set_session_cache_mode(context, SSL_SESS_CACHE_OFF);
    SSL_CTX_set_options(context, SSL_OP_NO_TICKET | SSL_OP_NO_RENEGOTIATION);

    const Bio own = text_of(files_.certificate);
    const Certificate certificate(PEM_read_bio_X509(own.get(), nullptr, no_password, nullptr));
    if (certificate == nullptr || SSL_CTX_use_certificate(context, certificate.get()) != 1)
        fail("the certificate is none in PEM");
    while (X509* const next = PEM_read_bio_X509(own.get(), nullptr, no_password, nullptr))
        if (SSL_CTX_add0_chain_cert(context, next) != 1) fail("the certificate's chain does not hold");
    ERR_clear_error();  // the end of the text is none
    const Bio key_text = text_of(files_.key);
    const Key key(PEM_read_bio_PrivateKey(key_text.get(), nullptr, no_password, nullptr));
    if (key == nullptr) fail("the private key is none in PEM, or has a password");
    if (SSL_CTX_use_PrivateKey(context, key.get()) != 1 || SSL_CTX_check_private_key(context) != 1)
        fail("the private key is not that of the certificate");
    const Bio authorities = text_of(files_.authorities);
    unsigned trusted = 0;
    while (const Certificate authority{PEM_read_bio_X509(authorities.get(), nullptr, no_password, nullptr)}) {
        if (X509_STORE_add_cert(SSL_CTX_get_cert_store(context), authority.get()) != 1)
            fail("an authority's certificate does not hold");
        SSL_CTX_add_client_CA(context, authority.get());
        ++trusted;
    }
    ERR_clear_error();
    if (trusted == 0) throw std::runtime_error("there is no authority's certificate in PEM");
}

TlsContext::~TlsContext() = default;

struct TlsStream::Library {
    std::unique_ptr<SSL, Freed<SSL_free>> ssl;
};

TlsStream::TlsStream(const TlsContext& context, int socket, Side side) : library_(std::make_unique<Library>()) {
    library_->ssl.reset(SSL_new(context.library_->context.get()));
    SSL* const ssl = library_->ssl.get();
    BIO* const bio = make_bio(socket);
    SSL_set_bio(ssl, bio, bio);
    if (side == Side::server) SSL_set_accept_state(ssl);
    else SSL_set_connect_state(ssl);
    const std::string& name = context.files().name;
    if (name.empty()) return;
    uint8_t address[16];
    if (inet_pton(AF_INET, name.c_str(), address) == 1 || inet_pton(AF_INET6, name.c_str(), address) == 1) {
        X509_VERIFY_PARAM_set1_ip_asc(SSL_get0_param(ssl), name.c_str());
    } else {
        SSL_set1_host(ssl, name.c_str());
        if (side == Side::client) SSL_set_tlsext_host_name(ssl, name.c_str());
    }
}

TlsStream::~TlsStream() = default;

TlsStream::Progress TlsStream::judge(int result) {
    waits_to_send_ = false;
    const SSL* const ssl = library_->ssl.get();
    switch (SSL_get_error(ssl, result)) {
        case SSL_ERROR_NONE: return Progress::done;
        case SSL_ERROR_WANT_WRITE: waits_to_send_ = true; [[fallthrough]];
        case SSL_ERROR_WANT_READ: return Progress::waits;
        case SSL_ERROR_ZERO_RETURN: return Progress::over;
        default: break;
    }
    if (const long verified = SSL_get_verify_result(ssl); verified != X509_V_OK)
        trouble_ = std::string("the other side's certificate is refused: ") + X509_verify_cert_error_string(verified);
    else trouble_ = library_trouble();
    if (trouble_.empty()) trouble_ = errno != 0 ? std::strerror(errno) : "the other side has gone";
    return Progress::over;
}

TlsStream::Progress TlsStream::shake_hands() {
    ERR_clear_error();
    errno = 0;
    return judge(SSL_do_handshake(library_->ssl.get()));
}

ssize_t TlsStream::receive(std::span<uint8_t> buffer) {
    ERR_clear_error();
    errno = 0;
    const int got = SSL_read(library_->ssl.get(), buffer.data(), static_cast<int>(buffer.size()));
    if (got > 0) return got;
    return judge(got) == Progress::waits ? -1 : 0;
}

ssize_t TlsStream::send(std::span<const uint8_t> bytes) {
    constexpr size_t kMax = size_t{1} << 30;
    ERR_clear_error();
    errno = 0;
    const int sent = SSL_write(library_->ssl.get(), bytes.data(), static_cast<int>(std::min(bytes.size(), kMax)));
    if (sent > 0) return sent;
    return judge(sent) == Progress::waits ? -1 : -2;
}

bool TlsStream::has_more() const { return SSL_pending(library_->ssl.get()) > 0; }

}  // namespace millrace

#else

namespace millrace {

struct TlsContext::Library {};
struct TlsStream::Library {};
bool TlsContext::is_built_in() { return false; }
TlsContext::TlsContext(TlsFiles) { throw std::runtime_error("this build has no TLS: OpenSSL was not there"); }
TlsContext::~TlsContext() = default;
TlsStream::TlsStream(const TlsContext&, int, Side) {}
TlsStream::~TlsStream() = default;
TlsStream::Progress TlsStream::judge(int) { return Progress::over; }
TlsStream::Progress TlsStream::shake_hands() { return Progress::over; }
ssize_t TlsStream::receive(std::span<uint8_t>) { return 0; }
ssize_t TlsStream::send(std::span<const uint8_t>) { return -2; }
bool TlsStream::has_more() const { return false; }

}  // namespace millrace

#endif
