#pragma once

#include <span>
#include <string>
#include <vector>

#include <etna/data/tokenizers/tokenizer.h>
#include <etna/models/generator.h>
#include <etna/train/progress.h>

#include "generation.h"

namespace etna::cli {

void add_model_options(CLI::App& app, ModelOptions& options);
/// --guesses and --draft, of commands that write texts.
void add_guess_options(CLI::App& app, ModelOptions& options);
void add_sampling_options(CLI::App& app, TextOptions& options);

/// Writes a text to standard output at once, if this is rank 0. @throws Error if it cannot be written
void print_now(const std::string& text);

/// Generates a text and prints it as it comes.
class Answer {
 public:
  /// All of them must outlive this object. @param grammar of the texts; null: any text
  Answer(models::Generator& generator, const data::Tokenizer& tokenizer, const TextOptions& options,
         const training::Interrupt& interrupt, std::shared_ptr<models::TokenGrammar> grammar = nullptr);
  /// @param images in the prompt, or null @return the tokens of the answer
  std::vector<std::int32_t> write(std::span<const std::int32_t> prompt,
                                  std::shared_ptr<const models::PromptImages> images = nullptr);
  /// Of the next text.
  std::uint64_t seed() const { return seed_; }
  models::StopReason reason() const { return reason_; }
  const std::string& text() const { return text_; }

 private:
  models::Generator& generator_;
  const data::Tokenizer& tokenizer_;
  const TextOptions& options_;
  const training::Interrupt& interrupt_;
  const std::shared_ptr<models::TokenGrammar> grammar_;
  std::uint64_t seed_;
  std::string text_;
  models::StopReason reason_ = models::StopReason::none;
};

}  // namespace etna::cli
