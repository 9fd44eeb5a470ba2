#include <etna/train/internal/sha256.h>

#include <array>

#include <fmt/format.h>

#ifdef ETNA_HAS_OPENSSL
#include <openssl/evp.h>
#endif

#include <etna/device/error.h>

namespace etna::training {

#ifdef ETNA_HAS_OPENSSL

struct Sha256::Context {
  EVP_MD_CTX* handle = EVP_MD_CTX_new();
  ~Context() { EVP_MD_CTX_free(handle); }
};

namespace {

void require_hashed(int result) {
  if (result != 1) throw Error("SHA-256: libcrypto refuses it; is it restricted on this machine?");
}

}  // namespace

Sha256::Sha256() : context_(new Context) {
  require_hashed(context_->handle != nullptr ? EVP_DigestInit_ex(context_->handle, EVP_sha256(), nullptr) : 0);
}
Sha256::~Sha256() = default;

void Sha256::add(std::string_view bytes) {
  require_hashed(EVP_DigestUpdate(context_->handle, bytes.data(), bytes.size()));
}

std::string Sha256::digits() {
  std::array<unsigned char, EVP_MAX_MD_SIZE> bytes{};
  unsigned size = 0;
  require_hashed(EVP_DigestFinal_ex(context_->handle, bytes.data(), &size));
  std::string text;
  for (unsigned i = 0; i < size; ++i) text += fmt::format("{:02x}", bytes[i]);
  return text;
}

#else

struct Sha256::Context {};
Sha256::Sha256() {
  throw Error("receipts need SHA-256, and this build has no libcrypto; build it where libssl-dev is installed");
}
Sha256::~Sha256() = default;
void Sha256::add(std::string_view) {}
std::string Sha256::digits() { return ""; }

#endif

}  // namespace etna::training
