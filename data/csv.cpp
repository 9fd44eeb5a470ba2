#include <etna/data/csv.h>

#include <algorithm>
#include <charconv>
#include <cmath>
#include <limits>
#include <set>
#include <type_traits>
#include <utility>

#include <fmt/format.h>
#include <fmt/ranges.h>

#include <etna/data/text_file.h>
#include <etna/device/error.h>

namespace etna::data {
namespace {

/// Reads one record after the other.
class Records {
 public:
  Records(std::string_view text, const CsvOptions& options, const std::string& name)
      : text_(text), options_(options), name_(name) {
    if (text_.starts_with("\xEF\xBB\xBF")) at_ = 3;
  }

  /// The next record that is no empty line; false at the end. `line` is where it begins.
  bool next(std::vector<std::string>& fields, std::size_t& line) {
    while (at_ < text_.size() && end_of_line()) ++line_;
    if (at_ == text_.size()) return false;
    fields.clear();
    line = line_;
    while (true) {
      const bool quote = at_ < text_.size() && text_[at_] == options_.quote;
      fields.push_back(quote ? quoted() : plain());
      if (at_ < text_.size() && text_[at_] == options_.delimiter) {
        ++at_;
        continue;
      }
      if (at_ < text_.size() && end_of_line()) ++line_;
      return true;
    }
  }

 private:
  FormatError refuse(std::size_t line, const std::string& what) const {
    return FormatError(fmt::format("{}: line {}: {}", name_, line, what));
  }

  bool end_of_line() {
    if (text_[at_] == '\r' && at_ + 1 < text_.size() && text_[at_ + 1] == '\n') ++at_;
    if (text_[at_] != '\n') return false;
    ++at_;
    return true;
  }

  std::string plain() {
    const std::size_t begin = at_;
    while (at_ < text_.size() && text_[at_] != options_.delimiter && text_[at_] != '\n') {
      if (text_[at_] == options_.quote)
        throw refuse(line_, fmt::format("a quote within a field that does not begin with one: {}",
                                        text_.substr(begin, std::min<std::size_t>(at_ + 1 - begin, 40))));
      ++at_;
    }
    std::string_view field = text_.substr(begin, at_ - begin);
    if (at_ < text_.size() && text_[at_] == '\n' && field.ends_with('\r')) field.remove_suffix(1);
    return std::string(field);
  }

  std::string quoted() {
    const std::size_t begin = line_;
    std::string field;
    for (++at_;; ++at_) {
      if (at_ == text_.size()) throw refuse(begin, "an unterminated quote");
      if (text_[at_] == options_.quote) {
        if (at_ + 1 == text_.size() || text_[at_ + 1] != options_.quote) break;
        ++at_;
      }
      if (text_[at_] == '\n') ++line_;
      field += text_[at_];
    }
    ++at_;
    const bool ends = at_ == text_.size() || text_[at_] == options_.delimiter || text_[at_] == '\n' ||
                      text_.substr(at_).starts_with("\r\n");
    if (!ends) throw refuse(line_, "text after a closing quote; a quote inside a quoted field is doubled");
    if (at_ < text_.size() && text_[at_] == '\r') ++at_;
    return field;
  }

