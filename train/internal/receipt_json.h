#pragma once

#include <cstdint>
#include <string>
#include <string_view>

#include <nlohmann/json.hpp>

#include <etna/device/kernel_counts.h>
#include <etna/train/receipt.h>

/// What those who write and those who check receipts share. Keys keep their order.
namespace etna::training {

using ReceiptJson = nlohmann::ordered_json;

inline constexpr const char *kReceiptSchema = "etna.receipt/1", *kSchemaKey = "schema", *kHashKey = "content_sha256";

/// Sums over the rows of a receipt.
struct ReceiptTotals {
  std::uint64_t eager = 0, replayed = 0, launches = 0;
  std::uint64_t on_selected = 0;  ///< runs on the selected device
  std::uint64_t fallbacks = 0, references = 0;
};

/// compute_path() of sums.
const char* compute_path(const ReceiptTotals& totals, bool software);

/// Adds "compute_path", "totals", and the rows.
void add_counts(ReceiptJson& receipt, const KernelCounts& counts, Device selected);

/// Text that may be anything as UTF-8.
ReceiptJson utf8(std::string_view text);

/// The hash of a receipt's content: of the object without its hash, in the order of its keys, without blanks.
std::string content_hash_of(ReceiptJson receipt);

/// Rows of lists on a line each.
std::string pretty(const ReceiptJson& receipt);

/// @param path resolved
std::string hash_of_file(const FilePath& path, std::uint64_t& bytes);

/// {"cpu": …, "cores": …}: this machine.
ReceiptJson this_machine();

}  // namespace etna::training
