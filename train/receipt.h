#pragma once

#include <cstdint>
#include <map>
#include <memory>
#include <string>
#include <string_view>
#include <utility>
#include <vector>

#include <etna/device/device.h>
#include <etna/device/file_path.h>
#include <etna/device/kernel_counts.h>
#include <etna/device/memory.h>
#include <etna/device/owned.h>

/// Receipts: what a run was made of and what really ran, in a JSON file that can be checked (docs/receipts.md).
namespace etna::training {

/// A file that a run read or wrote.
struct ReceiptFile {
  std::string role;  ///< "model", "tokenizer", "text" …
  FilePath path;     ///< as the user named it
  std::uint64_t bytes = 0;
  std::string sha256 = {};  ///< 64 hexadecimal digits
};

/// Reads and hashes a file, or the files that lie directly in a folder, by name.
/// @throws FormatError for a path that is not there, cannot be read or is no file; Error in a build without libcrypto
std::vector<ReceiptFile> hash_files(const std::string& role, const FilePath& path);

/// Where a run computed, by what was counted.
/// - "fallback": an op of another device ran on the CPU, since the device has no kernel for it.
/// - "reference": none did, but an op ran composed of other ops' kernels, since the device has none for the call.
/// - "none": neither, and no kernel ran on the selected device.
/// - "software": neither, and the device is a software rasterizer: the kernels are real, the GPU is not.
/// - "real": none of these. Every op ran a kernel of its own, and some did on the selected device.
const char* compute_path(const KernelCounts& counts, Device selected);

/// A JSON object on one line with these fields of a receipt: compute_path, totals, kernels, fallbacks, references,
/// composed.
std::string json_text(const KernelCounts& counts, Device selected);

/// The program that writes a receipt.
struct ReceiptProgram {
  std::string name, version;
  std::vector<std::string> command;  ///< argv
};

/// The commit that programs of this build state; "unknown" if nobody called the second.
std::string program_commit();
void set_program_commit(std::string_view commit);

/// A moment of a process that counts: where a part of it begins.
struct ReceiptMoment {
  KernelCounts counts;
  Transfers transfers;
  std::string utc;
  double clock = 0;  ///< seconds of a clock that never goes back
};

/// A part of a process, such as one request of a server: what ran in it, and what its receipt states besides.
struct ReceiptPart {
  KernelCounts counts;
  Transfers transfers;
  std::string begin, end;  ///< UTC
  double seconds = 0;
  MemoryStats memory = {};  ///< of the device at the end; its peak is that since Receipt::device()
  std::uint64_t process_peak_bytes = 0;
  std::vector<std::pair<std::string, double>> numbers = {};  ///< as Receipt::number()
  std::map<std::string, std::uint64_t> seeds = {};
  std::vector<std::pair<std::string, std::string>> request = {};  ///< {"id", "req_1"}: an object of this name
  std::vector<std::string> other_files = {};                      ///< roles of files that this part did not read
};

/// Counts while it lives, and states it all in text(). Kernels, transfers and time count from its construction; so does
/// the peak of device memory, from device().
///     Receipt receipt({.name = "etna", .version = "0.1.0", .command = {argv, argv + argc}});
///     receipt.device(requested, selected);
///     receipt.file("model", path);
///     ...
///     receipt.write("receipt.json");
class Receipt {
 public:
  explicit Receipt(ReceiptProgram program);
  ~Receipt();
  Receipt(const Receipt&) = delete;
  Receipt& operator=(const Receipt&) = delete;

  /// Without this call the receipt states the CPU.
  /// @param requested what the user gave, as select_device() takes it
  void device(std::string_view requested, Device selected);
  void seed(const std::string& name, std::uint64_t value);
  /// {"tokens_read", 512}, {"tokens_per_second", 38.5} …; what is not finite becomes null.
  void number(const std::string& name, double value);
  /// Named in the receipt and hashed by text(); a file that changed in between is marked.
  void file(const std::string& role, const FilePath& path);
  /// Hashed before, for those that write many receipts of one model.
  void file(ReceiptFile hashed);
  /// Hashes the files named so far now instead of in text(), which still marks those that were changed since.
  /// @throws FormatError for files that cannot be read
  void hash_now();

  /// The receipt, by what ran until now. Waits for the device. @throws FormatError for files that cannot be read
  std::string text() const;

  /// For receipts of parts. The first two queue the calls of ops that are held back, and do not wait for the device:
  /// they belong to the thread that runs the model. text() of a part may be called by any thread once no other member
  /// changes this object.
  ReceiptMoment moment() const;
  ReceiptPart part_since(const ReceiptMoment& begin) const;
  /// The receipt of a part: with the program, device and files of this one, and with the part's own numbers and seeds.
  /// @throws FormatError as above
  std::string text(const ReceiptPart& part) const;

  /// @throws FormatError also where the file cannot be written
  void write(const FilePath& path) const;

  /// In the first 4 KB of every receipt, so that another one may replace it (io::OutputFile::marks).
  static const std::vector<std::string>& marks();

 private:
  struct State;
  Owned<State> state_;
};

/// Begins a receipt that will be written to a file; null for an empty name.
/// @param read files that are read, which it must not replace @param force replaces also what is no receipt
/// @throws OutputExists, FormatError where the file cannot be written; Error in a build without libcrypto
std::unique_ptr<Receipt> begin_receipt(const FilePath& file, ReceiptProgram program,
                                       const std::vector<FilePath>& read = {}, bool force = false);

struct ReceiptCheckOptions {
  FilePath root = {};        ///< where the files are looked for; empty: where they were
  std::string version = {};  ///< of the program that checks; empty: not compared
};

struct ReceiptCheck {
  std::vector<std::string> mismatches;  ///< one sentence each; none: the receipt is verified
  std::vector<std::string> notes;       ///< differences that are no mismatch: another version, another machine
  std::size_t files = 0;                ///< whose hashes are right
};

/// Compares a receipt with itself and with the files that it names.
/// @throws FormatError for text that is no receipt: no JSON, nested too deep, with a key twice, with a field missing or
/// of another type; Error in a build without libcrypto
ReceiptCheck check_receipt(std::string_view text, const ReceiptCheckOptions& options = {});

/// The receipt on one screen. @throws FormatError as check_receipt()
std::string receipt_summary(std::string_view text);

}  // namespace etna::training
