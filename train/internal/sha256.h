#pragma once

#include <string>
#include <string_view>

#include <etna/device/owned.h>

namespace etna::training {

/// SHA-256 (FIPS 180-4) by libcrypto. @throws Error in a build without it
class Sha256 {
 public:
  Sha256();
  ~Sha256();
  Sha256(const Sha256&) = delete;
  Sha256& operator=(const Sha256&) = delete;

  void add(std::string_view bytes);
  /// 64 hexadecimal digits, of what was added. Ends the hash.
  std::string digits();

 private:
  struct Context;
  Owned<Context> context_;
};

}  // namespace etna::training
