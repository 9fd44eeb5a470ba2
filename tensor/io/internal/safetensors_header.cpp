#include <etna/tensor/io/internal/safetensors_header.h>

#include <algorithm>
#include <array>
#include <optional>
#include <set>
#include <tuple>

#include <fmt/format.h>
#include <fmt/ranges.h>
#include <nlohmann/json.hpp>

namespace etna::safetensors {
namespace {

constexpr std::string_view kMetadataKey = "__metadata__";
constexpr std::array<std::string_view, 9> kDTypeNames = {"F64", "F32", "F16", "BF16", "I64", "I32", "I8", "U8", "BOOL"};

[[noreturn]] void refuse(const std::string& what) { throw FormatError(what); }

DType dtype_of_name(const std::string& tensor, const std::string& text) {
  auto found = std::find(kDTypeNames.begin(), kDTypeNames.end(), text);
  if (found == kDTypeNames.end()) {
    refuse(fmt::format("tensor '{}' has dtype '{}'; known are {}", tensor, text, fmt::join(kDTypeNames, ", ")));
  }
  return static_cast<DType>(found - kDTypeNames.begin());
}

/// Parses the header as a stream of events and stores only valid content: one object that contains objects with lists
/// of integers.
class Reader : public nlohmann::json_sax<nlohmann::json> {
 public:
  Header take() { return std::move(header_); }

  bool key(string_t& text) override {
    if (depth_ == 1) {
      if (!names_.insert(text).second) refuse(fmt::format("'{}' occurs twice in the header", text));
      name_ = text;
      return true;
    }
    field_ = text;
    if (in_metadata()) {
      if (header_.metadata.contains(text)) refuse(fmt::format("'{}' occurs twice in the metadata", text));
      return true;
    }
    bool repeated = (text == "dtype" && dtype_) || (text == "shape" && shape_) || (text == "data_offsets" && offsets_);
    if (repeated) refuse(fmt::format("tensor '{}' has '{}' twice", name_, text));
    if (text != "dtype" && text != "shape" && text != "data_offsets") {
      refuse(fmt::format("tensor '{}' has a field '{}'; known are dtype, shape and data_offsets", name_, text));
    }
    return true;
  }

  bool start_object(std::size_t) override {
    if (depth_ >= 2 || in_list_) unexpected("an object");
    ++depth_;
    dtype_.reset();
    shape_.reset();
    offsets_.reset();
    return true;
  }
  bool end_object() override {
    if (--depth_ == 1 && !in_metadata()) finish_tensor();
    return true;
  }

  bool start_array(std::size_t) override {
    if (depth_ != 2 || in_list_ || in_metadata() || field_ == "dtype") unexpected("a list");
    in_list_ = true;
    (field_ == "shape" ? shape_ : offsets_).emplace();
    return true;
  }
  bool end_array() override {
    in_list_ = false;
    if (field_ == "data_offsets" && offsets_->size() != 2) {
      refuse(fmt::format("tensor '{}' has {} data_offsets; wanted two", name_, offsets_->size()));
    }
    return true;
  }

  bool number_unsigned(number_unsigned_t value) override {
    if (!in_list_) unexpected("a number");
    auto& list = *(field_ == "shape" ? shape_ : offsets_);
    if (list.size() == kMaxRank)
      refuse(fmt::format("tensor '{}' has more than {} numbers in {}", name_, kMaxRank, field_));
    list.push_back(value);
    return true;
  }
  bool string(string_t& text) override {
    if (depth_ != 2 || in_list_ || (!in_metadata() && field_ != "dtype")) unexpected("a string");
    if (in_metadata())
      header_.metadata.emplace(field_, text);
    else
      dtype_ = dtype_of_name(name_, text);
    return true;
  }

  bool null() override { unexpected("null"); }
  bool boolean(bool) override { unexpected("a boolean"); }
  bool number_integer(number_integer_t value) override { unexpected(fmt::format("the negative number {}", value)); }
  bool number_float(number_float_t, const string_t& text) override { unexpected(fmt::format("the number {}", text)); }
  bool binary(binary_t&) override { unexpected("bytes"); }
  bool parse_error(std::size_t position, const std::string&, const nlohmann::json::exception&) override {
    refuse(fmt::format("the header is not valid JSON from byte {} on", position));
  }

