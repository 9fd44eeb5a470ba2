#include <gtest/gtest.h>

#include <etna/etna.h>
#include <etna/tensor/io/gguf.h>
#include <io/gguf_bytes.h>

#include "tensor/file_bytes.h"

namespace etna::io {
namespace {

TEST(DamagedGguf, IsNamedByItsErrors) {
  expect_safe_on_damage(small_gguf().text, [](const std::filesystem::path& path) {
    const GgufFile gguf(path);
    for (const GgufTensor& tensor : gguf.tensors()) gguf.load(tensor);
  });
}

}  // namespace
}  // namespace etna::io
