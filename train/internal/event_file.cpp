#include <etna/train/internal/event_file.h>

#include <algorithm>
#include <array>
#include <bit>
#include <charconv>
#include <chrono>
#include <cstring>
#include <filesystem>
#include <optional>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/process.h>
#include <etna/train/internal/append_file.h>
#include <etna/train/internal/read_bytes.h>

namespace etna::training {
namespace {

namespace fs = std::filesystem;

constexpr std::string_view kEventFilePrefix = "events.out.tfevents.";

// Field numbers of tensorflow.Event, Summary, Summary.Value and SessionLog.
constexpr std::uint32_t kWallTime = 1, kStep = 2, kFileVersion = 3, kSummary = 5, kSessionLog = 7;
constexpr std::uint32_t kValue = 1, kTag = 1, kSimpleValue = 2, kStatus = 1;
constexpr std::uint64_t kStart = 1;
enum Wire : std::uint32_t { varint = 0, fixed64 = 1, bytes = 2, fixed32 = 5 };

constexpr std::array<std::uint32_t, 256> crc_table() {
  std::array<std::uint32_t, 256> table{};
  for (std::uint32_t i = 0; i < 256; ++i) {
    std::uint32_t crc = i;
    for (int bit = 0; bit < 8; ++bit) crc = crc >> 1 ^ (crc & 1 ? 0x82f63b78u : 0u);
    table[i] = crc;
  }
  return table;
}

/// TFRecord stores checksums so that a checksum over data with checksums in it stays useful.
std::uint32_t masked(std::uint32_t crc) { return std::rotr(crc, 15) + 0xa282ead8u; }

template <typename T>
void put_fixed(std::string& out, T value) {
  for (std::size_t i = 0; i < sizeof(T); ++i) out += static_cast<char>(value >> (8 * i) & 0xff);
}

template <typename T>
T get_fixed(std::string_view at) {
  T value = 0;
  for (std::size_t i = 0; i < sizeof(T); ++i) value |= static_cast<T>(static_cast<unsigned char>(at[i])) << (8 * i);
  return value;
}

void put_varint(std::string& out, std::uint64_t value) {
  for (; value >= 0x80; value >>= 7) out += static_cast<char>((value & 0x7f) | 0x80);
  out += static_cast<char>(value);
}

void put_key(std::string& out, std::uint32_t field, Wire wire) { put_varint(out, field << 3 | wire); }

void put_bytes(std::string& out, std::uint32_t field, std::string_view value) {
  put_key(out, field, Wire::bytes);
  put_varint(out, value.size());
  out += value;
}

std::string event_head(double wall_time, std::int64_t step) {
  std::string event;
  put_key(event, kWallTime, Wire::fixed64);
  put_fixed(event, std::bit_cast<std::uint64_t>(wall_time));
  if (step != 0) {
    put_key(event, kStep, Wire::varint);
    put_varint(event, static_cast<std::uint64_t>(step));
  }
  return event;
}

std::string record(std::string_view event) {
  std::string out;
  put_fixed(out, static_cast<std::uint64_t>(event.size()));
  put_fixed(out, masked(crc32c(out)));
  out += event;
  put_fixed(out, masked(crc32c(event)));
  return out;
}

double now() { return std::chrono::duration<double>(std::chrono::system_clock::now().time_since_epoch()).count(); }

/// Reads the fields of one message, one after the other.
class Fields {
 public:
  explicit Fields(std::string_view message) : rest_(message) {}

  /// False at the end, and in a damaged message.
  bool next() {
    if (rest_.empty() || damaged_) return false;
    const std::uint64_t key = take_varint();
    field = static_cast<std::uint32_t>(key >> 3);
    wire = static_cast<std::uint32_t>(key & 7);
    if (field == 0 || key >> 32 != 0) damaged_ = true;
    switch (wire) {
      case Wire::varint:
        number = take_varint();
        break;
      case Wire::fixed64:
        text = take(8);
        break;
      case Wire::bytes:
        text = take(take_varint());
        break;
      case Wire::fixed32:
        text = take(4);
        break;
      default:
        damaged_ = true;
    }
    return !damaged_;
  }
  bool is(std::uint32_t wanted, Wire kind) const { return field == wanted && wire == kind; }
  bool damaged() const { return damaged_; }

  std::uint32_t field = 0, wire = 0;
  std::uint64_t number = 0;
  std::string_view text;

 private:
  std::uint64_t take_varint() {
    std::uint64_t value = 0;
    for (int shift = 0; shift < 70; shift += 7) {
      if (rest_.empty()) break;
      const auto byte = static_cast<unsigned char>(rest_[0]);
      rest_.remove_prefix(1);
      if (shift < 64) value |= static_cast<std::uint64_t>(byte & 0x7f) << shift;
      if (byte < 0x80) return value;
    }
    damaged_ = true;
    return 0;
  }
  std::string_view take(std::uint64_t count) {
    if (damaged_ || count > rest_.size()) {
      damaged_ = true;
      return {};
    }
    const std::string_view taken = rest_.substr(0, static_cast<std::size_t>(count));
    rest_.remove_prefix(static_cast<std::size_t>(count));
    return taken;
  }

