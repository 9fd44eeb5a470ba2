#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <etna/tensor/ops/matmul/gemm/variant.h>

/// Which kernel was measured to be the fastest for a class of gemms: a table on disk that `etna tune` writes.
namespace etna::gemm {

struct KernelConfig {
  KernelVariant variant = KernelVariant::plain;
  Tiling tiling = {};
};

/// Gemms that one config serves: of one dtype and layout, their sizes within some 10 % of each other.
struct ShapeClass {
  DType dtype = DType::f32;
  bool a_transposed = false, b_transposed = false;
  int m = 0, n = 0, k = 0, matrices = 0;  ///< quarters of powers of two: 4 · log2, rounded

  explicit ShapeClass(const GemmParams& p);
  ShapeClass() = default;
  friend auto operator<=>(const ShapeClass&, const ShapeClass&) = default;
};

class TuningTable {
 public:
  const KernelConfig* find(const ShapeClass& which) const;
  void set(const ShapeClass& which, const KernelConfig& config) { configs_[which] = config; }
  void merge(const TuningTable& more);
  std::size_t size() const { return configs_.size(); }

  /// One line a class. A line that is not understood is left out: tables outlive versions.
  static TuningTable parse(const std::string& text);
  std::string text() const;

 private:
  std::map<ShapeClass, KernelConfig> configs_;
};

/// What this version knows of a device by its name (`etna tune` on such a one, tensor/ops/matmul/gemm/tables/); empty
/// for others.
TuningTable shipped_table(std::string_view device);

/// Where a device's own table lies: in the cache folder, named after the device. Empty where no folder is known.
std::filesystem::path table_file(Device device);

/// The config for a problem: the one forced for this thread, else that of the device's own table or of the shipped one.
std::optional<KernelConfig> config_for(const GemmParams& params);

/// Adds to the device's table, here and on disk. @throws FormatError where it cannot be written
void remember(Device device, const TuningTable& more);

/// All gemms of this thread by one config, for a scope; those that it cannot do go to the plain kernel. For tuning.
/// Keeps the last problem it met.
class ForcedConfig {
 public:
  explicit ForcedConfig(const KernelConfig& config);
  ~ForcedConfig();
  ForcedConfig(const ForcedConfig&) = delete;
  ForcedConfig& operator=(const ForcedConfig&) = delete;
  /// Of the last gemm, where there was one.
  const std::optional<ShapeClass>& met() const;
};

}  // namespace etna::gemm
