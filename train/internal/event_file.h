#pragma once

#include <cstdint>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/device/owned.h>

/// TensorBoard's event files: records (length, masked CRC-32C, bytes, masked CRC-32C) of protocol buffers.
namespace etna::training {

class AppendFile;

/// Writes one file of scalars, `events.out.tfevents.<time>.<host>`. Each call is one write at its end.
class EventFileWriter {
 public:
  /// The file's name sorts behind those of the folder, so that TensorBoard reads it after them. A START event makes
  /// TensorBoard drop the points that earlier files have at `first_step` and later.
  /// @throws FormatError naming the file and the reason
  explicit EventFileWriter(const FilePath& folder, std::int64_t first_step = 0);
  ~EventFileWriter();
  EventFileWriter(const EventFileWriter&) = delete;
  EventFileWriter& operator=(const EventFileWriter&) = delete;

  using Values = std::vector<std::pair<std::string, double>>;
  /// One event with all values, rounded to f32, which is what the format holds. @param wall_time seconds since 1970
  /// @throws FormatError naming the file and the reason
  void scalars(std::int64_t step, const Values& values, double wall_time);

  const FilePath& path() const;

 private:
  Owned<AppendFile> file_;
};

struct Event {
  double wall_time = 0;
  std::int64_t step = 0;
  std::string file_version;  ///< of the first event
  bool session_start = false;
  std::vector<std::pair<std::string, float>> scalars;
};

struct EventFile {
  std::vector<Event> events;
  bool cut = false;  ///< the last record is not complete, as after a kill
};

/// Reads what EventFileWriter writes, and the scalars of other programs' files; skips fields that it does not know.
/// @throws FormatError naming the position, for a wrong checksum or a damaged record
EventFile read_event_file(const FilePath& file);

/// CRC-32C (Castagnoli), as of iSCSI: "123456789" gives 0xe3069283.
std::uint32_t crc32c(std::string_view bytes);

}  // namespace etna::training