 private:
  bool in_metadata() const { return name_ == kMetadataKey; }

  [[noreturn]] void unexpected(const std::string& what) const {
    if (depth_ == 0) refuse(fmt::format("the header is {}; wanted a JSON object", what));
    if (depth_ == 1) refuse(fmt::format("'{}' is {}; wanted an object", name_, what));
    if (in_metadata()) refuse(fmt::format("metadata '{}' is {}; wanted a string", field_, what));
    refuse(fmt::format("tensor '{}' has {} as {}; wanted {}", name_, what,
                       in_list_ ? "an element of " + field_ : field_,
                       field_ == "dtype" ? "a string"
                       : in_list_        ? "a nonnegative integer"
                                         : "a list"));
  }

  void finish_tensor() {
    const char* missing = !dtype_ ? "dtype" : !shape_ ? "shape" : !offsets_ ? "data_offsets" : nullptr;
    if (missing != nullptr) refuse(fmt::format("tensor '{}' has no {}", name_, missing));
    Entry entry{name_, *dtype_, {}, (*offsets_)[0], (*offsets_)[1]};
    std::int64_t bytes = static_cast<std::int64_t>(item_size(*dtype_)), product = bytes;
    bool empty = false;
    for (std::uint64_t size : *shape_) {
      // A size of 0 counts as one: strides are products of the other sizes.
      empty = empty || size == 0;
      if (size > INT64_MAX ||
          __builtin_mul_overflow(product, std::max<std::int64_t>(1, static_cast<std::int64_t>(size)), &product)) {
        refuse(fmt::format("tensor '{}' has shape [{}], too large for memory", name_, fmt::join(*shape_, ", ")));
      }
      entry.shape.push_back(static_cast<std::int64_t>(size));
    }
    if (entry.begin > entry.end)
      refuse(fmt::format("tensor '{}' ends at {}, before it begins at {}", name_, entry.end, entry.begin));
    std::uint64_t wanted = empty ? 0 : static_cast<std::uint64_t>(product);
    if (entry.end - entry.begin != wanted) {
      refuse(fmt::format("tensor '{}' has {} bytes, but {} of shape {} takes {}", name_, entry.end - entry.begin,
                         kDTypeNames[static_cast<std::size_t>(*dtype_)], str(entry.shape), wanted));
    }
    header_.entries.push_back(std::move(entry));
  }

  Header header_;
  std::set<std::string> names_;
  int depth_ = 0;
  bool in_list_ = false;
  std::string name_, field_;
  std::optional<DType> dtype_;
  std::optional<std::vector<std::uint64_t>> shape_, offsets_;
};

}  // namespace

Header parse_header(std::string_view json, std::uint64_t data_bytes) {
  Reader reader;
  nlohmann::json::sax_parse(json.begin(), json.end(), &reader);
  Header header = reader.take();
  std::sort(header.entries.begin(), header.entries.end(), [](const Entry& a, const Entry& b) {
    return std::tie(a.begin, a.end, a.name) < std::tie(b.begin, b.end, b.name);
  });
  std::uint64_t at = 0;
  for (const Entry& entry : header.entries) {
    if (entry.end > data_bytes) {
      refuse(fmt::format("tensor '{}' ends at byte {} of the data, but the file holds {}; it is cut short", entry.name,
                         entry.end, data_bytes));
    }
    if (entry.begin != at) {
      refuse(fmt::format("tensor '{}' begins at byte {} of the data, but {} is the end of the previous one", entry.name,
                         entry.begin, at));
    }
    at = entry.end;
  }
  if (at != data_bytes) refuse(fmt::format("{} bytes after the last tensor belong to none", data_bytes - at));
  return header;
}

std::string format_header(const Header& header) {
  nlohmann::ordered_json json = nlohmann::ordered_json::object();
  if (!header.metadata.empty()) json[std::string(kMetadataKey)] = header.metadata;
  for (const Entry& entry : header.entries) {
    json[entry.name] = {{"dtype", kDTypeNames[static_cast<std::size_t>(entry.dtype)]},
                        {"shape", std::vector<std::int64_t>(entry.shape.begin(), entry.shape.end())},
                        {"data_offsets", {entry.begin, entry.end}}};
  }
  std::string text = json.dump();
  text.append((8 - text.size() % 8) % 8, ' ');
  return text;
}

}  // namespace etna::safetensors
