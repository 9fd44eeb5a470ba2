#pragma once

#include <cstdint>
#include <initializer_list>
#include <optional>
#include <string>
#include <string_view>
#include <vector>

#include <etna/device/file_path.h>
#include <etna/tensor/tensor.h>

namespace etna::data {

struct CsvOptions {
  char delimiter = ',';
  char quote = '"';                    ///< doubled inside a quoted field
  bool header = true;                  ///< the first record names the columns
  std::optional<double> missing = {};  ///< the number of an empty field; without it, such a field is an error
};

/// A table of text: records of fields as RFC 4180 has them. Quoted fields may hold delimiters and line breaks; lines
/// end in LF or CRLF; empty lines are left out; a byte order mark is skipped.
class Csv {
 public:
  /// @param name for errors @throws FormatError naming the line for a record with more or fewer fields than the first,
  /// an unterminated quote, or text after a closing quote; FormatError for columns of equal names
  Csv(std::string_view text, CsvOptions options = {}, std::string name = "CSV");

  /// Names of the columns; "0", "1" ... without a header.
  const std::vector<std::string>& columns() const { return columns_; }
  std::int64_t rows() const { return static_cast<std::int64_t>(lines_.size()); }
  /// The position of a column. @throws FormatError listing the columns there are
  std::int64_t column(std::string_view name) const;
  const std::string& field(std::int64_t row, std::int64_t column) const;
  std::vector<std::string> strings(std::string_view column) const;

  /// Numbers: [rows] of one column, [rows, columns] of several. "nan", "inf" and signs are understood, blanks around a
  /// number skipped. @throws FormatError naming line and column for a field that is not a number of this dtype
  Tensor tensor(std::string_view column, DType dtype = f32, Device device = {}) const;
  Tensor tensor(const std::vector<std::string>& columns, DType dtype = f32, Device device = {}) const;
  Tensor tensor(std::initializer_list<const char*> columns, DType dtype = f32, Device device = {}) const {
    return tensor(std::vector<std::string>(columns.begin(), columns.end()), dtype, device);
  }
  /// All columns.
  Tensor tensor(DType dtype = f32, Device device = {}) const { return tensor(columns_, dtype, device); }
  /// [rows] i64: which of `names` each field is; without names, of the sorted distinct fields.
  /// @throws FormatError for a field that is none of them
  Tensor classes(std::string_view column, std::vector<std::string> names = {}) const;

 private:
  std::string where(std::size_t row, std::size_t column) const;
  template <typename T>
  std::vector<T> numbers(const std::vector<std::string>& columns) const;

  CsvOptions options_;
  std::string name_;
  std::vector<std::string> columns_, fields_;  ///< fields row by row
  std::vector<std::size_t> lines_;             ///< where each row begins, from 1
};

/// The file's table. @throws FormatError as Csv, and for a file that is missing or not UTF-8
Csv read_csv(const FilePath& file, CsvOptions options = {});

}  // namespace etna::data
