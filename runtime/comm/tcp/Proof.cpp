#include "comm/tcp/Proof.h"
#include "comm/Patience.h"
#include "support/Error.h"

#include <cstddef>
#include <dlfcn.h>
#include <unistd.h>
#include <vector>

using namespace scalify::rt;
using namespace scalify::rt::tcp;

namespace {
/// OpenSSL's libcrypto, opened when ranks meet over TCP: nothing else needs it.
/// These functions are the same in its versions 1.1 and 3.
struct Crypto {
  const void *(*sha256)();
  unsigned char *(*hmac)(const void *digest, const void *key, int keyBytes,
                         const unsigned char *data, size_t bytes,
                         unsigned char *out, unsigned *outBytes);
  int (*compare)(const void *a, const void *b, size_t bytes);

  Crypto() {
    void *library = nullptr;
    std::string faults;
    for (const char *name : {"libcrypto.so.3", "libcrypto.so.1.1"})
      if (!library) {
        library = ::dlopen(name, RTLD_NOW | RTLD_LOCAL);
        if (!library)
          faults += std::string("\n  ") + ::dlerror();
      }
    if (!library)
      unsupported("transport 'tcp' needs OpenSSL's libcrypto (Debian: "
                  "libssl3):" +
                  faults);
    find(library, "EVP_sha256", sha256);
    find(library, "HMAC", hmac);
    find(library, "CRYPTO_memcmp", compare);
  }

  template <typename F>
  static void find(void *library, const char *name, F &function) {
    function = reinterpret_cast<F>(::dlsym(library, name));
    if (!function)
      unsupported(std::string("OpenSSL's libcrypto lacks ") + name);
  }
};

const Crypto &crypto() {
  static const Crypto loaded;
  return loaded;
}
} // namespace

Nonce tcp::makeNonce() {
  Nonce nonce;
  if (::getentropy(nonce.data(), nonce.size()))
    failedCall("get random bytes");
  return nonce;
}

Proof tcp::prove(Side side, const Knowledge &knowledge, const Nonce &challenge,
                 const Hello &hello) {
  // All parts but the last have a fixed length, so two greetings differ in
  // their bytes.
  std::string text =
      side == Side::Caller ? "scalify tcp caller  " : "scalify tcp listener";
  text.append(challenge.begin(), challenge.end());
  text.append(reinterpret_cast<const char *>(&hello), offsetof(Hello, proof));
  text += knowledge.job;
  Proof proof = {};
  unsigned length = 0;
  const Crypto &library = crypto();
  // An empty key may not be null.
  if (!library.hmac(library.sha256(), knowledge.secret.c_str(),
                    int(knowledge.secret.size()),
                    reinterpret_cast<const unsigned char *>(text.data()),
                    text.size(), proof.data(), &length) ||
      length != proof.size())
    failed("OpenSSL cannot compute an HMAC-SHA-256");
  return proof;
}

bool tcp::isSame(const Proof &a, const Proof &b) {
  return crypto().compare(a.data(), b.data(), a.size()) == 0;
}
