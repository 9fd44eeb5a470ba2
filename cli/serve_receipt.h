#pragma once

#include <memory>
#include <string>
#include <vector>

#include <etna/serve/receipts.h>
#include <etna/serve/service.h>
#include <etna/train/receipt.h>

#include "generation.h"

/// Receipts of `etna serve`: of the whole service, and of requests (docs/receipts.md).
namespace etna::cli {

struct ServeReceiptOptions {
  std::int64_t kept = 0;  ///< receipts of requests that are kept; 0: none are made
};

void add_serve_receipt_options(CLI::App& app, ModelOptions& options, ServeReceiptOptions& receipts);

/// Counts from its construction, where the options ask for it.
class ServeReceipts {
 public:
  /// @param names of options.stacked @throws OutputExists, FormatError where the file cannot be written
  ServeReceipts(const ModelOptions& options, const ServeReceiptOptions& receipts,
                const std::vector<std::string>& names);

  /// The models are loaded: hashes their files. @return receipts of requests; null: none are made
  serve::Receipts* loaded(const std::vector<serve::ServedModel>& models);
  /// Writes the receipt of the service. Nothing may run any more.
  void write(const serve::Engine& engine, const serve::Service& service, double load_seconds);

 private:
  const ModelOptions& options_;
  const std::int64_t kept_;
  std::unique_ptr<training::Receipt> receipt_;
  std::vector<std::string> roles_;  ///< of files that only some models are made of
  std::unique_ptr<serve::Receipts> requests_;
};

}  // namespace etna::cli
