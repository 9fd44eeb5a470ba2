#include <csetjmp>
#include <cstdio>
#include <cstring>

#include <fmt/format.h>

#include <etna/data/internal/codecs/codecs.h>
#include <etna/device/error.h>

#ifdef ETNA_HAS_JPEG
#include <jpeglib.h>

#include <jerror.h>
#endif

namespace etna::data::codecs {

#ifdef ETNA_HAS_JPEG
namespace {

/// Errors leave libjpeg by longjmp(), which runs no destructors: the functions that it crosses hold plain values only.
struct JpegSession {
  jpeg_error_mgr errors;  // first: libjpeg hands out its address
  std::jmp_buf back;
  char message[JMSG_LENGTH_MAX] = "";
};

[[noreturn]] void jpeg_on_error(j_common_ptr jpeg) {
  auto* session = reinterpret_cast<JpegSession*>(jpeg->err);
  (*jpeg->err->format_message)(jpeg, session->message);
  std::longjmp(session->back, 1);
}

/// libjpeg fills what is missing with gray and warns; here that is an error. Bytes between markers are harmless.
void on_message(j_common_ptr jpeg, int level) {
  if (level < 0 && jpeg->err->msg_code != JWRN_EXTRANEOUS_DATA) jpeg_on_error(jpeg);
}

/// A progressive file may name any number of passes over all pixels; honest ones have about ten.
void on_progress(j_common_ptr jpeg) {
  constexpr int kMostScans = 200;
  if (jpeg->is_decompressor && reinterpret_cast<j_decompress_ptr>(jpeg)->input_scan_number > kMostScans) {
    std::snprintf(reinterpret_cast<JpegSession*>(jpeg->err)->message, JMSG_LENGTH_MAX, "it has more than %d scans",
                  kMostScans);
    std::longjmp(reinterpret_cast<JpegSession*>(jpeg->err)->back, 1);
  }
}

/// Starts decompression, up to the sizes.
bool start(jpeg_decompress_struct& jpeg, JpegSession& session, const unsigned char* bytes, std::size_t count) {
  if (setjmp(session.back)) return false;
  jpeg_create_decompress(&jpeg);
  jpeg_mem_src(&jpeg, bytes, count);
  jpeg_read_header(&jpeg, TRUE);
  return true;
}

bool begin(jpeg_decompress_struct& jpeg, JpegSession& session) {
  if (setjmp(session.back)) return false;
  jpeg_start_decompress(&jpeg);
  return true;
}

bool jpeg_read_pixels(jpeg_decompress_struct& jpeg, JpegSession& session, unsigned char* to, std::size_t row) {
  if (setjmp(session.back)) return false;
  while (jpeg.output_scanline < jpeg.output_height) {
    JSAMPROW at = to + jpeg.output_scanline * row;
    jpeg_read_scanlines(&jpeg, &at, 1);
  }
  jpeg_finish_decompress(&jpeg);
  return true;
}

struct Decompressor {
  Decompressor(JpegSession& session) { jpeg.err = &session.errors; }
  void watch() {
    progress.progress_monitor = on_progress;
    jpeg.progress = &progress;
  }
  ~Decompressor() { jpeg_destroy_decompress(&jpeg); }
  Decompressor(const Decompressor&) = delete;
  Decompressor& operator=(const Decompressor&) = delete;
  jpeg_decompress_struct jpeg{};
  jpeg_progress_mgr progress{};
};

}  // namespace

Pixels decode_jpeg(std::span<const std::byte> bytes, int channels, std::uint64_t most) {
  JpegSession session{};
  jpeg_std_error(&session.errors);
  session.errors.error_exit = jpeg_on_error;
  session.errors.emit_message = on_message;
  const auto fail = [&] { return FormatError(fmt::format("is a damaged JPEG file: {}", session.message)); };
  Decompressor decompressor(session);
  jpeg_decompress_struct& jpeg = decompressor.jpeg;
  if (!start(jpeg, session, reinterpret_cast<const unsigned char*>(bytes.data()), bytes.size())) throw fail();
  if (jpeg.jpeg_color_space == JCS_CMYK || jpeg.jpeg_color_space == JCS_YCCK)
    throw FormatError("is a JPEG file in CMYK, which is not read; convert it to RGB");
  const std::uint64_t count = std::uint64_t{jpeg.image_width} * jpeg.image_height;
  // The shortest code is one bit for a block of 64 pixels and each channel; four bits are generous.
  if (count / 64 / 16 > bytes.size())
    throw FormatError(fmt::format("claims {} x {} pixels in a JPEG file of {} bytes", jpeg.image_width,
                                  jpeg.image_height, bytes.size()));
  check_pixels(jpeg.image_height, jpeg.image_width, most);
  if (channels == 0) channels = jpeg.num_components == 1 ? 1 : 3;
  jpeg.out_color_space = channels == 1 ? JCS_GRAYSCALE : JCS_RGB;
  decompressor.watch();  // jpeg_create_decompress() cleared it
  if (!begin(jpeg, session)) throw fail();
  Pixels pixels{jpeg.output_height, jpeg.output_width, jpeg.output_components, {}};
  const std::size_t row = std::size_t{jpeg.output_width} * static_cast<std::size_t>(jpeg.output_components);
  pixels.values.resize(row * jpeg.output_height);
  if (!jpeg_read_pixels(jpeg, session, pixels.values.data(), row)) throw fail();
  return pixels;
}

#else

Pixels decode_jpeg(std::span<const std::byte>, int, std::uint64_t) {
  throw FormatError(
      "is a JPEG file, and this build of Etna has no libjpeg (Debian: libjpeg-dev); install it and "
      "configure again");
}

#endif

}  // namespace etna::data::codecs
