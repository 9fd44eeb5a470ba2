#pragma once

#include <string>

#include <etna/models/model_file.h>
#include <etna/train/text_training.h>

/// What fine-tuning leaves in its run's folder. Internal.
namespace etna::training {

/// Checks FineTuneOptions::merge. @throws FormatError for a format that cannot hold weights, and an unknown one
void check_merge(const std::string& merge);

/// Writes the adapters, as PEFT's folder and as a GGUF file where each can hold them, and the whole model where it was
/// asked for or all of it was trained. Adapters are merged for that. @param result gets the names of the files
/// @throws FormatError where nothing can be written
void write_tuned_model(const FineTuneOptions& options, models::Model& model, FineTuneResult& result);

/// The lines that tell how to run what was written.
std::string commands_to_run(const FineTuneOptions& options, const FineTuneResult& result);

}  // namespace etna::training
