#include <etna/tensor/io/mapped_bytes.h>

#include <utility>

#include <etna/tensor/io/internal/mapped_file.h>

namespace etna::io {

MappedBytes::MappedBytes(std::shared_ptr<const MappedFile> file, std::size_t begin, std::size_t size)
    : file_(std::move(file)), bytes_(size == 0 ? nullptr : file_->bytes() + begin, size) {}

}  // namespace etna::io
