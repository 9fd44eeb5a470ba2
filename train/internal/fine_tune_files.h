#pragma once

#include <string>

#include <etna/models/model_file.h>
#include <etna/train/text_training.h>

/// What fine-tuning leaves in its run's folder. Internal.
namespace etna::training {

/// Checks FineTuneOptions::merge. @throws FormatError for a format that cannot hold weights, and an unknown one
void check_merge(const std::string& merge);

/// What a checkpoint of a run that trains all weights says of the model, so that it can be loaded as one: the folder's
/// config.json, or one that is made of the design. Empty where neither is there: only the finished model is one then.
std::string checkpoint_config(const FineTuneOptions& options, const models::DecoderConfig& config);

/// Checks, before anything is trained, that the whole model can be written where that is asked for.
/// @throws FormatError where GGUF has no words for its design
void check_tuned_model(const FineTuneOptions& options, const models::Model& model);

/// Writes the adapters, as PEFT's folder and as a GGUF file where each can hold them, and the whole model where it was
/// asked for or all of it was trained. Adapters are merged for that. @param result gets the names of the files
/// @throws FormatError where nothing can be written
void write_tuned_model(const FineTuneOptions& options, models::Model& model, FineTuneResult& result);

/// The lines that tell how to run what was written.
std::string commands_to_run(const FineTuneOptions& options, const FineTuneResult& result);

}  // namespace etna::training
