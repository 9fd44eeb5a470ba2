#pragma once

#include <filesystem>
#include <map>
#include <optional>
#include <string>
#include <string_view>

#include <etna/tensor/internal/overrides.h>
#include <etna/tensor/ops/matmul/gemm/internal/variant.h>

/// The fastest measured kernel for a class of gemms: a table on disk that `etna tune` writes.
namespace etna::gemm {

struct KernelConfig {
  KernelVariant variant = KernelVariant::plain;
  Tiling tiling = {};
};

/// A class of gemms that share one configuration: same dtype and layout, sizes within about 10 % of each other.
struct ShapeClass {
  DType dtype = DType::f32;
  bool a_transposed = false, b_transposed = false;
  int m = 0, n = 0, k = 0, matrices = 0;  ///< 4 · log2, rounded: quarters of powers of two

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

  /// Parses one line per class. Skips lines that it does not understand: tables outlive versions.
  static TuningTable parse(const std::string& text);
  std::string text() const;

 private:
  std::map<ShapeClass, KernelConfig> configs_;
};

/// The table that ships for a device name (from `etna tune` on such a device, tensor/ops/matmul/gemm/tables/); empty
/// for other devices.
TuningTable shipped_table(std::string_view device);

/// The file of a device's own table: in the cache folder, named after the device. Empty if the cache folder is not
/// known.
std::filesystem::path table_file(Device device);

/// The configuration for a gemm: the one forced in this thread, else the one in the device's own table, else the
/// shipped one.
std::optional<KernelConfig> config_for(const GemmParams& params);

/// Adds to the device's table, in memory and on disk. @throws FormatError if it cannot be written
void remember(Device device, const TuningTable& more);

/// Forces one configuration for all gemms of this thread in a scope; gemms that it does not support use the plain
/// kernel. For tuning. Records the class of the last gemm.
class ForcedConfig {
 public:
  explicit ForcedConfig(const KernelConfig& config) : config_(config), scope_(&Overrides::gemm_config, this) {}
  ForcedConfig(const ForcedConfig&) = delete;
  ForcedConfig& operator=(const ForcedConfig&) = delete;
  /// The class of the last gemm that ran, if there was one.
  const std::optional<ShapeClass>& last_class() const { return last_class_; }

 private:
  friend std::optional<KernelConfig> config_for(const GemmParams& params);
  KernelConfig config_;
  std::optional<ShapeClass> last_class_;
  Override<ForcedConfig*> scope_;
};

}  // namespace etna::gemm
