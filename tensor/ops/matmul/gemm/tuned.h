#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <etna/tensor/ops/matmul/gemm/tier.h>

/// Which kernel was measured to be the fastest for a class of products: a table on disk that `etna tune` writes.
namespace etna::product {

struct Choice {
  Tier tier = Tier::plain;
  Cut cut = {};
};

/// Products that one choice serves: of one dtype and layout, their sizes within some 10 % of each other.
struct Class {
  DType dtype = DType::f32;
  bool a_transposed = false, b_transposed = false;
  int m = 0, n = 0, k = 0, matrices = 0;  ///< quarters of powers of two: 4 · log2, rounded

  explicit Class(const Problem& p);
  Class() = default;
  friend auto operator<=>(const Class&, const Class&) = default;
};

class Table {
 public:
  const Choice* find(const Class& which) const;
  void set(const Class& which, const Choice& choice) { choices_[which] = choice; }
  void merge(const Table& more);
  std::size_t size() const { return choices_.size(); }

  /// One line a class. A line that is not understood is left out: tables outlive versions.
  static Table parse(const std::string& text);
  std::string text() const;

 private:
  std::map<Class, Choice> choices_;
};

/// What this version knows of a device by its name (`etna tune` on such a one, tensor/ops/matmul/gemm/tables/); empty for others.
Table shipped_table(std::string_view device);

/// Where a device's own table lies: in the cache folder, named after the device. Empty where no folder is known.
std::filesystem::path table_file(Device device);

/// The choice for a problem: the one forced for this thread, else that of the device's own table or of the shipped one.
std::optional<Choice> choice_for(const Problem& problem);

/// Adds to the device's table, here and on disk. @throws FormatError where it cannot be written
void remember(Device device, const Table& more);

/// All products of this thread by one choice, for a scope; those that it cannot do go to the plain kernel. For tuning. Keeps the last
/// problem it met.
class ForcedChoice {
 public:
  explicit ForcedChoice(const Choice& choice);
  ~ForcedChoice();
  ForcedChoice(const ForcedChoice&) = delete;
  ForcedChoice& operator=(const ForcedChoice&) = delete;
  /// Of the last product, where there was one.
  const std::optional<Class>& met() const;
};

}  // namespace etna::product
