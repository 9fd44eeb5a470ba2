#include <etna/tensor/ops/matmul/gemm/tuned.h>

#include <cmath>
#include <fstream>
#include <iterator>
#include <memory>
#include <mutex>
#include <sstream>
#include <vector>

#include <fmt/format.h>

#include <etna/device/cache_folder.h>

namespace etna::product {
namespace {

/// Says how the tables of this version are to be read.
constexpr const char* kHeader = "etna products 1";

int quarters(std::int64_t size) { return static_cast<int>(std::lround(4 * std::log2(static_cast<double>(size)))); }

/// What `etna tune` found on GPUs that were at hand.
struct Shipped {
  std::string_view device, text;
};
constexpr Shipped kShipped[] = {{
    "NVIDIA H200",
#include <etna/tensor/ops/matmul/gemm/tables/nvidia_h200.inc>
}};

std::string read(const std::filesystem::path& file) {
  std::ifstream in(file);
  return {std::istreambuf_iterator<char>(in), {}};
}

/// The tables in use. One that is replaced is kept: another thread may be reading it.
std::mutex tables_mutex;
std::vector<std::vector<std::unique_ptr<const Table>>> tables;

const Table& table_of(Device device) {
  std::lock_guard lock(tables_mutex);
  auto index = static_cast<std::size_t>(device.index);
  if (index >= tables.size()) tables.resize(index + 1);
  if (tables[index].empty()) {
    Table table = shipped_table(device_name(device));
    if (std::filesystem::path file = table_file(device); !file.empty()) table.merge(Table::parse(read(file)));
    tables[index].push_back(std::make_unique<Table>(std::move(table)));
  }
  return *tables[index].back();
}

thread_local const Choice* forced = nullptr;
thread_local std::optional<Class> last;

}  // namespace

Class::Class(const Problem& p)
    : dtype(p.dtype),
      a_transposed(p.a.transposed),
      b_transposed(p.b.transposed),
      m(quarters(p.m)),
      n(quarters(p.n)),
      k(quarters(p.k)),
      matrices(quarters(p.matrices())) {}

const Choice* Table::find(const Class& which) const {
  auto found = choices_.find(which);
  return found == choices_.end() ? nullptr : &found->second;
}

void Table::merge(const Table& more) {
  for (const auto& [which, choice] : more.choices_) choices_[which] = choice;
}

Table Table::parse(const std::string& text) {
  Table table;
  std::istringstream lines(text);
  std::string line;
  if (!std::getline(lines, line) || line != kHeader) return table;
  while (std::getline(lines, line)) {
    std::istringstream in(line);
    Class c;
    Choice choice;
    int dtype = 0, tier = 0;
    if (!(in >> dtype >> c.a_transposed >> c.b_transposed >> c.m >> c.n >> c.k >> c.matrices >> tier >>
          choice.cut.tile >> choice.cut.splits)) {
      continue;
    }
    bool sound = tier >= 0 && tier <= static_cast<int>(Tier::cubin) && choice.cut.splits >= 1 && dtype >= 0;
    if (!sound) continue;
    c.dtype = static_cast<DType>(dtype);
    choice.tier = static_cast<Tier>(tier);
    table.set(c, choice);
  }
  return table;
}

std::string Table::text() const {
  std::string text = fmt::format("{}\n", kHeader);
  for (const auto& [c, choice] : choices_) {
    text +=
        fmt::format("{} {:d} {:d} {} {} {} {} {} {} {}\n", static_cast<int>(c.dtype), c.a_transposed, c.b_transposed,
                    c.m, c.n, c.k, c.matrices, static_cast<int>(choice.tier), choice.cut.tile, choice.cut.splits);
  }
  return text;
}

Table shipped_table(std::string_view device) {
  for (const Shipped& shipped : kShipped) {
    if (shipped.device == device) return Table::parse(std::string(shipped.text));
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
  return folder / fmt::format("products-{}.txt", name);
}

std::optional<Choice> choice_for(const Problem& problem) {
  if (forced != nullptr) {
    last.emplace(problem);
    return *forced;
  }
  const Table& table = table_of(problem.device());
  if (table.size() == 0) return {};
  const Choice* found = table.find(Class(problem));
  return found != nullptr ? std::optional(*found) : std::nullopt;
}

void remember(Device device, const Table& more) {
  std::filesystem::path file = table_file(device);
  if (file.empty()) throw FormatError("tune: no cache folder is known; set ETNA_CACHE_DIR");
  Table all = Table::parse(read(file));
  all.merge(more);
  Table in_use = shipped_table(device_name(device));
  in_use.merge(all);
  std::error_code ignored;
  std::filesystem::create_directories(file.parent_path(), ignored);
  std::ofstream out(file, std::ios::trunc);
  out << all.text();
  if (!out.flush()) throw FormatError(fmt::format("tune: cannot write {}", file.string()));
  table_of(device);
  std::lock_guard lock(tables_mutex);
  tables[static_cast<std::size_t>(device.index)].push_back(std::make_unique<Table>(std::move(in_use)));
}

ForcedChoice::ForcedChoice(const Choice& choice) {
  static thread_local Choice held;
  held = choice;
  forced = &held;
  last.reset();
}
ForcedChoice::~ForcedChoice() { forced = nullptr; }
const std::optional<Class>& ForcedChoice::met() const { return last; }

}  // namespace etna::product
