#include <etna/tensor/ops/matmul/gemm/internal/tuned.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include <etna/device/internal/cache_folder.h>

namespace etna::gemm {
namespace {

/// Names the format of the tables.
constexpr const char* kHeader = "etna gemm 2";

int quarters(std::int64_t size) { return static_cast<int>(std::lround(4 * std::log2(static_cast<double>(size)))); }

/// Results of `etna tune` that ship with the library.
struct Shipped {
  std::string_view device, text;
};
constexpr Shipped kShipped[] = {{
    "NVIDIA H200",
#include <etna/tensor/ops/matmul/gemm/tables/internal/nvidia_h200.inc>
}};

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The tables in use. A replaced table is kept, as another thread may be reading it.
std::mutex tables_mutex;
std::vector<std::vector<std::unique_ptr<const TuningTable>>> tables;

const TuningTable& table_of(Device device) {
  std::lock_guard lock(tables_mutex);
  auto index = static_cast<std::size_t>(device.index);
  if (index >= tables.size()) tables.resize(index + 1);
  if (tables[index].empty()) {
    TuningTable table = shipped_table(device_name(device));
    if (std::filesystem::path file = table_file(device); !file.empty()) table.merge(TuningTable::parse(read(file)));
    tables[index].push_back(std::make_unique<TuningTable>(std::move(table)));
  }
  return *tables[index].back();
}

}  // namespace

ShapeClass::ShapeClass(const GemmParams& p)
    : dtype(p.dtype),
      a_transposed(p.a.transposed),
      b_transposed(p.b.transposed),
      m(quarters(p.m)),
      n(quarters(p.n)),
      k(quarters(p.k)),
      matrices(quarters(p.matrices())) {}

const KernelConfig* TuningTable::find(const ShapeClass& which) const {
  auto found = configs_.find(which);
  return found == configs_.end() ? nullptr : &found->second;
}

void TuningTable::merge(const TuningTable& more) {
  for (const auto& [which, config] : more.configs_) configs_[which] = config;
}

TuningTable TuningTable::parse(const std::string& text) {
  TuningTable table;
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kHeader) return table;
  while (std::getline(lines, line)) {
    std::istringstream in(line);
    ShapeClass c;
    KernelConfig config;
    int dtype = 0;
    std::string variant;
    if (!(in >> dtype >> c.a_transposed >> c.b_transposed >> c.m >> c.n >> c.k >> c.matrices >> variant >>
          config.tiling.tile >> config.tiling.split_k)) {
      continue;
    }
    const std::optional<KernelVariant> known = variant_named(variant);
    if (!known || config.tiling.split_k < 1 || dtype < 0) continue;
    c.dtype = static_cast<DType>(dtype);
    config.variant = *known;
    table.set(c, config);
  }
  return table;
}

std::string TuningTable::text() const {
  std::string text = fmt::format("{}\n", kHeader);
  for (const auto& [c, config] : configs_) {
    text +=
        fmt::format("{} {:d} {:d} {} {} {} {} {} {} {}\n", static_cast<int>(c.dtype), c.a_transposed, c.b_transposed,
                    c.m, c.n, c.k, c.matrices, name(config.variant), config.tiling.tile, config.tiling.split_k);
  }
  return text;
}

TuningTable shipped_table(std::string_view device) {
  for (const Shipped& shipped : kShipped) {
    if (shipped.device == device) return TuningTable::parse(std::string(shipped.text));
  }
  return {};
}

std::filesystem::path table_file(Device device) {
  std::filesystem::path folder = cache_folder();
  if (folder.empty()) return {};
  std::string name = device_name(device);
  for (char& c : name) {
    bool plain = (c >= '0' && c <= '9') || (c >= 'a' && c <= 'z') || (c >= 'A' && c <= 'Z');
    if (!plain) c = '-';
  }
  return folder / fmt::format("gemm-{}.txt", name);
}

std::optional<KernelConfig> config_for(const GemmParams& params) {
  if (ForcedConfig* forced = overrides().gemm_config) {
    forced->last_class_.emplace(params);
    return forced->config_;
  }
  const TuningTable& table = table_of(params.device);
  if (table.size() == 0) return {};
  const KernelConfig* found = table.find(ShapeClass(params));
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

void remember(Device device, const TuningTable& more) {
  std::filesystem::path file = table_file(device);
  if (file.empty()) throw FormatError("tune: no cache folder is known; set ETNA_CACHE_DIR");
  TuningTable all = TuningTable::parse(read(file));
  all.merge(more);
  TuningTable in_use = shipped_table(device_name(device));
  in_use.merge(all);
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  std::ofstream out(file, std::ios::trunc);
  out << all.text();
  if (!out.flush()) throw FormatError(fmt::format("tune: cannot write {}", file.string()));
  table_of(device);
  std::lock_guard lock(tables_mutex);
  tables[static_cast<std::size_t>(device.index)].push_back(std::make_unique<TuningTable>(std::move(in_use)));
}

}  // namespace etna::gemm
