// Certificates that tests make for themselves.
#pragma once

#include <openssl/evp.h>
#include <openssl/pem.h>
#include <openssl/x509.h>
#include <openssl/x509v3.h>

#include <memory>
#include <string>

#include "millrace/base/tls.hpp"

namespace millrace::test {

/// Somebody with a key and a certificate, who may be an authority.
class Identity {
public:
    /// Signed by `issuer`, or by itself where there is none; holds from `from` to `to`, in seconds from now.
    explicit Identity(const std::string& name, const Identity* issuer = nullptr, long from = -3600, long to = 3600)
        : key_(EVP_EC_gen("P-256"), EVP_PKEY_free), certificate_(X509_new(), X509_free) {
        static long serial = 1;
        X509* const made = certificate_.get();
        X509_set_version(made, X509_VERSION_3);
        ASN1_INTEGER_set(X509_get_serialNumber(made), serial++);
        X509_gmtime_adj(X509_getm_notBefore(made), from);
        X509_gmtime_adj(X509_getm_notAfter(made), to);
        X509_set_pubkey(made, key_.get());
        X509_NAME_add_entry_by_txt(X509_get_subject_name(made), "CN", MBSTRING_UTF8,
                                   reinterpret_cast<const unsigned char*>(name.c_str()), -1, -1, 0);
        X509_set_issuer_name(made, X509_get_subject_name(issuer == nullptr ? made : issuer->certificate_.get()));
        if (issuer == nullptr) extend(NID_basic_constraints, "critical,CA:TRUE");
        else extend(NID_subject_alt_name, "DNS:" + name + ",IP:127.0.0.1");
        X509_sign(made, issuer == nullptr ? key_.get() : issuer->key_.get(), EVP_sha256());
    }

    std::string certificate() const {
        return text([this](BIO* out) { PEM_write_bio_X509(out, certificate_.get()); });
    }
    std::string key() const {
        return text(
            [this](BIO* out) { PEM_write_bio_PrivateKey(out, key_.get(), nullptr, nullptr, 0, nullptr, nullptr); });
    }
    /// Trusts `authority`, and wants the other side's certificate to be for `peer`, where that is given.
    std::shared_ptr<const TlsContext> context(const Identity& authority, const std::string& peer = {}) const {
        return std::make_shared<const TlsContext>(TlsFiles{certificate(), key(), authority.certificate(), peer});
    }

private:
    void extend(int kind, const std::string& value) {
        X509_EXTENSION* const extension = X509V3_EXT_conf_nid(nullptr, nullptr, kind, value.c_str());
        X509_add_ext(certificate_.get(), extension, -1);
        X509_EXTENSION_free(extension);
    }
    template <class Write>
    static std::string text(Write&& write) {
        const std::unique_ptr<BIO, decltype(&BIO_free)> out(BIO_new(BIO_s_mem()), BIO_free);
        write(out.get());
        char* data = nullptr;
        const long bytes = BIO_get_mem_data(out.get(), &data);
        return {data, static_cast<size_t>(bytes)};
    }

    std::unique_ptr<EVP_PKEY, decltype(&EVP_PKEY_free)> key_;
    std::unique_ptr<X509, decltype(&X509_free)> certificate_;
};

}  // namespace millrace::test