  std::string_view rest_;
  bool damaged_ = false;
};

/// False for a damaged message.
bool parse_value(std::string_view message, Event& event) {
  std::string tag;
  std::optional<float> value;
  Fields fields(message);
  while (fields.next()) {
    if (fields.is(kTag, Wire::bytes)) tag = fields.text;
    if (fields.is(kSimpleValue, Wire::fixed32)) value = std::bit_cast<float>(get_fixed<std::uint32_t>(fields.text));
  }
  if (value) event.scalars.emplace_back(std::move(tag), *value);
  return !fields.damaged();
}

bool parse_event(std::string_view message, Event& event) {
  bool good = true;
  Fields fields(message);
  while (fields.next()) {
    if (fields.is(kWallTime, Wire::fixed64)) {
      event.wall_time = std::bit_cast<double>(get_fixed<std::uint64_t>(fields.text));
    } else if (fields.is(kStep, Wire::varint)) {
      event.step = static_cast<std::int64_t>(fields.number);
    } else if (fields.is(kFileVersion, Wire::bytes)) {
      event.file_version = fields.text;
    } else if (fields.is(kSummary, Wire::bytes)) {
      Fields summary(fields.text);
      while (summary.next()) {
        if (summary.is(kValue, Wire::bytes)) good = parse_value(summary.text, event) && good;
      }
      good = good && !summary.damaged();
    } else if (fields.is(kSessionLog, Wire::bytes)) {
      Fields session(fields.text);
      while (session.next()) {
        if (session.is(kStatus, Wire::varint)) event.session_start = session.number == kStart;
      }
      good = good && !session.damaged();
    }
  }
  return good && !fields.damaged();
}

/// This computer's name in the characters that file names have everywhere.
std::string host_name() {
  std::string host = os::host_name();
  if (host.empty()) return "localhost";
  for (char& c : host) {
    const bool plain =
        (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z') || c == '-' || c == '.' || c == '_';
    if (!plain) c = '_';
  }
  return host;
}

/// The time in the name of the latest event file of the folder; 0 without one.
std::int64_t latest_time(const FilePath& folder) {
  std::int64_t latest = 0;
  std::error_code ignored;
  for (fs::directory_iterator at(folder, ignored), end; !ignored && at != end; at.increment(ignored)) {
    const std::string name = at->path().filename().string();
    if (!name.starts_with(kEventFilePrefix)) continue;
    std::int64_t time = 0;
    std::from_chars(name.data() + kEventFilePrefix.size(), name.data() + name.size(), time);
    // A name from the far future must not run over.
    if (time < 9'999'999'999) latest = std::max(latest, time);
  }
  return latest;
}

std::unique_ptr<AppendFile> create(const FilePath& folder) {
  std::int64_t time = std::max(static_cast<std::int64_t>(now()), latest_time(folder) + 1);
  while (true) {
    const FilePath path = folder / fmt::format("{}{:010}.{}", kEventFilePrefix, time, host_name());
    try {
      return std::make_unique<AppendFile>(path, AppendFile::Open::only);
    } catch (const FormatError&) {
      std::error_code ignored;
      if (!fs::exists(path, ignored)) throw;
      ++time;  // another process was faster
    }
  }
}

}  // namespace

std::uint32_t crc32c(std::string_view bytes) {
  static constexpr std::array<std::uint32_t, 256> kTable = crc_table();
  std::uint32_t crc = ~0u;
  for (const char c : bytes) crc = crc >> 8 ^ kTable[(crc ^ static_cast<unsigned char>(c)) & 0xff];
  return ~crc;
}

EventFileWriter::EventFileWriter(const FilePath& folder, std::int64_t first_step) : file_(create(folder)) {
  std::string version = event_head(now(), 0);
  put_bytes(version, kFileVersion, "brain.Event:2");
  std::string start = event_head(now(), first_step);
  std::string session;
  put_key(session, kStatus, Wire::varint);
  put_varint(session, kStart);
  put_bytes(start, kSessionLog, session);
  file_->append(record(version) + record(start));
}

EventFileWriter::~EventFileWriter() = default;

void EventFileWriter::scalars(std::int64_t step, const Values& values, double wall_time) {
  std::string summary;
  for (const auto& [name, number] : values) {
    std::string value;
    put_bytes(value, kTag, name);
    put_key(value, kSimpleValue, Wire::fixed32);
    put_fixed(value, std::bit_cast<std::uint32_t>(static_cast<float>(number)));
    put_bytes(summary, kValue, value);
  }
  std::string event = event_head(wall_time, step);
  put_bytes(event, kSummary, summary);
  file_->append(record(event));
}

const FilePath& EventFileWriter::path() const { return file_->path(); }

EventFile read_event_file(const FilePath& file) {
  const std::string all = read_bytes(file);
  EventFile result;
  std::size_t at = 0;
  const auto refuse = [&](const char* what) {
    return FormatError(fmt::format("{}: {} at byte {}; the file is damaged", file.string(), what, at));
  };
  while (at < all.size()) {
    const std::string_view rest = std::string_view(all).substr(at);
    if (rest.size() < 12) {
      result.cut = true;
      break;
    }
    const auto length = get_fixed<std::uint64_t>(rest);
    if (get_fixed<std::uint32_t>(rest.substr(8)) != masked(crc32c(rest.substr(0, 8))))
      throw refuse("a length with a wrong checksum");
    if (rest.size() - 12 < 4 || length > rest.size() - 16) {
      result.cut = true;
      break;
    }
    const std::string_view event = rest.substr(12, static_cast<std::size_t>(length));
    if (get_fixed<std::uint32_t>(rest.substr(12 + event.size())) != masked(crc32c(event)))
      throw refuse("a record with a wrong checksum");
    Event parsed;
    if (!parse_event(event, parsed)) throw refuse("a record that is no event");
    result.events.push_back(std::move(parsed));
    at += 16 + event.size();
  }
  return result;
}

}  // namespace etna::training