  std::string_view text_;
  const CsvOptions& options_;
  const std::string& name_;
  std::size_t at_ = 0, line_ = 1;
};

std::string_view trimmed(std::string_view text) {
  const std::size_t first = text.find_first_not_of(" \t");
  if (first == std::string_view::npos) return {};
  return text.substr(first, text.find_last_not_of(" \t") + 1 - first);
}

/// False if the text is no number that T holds.
template <typename T>
bool parse(std::string_view text, T& value) {
  if (text.starts_with('+') && !text.starts_with("+-")) text.remove_prefix(1);
  const auto [end, error] = std::from_chars(text.data(), text.data() + text.size(), value);
  return error == std::errc() && end == text.data() + text.size();
}

}  // namespace

Csv::Csv(std::string_view text, CsvOptions options, std::string name) : options_(options), name_(std::move(name)) {
  if (options.delimiter == options.quote || options.delimiter == '\n' || options.quote == '\n')
    throw Error("CsvOptions: delimiter and quote must differ and must not be line breaks");
  Records records(text, options_, name_);
  std::vector<std::string> record;
  std::size_t line = 1;
  bool named = false;
  while (records.next(record, line)) {
    if (!named) {
      named = true;
      std::set<std::string> seen;
      for (std::size_t i = 0; i < record.size(); ++i) {
        columns_.push_back(options.header ? record[i] : std::to_string(i));
        if (!seen.insert(columns_.back()).second)
          throw FormatError(fmt::format("{}: line {}: two columns have the name '{}'", name_, line, columns_.back()));
      }
      if (options.header) continue;
    }
    if (record.size() != columns_.size()) {
      throw FormatError(fmt::format("{}: line {}: {} fields where the first line has {}", name_, line, record.size(),
                                    columns_.size()));
    }
    std::move(record.begin(), record.end(), std::back_inserter(fields_));
    lines_.push_back(line);
  }
}

std::int64_t Csv::column(std::string_view name) const {
  const auto found = std::find(columns_.begin(), columns_.end(), name);
  if (found == columns_.end())
    throw FormatError(
        fmt::format("{}: no column is named '{}'; the columns are {}", name_, name, fmt::join(columns_, ", ")));
  return found - columns_.begin();
}

const std::string& Csv::field(std::int64_t row, std::int64_t column) const {
  const auto width = static_cast<std::int64_t>(columns_.size());
  if (row < 0 || row >= rows() || column < 0 || column >= width)
    throw IndexError(fmt::format("{}: field ({}, {}) of {} rows and {} columns", name_, row, column, rows(), width));
  return fields_[static_cast<std::size_t>(row * width + column)];
}

std::vector<std::string> Csv::strings(std::string_view name) const {
  const std::int64_t at = column(name);
  std::vector<std::string> all;
  for (std::int64_t row = 0; row < rows(); ++row) all.push_back(field(row, at));
  return all;
}

std::string Csv::where(std::size_t row, std::size_t column) const {
  return fmt::format("{}: line {}, column '{}'", name_, lines_[row], columns_[column]);
}

template <typename T>
std::vector<T> Csv::numbers(const std::vector<std::string>& names) const {
  std::vector<std::size_t> wanted;
  for (const std::string& name : names) wanted.push_back(static_cast<std::size_t>(column(name)));
  std::vector<T> values;
  values.reserve(lines_.size() * wanted.size());
  for (std::size_t row = 0; row < lines_.size(); ++row) {
    for (const std::size_t at : wanted) {
      const std::string_view text = trimmed(fields_[row * columns_.size() + at]);
      T value{};
      if (text.empty() && options_.missing) {
        const double missing = *options_.missing;
        if constexpr (std::is_integral_v<T>) {
          constexpr double kFirst = static_cast<double>(std::numeric_limits<T>::min());
          constexpr double kEnd = -2 * static_cast<double>(std::numeric_limits<std::make_signed_t<T>>::min());
          const double end = std::is_signed_v<T> ? kEnd / 2 : kEnd;
          if (!(missing >= kFirst && missing < end) || missing != std::trunc(missing))
            throw FormatError(where(row, at) + ": is empty, and the number for that does not fit this dtype");
        }
        value = static_cast<T>(missing);
      } else if (!parse(text, value)) {
        throw FormatError(fmt::format("{}: '{}' is not a number of this dtype{}", where(row, at), text.substr(0, 40),
                                      text.empty() ? "; CsvOptions::missing gives empty fields one" : ""));
      }
      values.push_back(value);
    }
  }
  return values;
}

Tensor Csv::tensor(std::string_view column, DType dtype, Device device) const {
  return tensor(std::vector<std::string>{std::string(column)}, dtype, device).reshape({rows()});
}

Tensor Csv::tensor(const std::vector<std::string>& columns, DType dtype, Device device) const {
  const Shape shape{rows(), static_cast<std::int64_t>(columns.size())};
  const auto made = [&]<typename T>(T) { return from_vector(numbers<T>(columns), shape, device); };
  switch (dtype) {
    case DType::f64:
      return made(double{});
    case DType::f32:
      return made(float{});
    case DType::i64:
      return made(std::int64_t{});
    case DType::i32:
      return made(std::int32_t{});
    case DType::u8:
      return made(std::uint8_t{});
    case DType::i8:
      return made(std::int8_t{});
    default:
      break;
  }
  throw DtypeError(fmt::format("{}: columns are read as f64, f32, i64, i32, u8 or i8, not {}; convert them with to()",
                               name_, name(dtype)));
}

Tensor Csv::classes(std::string_view name, std::vector<std::string> names) const {
  const auto at = static_cast<std::size_t>(column(name));
  if (names.empty()) {
    std::set<std::string> all;
    for (std::size_t row = 0; row < lines_.size(); ++row) all.insert(fields_[row * columns_.size() + at]);
    names.assign(all.begin(), all.end());
  }
  std::vector<std::int64_t> values;
  for (std::size_t row = 0; row < lines_.size(); ++row) {
    const std::string& field = fields_[row * columns_.size() + at];
    const auto found = std::find(names.begin(), names.end(), field);
    if (found == names.end())
      throw FormatError(fmt::format("{}: '{}' is none of {}", where(row, at), field, fmt::join(names, ", ")));
    values.push_back(found - names.begin());
  }
  return from_vector(values);
}

Csv read_csv(const FilePath& file, CsvOptions options) { return Csv(read_text_file(file), options, file.string()); }

}  // namespace etna::data
