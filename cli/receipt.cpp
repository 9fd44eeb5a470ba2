#include <cstdio>

#include <fmt/format.h>

#include <etna/device/error.h>
#include <etna/device/internal/os/files.h>
#include <etna/train/internal/read_bytes.h>
#include <etna/train/progress.h>
#include <etna/train/receipt.h>

#include "commands.h"
#include "output.h"

namespace etna::cli {
namespace {

using training::printable;

struct ReceiptFileOptions {
  std::string file, root;
  bool quiet = false;
};

constexpr std::uint64_t kLargestReceiptFile = std::uint64_t{64} << 20;

/// @throws FormatError
std::string receipt_in(const std::string& file) {
  std::error_code error;
  const os::FileInfo info = os::file_info(std::filesystem::path(FilePath(file)), error);
  if (!error && info.kind == os::FileKind::regular && info.bytes > kLargestReceiptFile)
    throw FormatError(fmt::format("{}: not a receipt: it has more than 64 MiB", file));
  return training::read_bytes(file);
}

/// Runs `command`, whose errors get the file's name.
template <typename Function>
int on_receipt(const std::string& file, const Function& command) try {
  const std::string text = receipt_in(file);
  try {
    return command(text);
  } catch (const FormatError& error) {
    throw FormatError(fmt::format("{}: {}", file, error.what()));
  }
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
}

int check(const ReceiptFileOptions& options) {
  return on_receipt(options.file, [&](const std::string& text) {
    const training::ReceiptCheck seen = training::check_receipt(text, {.root = options.root, .version = ETNA_VERSION});
    std::string lines;
    for (const std::string& mismatch : seen.mismatches) lines += fmt::format("mismatch: {}\n", printable(mismatch));
    if (!options.quiet)
      for (const std::string& note : seen.notes) lines += fmt::format("note: {}\n", printable(note));
    if (seen.mismatches.empty())
      lines += fmt::format("verified: {}, {} files with their hashes; a hash is no signature\n",
                           printable(options.file), seen.files);
    print_all(lines);
    return seen.mismatches.empty() ? 0 : 1;
  });
}

int show(const ReceiptFileOptions& options) {
  return on_receipt(options.file, [](const std::string& text) {
    print_all(training::printable_lines(training::receipt_summary(text)) + "\n");
    return 0;
  });
}

}  // namespace

Command add_receipt(CLI::App& app) {
  const auto options = std::make_shared<ReceiptFileOptions>();
  CLI::App* receipt = app.add_subcommand("receipt", "Check or show what --receipt wrote about a run");
  receipt->require_subcommand(1);
  CLI::App* checked = receipt->add_subcommand("check", "Compare a receipt with itself and with the files it names");
  CLI::App* shown = receipt->add_subcommand("show", "A receipt on one screen");
  for (CLI::App* command : {checked, shown}) command->add_option("file", options->file, "the receipt")->required();
  checked->add_option("--root", options->root, "a folder to look for the files in, where they were moved");
  checked->add_flag("-q,--quiet", options->quiet, "print no notes about another version or another machine");
  return {receipt, [options, checked] { return checked->parsed() ? check(*options) : show(*options); }};
}

}  // namespace etna::cli
