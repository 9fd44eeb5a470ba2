#include <algorithm>
#include <memory>
#include <string>
#include <vector>

#include <fmt/format.h>

#include <etna/data/text_file.h>
#include <etna/device/device.h>
#include <etna/device/error.h>
#include <etna/train/progress.h>
#include <etna/train/text_training.h>
#include <etna/train/training_loop.h>

#include "commands.h"
#include "generation.h"
#include "output.h"
#include "receipt_option.h"

namespace etna::cli {

using training::printable;

namespace {

struct FinetuneOptions {
  training::FineTuneOptions tuning;
  training::SettingList list;
  std::string device, out, config, receipt;
  bool resume = false, force = false, print_config = false, strict = false;
};

/// An option for each setting: --eval-every for eval_every.
void add_settings(CLI::App& app, training::SettingList& list) {
  for (const auto& [name, help] : list.described()) {
    std::string option = "--" + name;
    std::replace(option.begin(), option.end(), '_', '-');
    const std::string names = name == "model" ? "-m," + option : option;
    app.add_option_function<std::string>(
           names,
           [&list, name = name, option](const std::string& text) {
             try {
               list.set(name, text, option);
             } catch (const training::SettingError& error) {
               throw CLI::ValidationError(error.what());
             }
           },
           help)
        ->group("Settings");
  }
}

std::vector<FilePath> files_read(const training::FineTuneOptions& options) {
  std::vector<FilePath> files;
  for (const std::string& file : {options.model, options.data, options.valid_data, options.adapter, options.teacher})
    if (!file.empty()) files.emplace_back(file);
  return files;
}

training::FineTuneResult run_finetune(FinetuneOptions& options, training::Receipt* receipt) {
  training::FineTuneOptions& tuning = options.tuning;
  tuning.folder = options.out;
  tuning.existing = options.resume  ? training::ExistingRun::resume
                    : options.force ? training::ExistingRun::overwrite
                                    : training::ExistingRun::refuse;
  if (options.strict) set_strict(true);
  tuning.device = select_device(options.device);
  print_all(device_line(options.device, tuning.device) + "\n");
  // A folder of a training run is the model of its best checkpoint.
  if (!tuning.model.empty()) tuning.model = model_path(tuning.model).string();
  training::FineTuneResult result = training::fine_tune(tuning, &options.list);
  if (receipt == nullptr) return result;
  receipt->device(options.device, tuning.device);
  receipt->seed("training", static_cast<std::uint64_t>(tuning.seed));
  receipt->file("model", tuning.model);
  receipt->file("rows", tuning.data);
  receipt->number("steps", static_cast<double>(result.steps));
  if (result.loss) receipt->number("final_loss", *result.loss);
  if (result.valid_loss) receipt->number("valid_loss", *result.valid_loss);
  if (!result.adapter.empty()) receipt->file("adapter", result.adapter);
  if (!result.merged.empty()) receipt->file("merged", result.merged);
  receipt->write(options.receipt);
  return result;
}

int finetune(FinetuneOptions& options) try {
  if (!options.config.empty()) options.list.read(data::read_text_file(options.config), options.config);
  if (options.print_config) {
    print_all(options.list.toml());
    return 0;
  }
  if (options.out.empty()) {
    print_error("--out names the folder of the run, and is missing");
    return 2;
  }
  const auto receipt = begin_receipt(options.receipt, options.force, files_read(options.tuning));
  return run_finetune(options, receipt.get()).exit_code;
} catch (const training::SettingError& error) {
  print_error(printable(error.what()));
  return 2;
} catch (const training::FolderTaken& error) {
  print_error(fmt::format("{}; --resume goes on with it, --force begins anew", printable(error.what())));
  return 4;
} catch (const FormatError& error) {
  print_error(printable(error.what()));
  return 4;
} catch (const training::NonFiniteLoss& error) {
  print_error(printable(error.what()));
  return 6;
}

}  // namespace

Command add_finetune(CLI::App& app) {
  const auto options = std::make_shared<FinetuneOptions>();
  CLI::App* command = app.add_subcommand("finetune", "Train a language model further on questions and answers");
  options->tuning.add_to(options->list);
  command->add_option("-o,--out", options->out, "folder for the adapters, checkpoints, metrics and the report");
  CLI::Option* resume = command->add_flag("--resume", options->resume, "go on with the run in --out");
  command->add_option("--device", options->device,
                      "auto, gpu, cpu, vulkan or vulkan:N (default: $ETNA_DEVICE, else auto)");
  command->add_flag("--strict", options->strict, "refuse what would silently run on the CPU");
  command->add_option("--config", options->config, "a TOML file of settings, for those that are not given here");
  command->add_flag("--print-config", options->print_config, "print all settings and where they come from, and end");
  command->add_flag("!--eager", options->tuning.captured, "run op by op instead of replaying a captured step");
  command->add_flag("!--no-forecast", options->tuning.forecast,
                    "do not measure beforehand how much memory it will take");
  command->add_flag("--profile", options->tuning.profile, "print where the time of 20 steps went");
  command->add_flag("--force", options->force, "remove the run in --out first")->excludes(resume);
  add_receipt_option(*command, options->receipt, options->force);
  add_settings(*command, options->list);
  return {command, [options] { return cli::finetune(*options); }};
}

}  // namespace etna::cli
