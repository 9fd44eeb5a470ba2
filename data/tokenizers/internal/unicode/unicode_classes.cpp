#include <etna/data/tokenizers/internal/unicode/unicode_classes.h>

#include <vector>

#include <etna/data/tokenizers/internal/unicode/unicode_table.h>

namespace etna::data {
namespace {

constexpr std::uint32_t kCodePoints = 0x110000;

std::vector<Category> table() {
  std::vector<Category> categories(kCodePoints);
  const auto runs = category_runs();
  for (std::size_t i = 0; i < runs.size(); ++i) {
    const std::uint32_t begin = runs[i] >> 4, code = runs[i] & 15;
    const std::uint32_t end = i + 1 < runs.size() ? runs[i + 1] >> 4 : kCodePoints;
    for (std::uint32_t c = begin; c < end; ++c) {
      if (code == kCategoryPairs)
        categories[c] = (c - begin) % 2 == 0 ? Category::uppercase : Category::lowercase;
      else
        categories[c] = static_cast<Category>(code);
    }
  }
  return categories;
}

}  // namespace

const Category* character_categories() {
  static const std::vector<Category> categories = table();
  return categories.data();
}

}  // namespace etna::data
