#include <algorithm>
#include <csetjmp>
#include <cstring>

#include <fmt/format.h>

#include <etna/data/internal/codecs/codecs.h>
#include <etna/device/error.h>

#ifdef ETNA_HAS_PNG
#include <png.h>
#endif

namespace etna::data::codecs {

#ifdef ETNA_HAS_PNG
namespace {

/// What libpng's callbacks share with their caller. Errors leave libpng by longjmp(), which runs no destructors: the
/// functions that it crosses hold plain values only.
struct PngSession {
  const std::byte* at = nullptr;
  std::size_t left = 0;
  std::string* out = nullptr;
  char message[120] = "";
};

[[noreturn]] void png_on_error(png_structp png, png_const_charp text) {
  auto* session = static_cast<PngSession*>(png_get_error_ptr(png));
  std::strncpy(session->message, text, sizeof session->message - 1);
  png_longjmp(png, 1);
}

void on_warning(png_structp, png_const_charp) {}

void read_bytes(png_structp png, png_bytep to, std::size_t count) {
  auto* session = static_cast<PngSession*>(png_get_io_ptr(png));
  if (count > session->left) png_error(png, "it is cut short");
  std::memcpy(to, session->at, count);
  session->at += count;
  session->left -= count;
}

void write_bytes(png_structp png, png_bytep bytes, std::size_t count) {
  auto* session = static_cast<PngSession*>(png_get_io_ptr(png));
  bool fine = true;
  try {
    session->out->append(reinterpret_cast<const char*>(bytes), count);
  } catch (...) {
    fine = false;
  }
  if (!fine) png_error(png, "out of memory");
}

void flush(png_structp) {}

struct Reader {
  Reader(PngSession& session) {
    png = png_create_read_struct(PNG_LIBPNG_VER_STRING, &session, png_on_error, on_warning);
    info = png != nullptr ? png_create_info_struct(png) : nullptr;
    if (info == nullptr) {
      png_destroy_read_struct(&png, nullptr, nullptr);
      throw FormatError("cannot be read: libpng did not start");
    }
    png_set_read_fn(png, &session, read_bytes);
  }
  ~Reader() { png_destroy_read_struct(&png, &info, nullptr); }
  Reader(const Reader&) = delete;
  Reader& operator=(const Reader&) = delete;
  png_structp png;
  png_infop info = nullptr;
};

struct Size {
  png_uint_32 height, width;
  int channels;
};

/// Reads up to the pixels, and asks for plain channels of eight bits.
bool read_header(png_structp png, png_infop info, Size& size) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_info(png, info);
  png_set_expand(png);
  png_set_strip_16(png);
  png_set_interlace_handling(png);
  png_read_update_info(png, info);
  size = {png_get_image_height(png, info), png_get_image_width(png, info), png_get_channels(png, info)};
  return true;
}

bool png_read_pixels(png_structp png, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_read_image(png, rows);
  png_read_end(png, nullptr);
  return true;
}

bool write_all(png_structp png, png_infop info, const Pixels& pixels, int color, png_bytepp rows) {
  if (setjmp(png_jmpbuf(png))) return false;
  png_set_IHDR(png, info, static_cast<png_uint_32>(pixels.width), static_cast<png_uint_32>(pixels.height), 8, color,
               PNG_INTERLACE_NONE, PNG_COMPRESSION_TYPE_DEFAULT, PNG_FILTER_TYPE_DEFAULT);
  png_write_info(png, info);
  png_write_image(png, rows);
  png_write_end(png, nullptr);
  return true;
}

std::vector<png_bytep> rows_of(const Pixels& pixels) {
  std::vector<png_bytep> rows;
  for (std::int64_t y = 0; y < pixels.height; ++y)
    rows.push_back(const_cast<png_bytep>(pixels.values.data()) + y * pixels.width * pixels.channels);
  return rows;
}

}  // namespace

Pixels decode_png(std::span<const std::byte> bytes, std::uint64_t most) {
  PngSession session{bytes.data(), bytes.size(), nullptr, ""};
  const auto fail = [&] { return FormatError(fmt::format("is a damaged PNG file: {}", session.message)); };
  Reader reader(session);
  Size size{};
  if (!read_header(reader.png, reader.info, size)) throw fail();
  const std::uint64_t count = std::uint64_t{size.height} * size.width;
  // Deflate makes at most 1032 bytes of one, and a row holds at least a bit for a pixel.
  if (count / 8 / 1032 > bytes.size())
    throw FormatError(
        fmt::format("claims {} x {} pixels in a PNG file of {} bytes", size.width, size.height, bytes.size()));
  check_pixels(size.height, size.width, most);
  Pixels pixels{size.height, size.width, size.channels, {}};
  pixels.values.resize(static_cast<std::size_t>(count) * static_cast<std::size_t>(size.channels));
  std::vector<png_bytep> rows = rows_of(pixels);
  if (!png_read_pixels(reader.png, rows.data())) throw fail();
  return pixels;
}

std::string encode_png(const Pixels& pixels) {
  constexpr int kColors[] = {PNG_COLOR_TYPE_GRAY, PNG_COLOR_TYPE_GRAY_ALPHA, PNG_COLOR_TYPE_RGB,
                             PNG_COLOR_TYPE_RGB_ALPHA};
  std::string out;
  PngSession session{nullptr, 0, &out, ""};
  png_structp png = png_create_write_struct(PNG_LIBPNG_VER_STRING, &session, png_on_error, on_warning);
  png_infop info = png != nullptr ? png_create_info_struct(png) : nullptr;
  std::vector<png_bytep> rows = rows_of(pixels);
  bool fine = info != nullptr;
  if (fine) {
    png_set_write_fn(png, &session, write_bytes, flush);
    fine = write_all(png, info, pixels, kColors[pixels.channels - 1], rows.data());
  }
  png_destroy_write_struct(&png, &info);
  if (!fine) throw FormatError(fmt::format("cannot be written as PNG: {}", session.message));
  return out;
}

#else

namespace {
[[noreturn]] void refuse_without_libpng(const char* what) {
  throw FormatError(
      fmt::format("{} a PNG file, and this build of Etna has no libpng (Debian: libpng-dev); install it "
                  "and configure again",
                  what));
}
}  // namespace

Pixels decode_png(std::span<const std::byte>, std::uint64_t) { refuse_without_libpng("is"); }
std::string encode_png(const Pixels&) { refuse_without_libpng("should be"); }

#endif

}  // namespace etna::data::codecs
