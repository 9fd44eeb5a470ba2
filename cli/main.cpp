#include <cstdio>
#include <new>

#include <CLI/CLI.hpp>

#include <etna/device/error.h>
#include <etna/device/internal/os/process.h>
#include <etna/models/model_file.h>
#include <etna/train/progress.h>

#include "arguments.h"
#include "commands.h"
#include "data.h"
#include "generation.h"
#include "models.h"
#include "output.h"
#include "reference.h"
#include "runs.h"
#include "tune.h"

/// Exit codes: 0 success, 1 any other failure, 2 wrong usage, 3 a missing, lost or faulty device, 4 runs or data that
/// are not there or cannot be used, 5 out of memory, 8 suspicious weights, 130 stopped by Ctrl-C.
int main(int argc, char** argv) {
  etna::os::open_standard_streams();
  CLI::App app{"Language models, what Etna can run on, texts to train on, and what was trained."};
  app.require_subcommand(1);
  app.set_version_flag("--version", "etna " ETNA_VERSION);
  app.allow_windows_style_options(false);  // a path may begin with a slash
  app.add_subcommand("devices", "List every device, usable or not, and which one `auto` takes");
  CLI::App* doctor =
      app.add_subcommand("doctor", "Show drivers, features and limits of every device and check its arithmetic");
  bool benching = false;
  bool moltenvk = false;
  etna::cli::BenchOptions options;
  CLI::Option* bench = doctor->add_flag("--bench", benching,
                                        "instead measure what dispatches, barriers, submits, copies and products take");
  doctor
      ->add_option("--device", options.devices,
                   "cpu, vulkan:N or auto, several by commas (default: all but software rasterizers)")
      ->delimiter(',')
      ->needs(bench);
  etna::cli::add_output(*doctor, "--json", options.json, "also write the figures to this file", options.force)
      ->needs(bench);
  doctor->add_flag("--moltenvk", moltenvk, "instead compare what MoltenVK (macOS) offers with what kernels ask for")
      ->excludes(bench);
  doctor->add_flag("--quick", options.quick, "small sizes and counts, to see that it works")->needs(bench);
  etna::cli::TuneOptions tuning;
  CLI::App* tune =
      app.add_subcommand("tune", "Time every way to cut usual matrix products and keep the fastest for later runs");
  tune->add_option("--device", tuning.device, "vulkan:N or auto (default: auto)");
  tune->add_option("--dtype", tuning.dtypes, "f32, f16, bf16, several by commas")
      ->delimiter(',')
      ->check(CLI::IsMember({"f32", "f16", "bf16"}))
      ->capture_default_str();
  tune->add_flag("--quick", tuning.quick, "two small products, to see that it works");
  etna::cli::RunsOptions run_options;
  CLI::App* runs = etna::cli::add_runs(app, run_options);
  etna::cli::DataOptions data_options;
  CLI::App* data = etna::cli::add_data(app, data_options);
  etna::cli::InspectOptions inspect_options;
  etna::cli::add_inspect(app, inspect_options);
  etna::cli::QuantizeOptions quantize_options;
  etna::cli::add_quantize(app, quantize_options);
  etna::cli::TextOptions run_text_options, chat_options;
  etna::cli::add_run(app, run_text_options);
  etna::cli::add_chat(app, chat_options);
  etna::cli::ModelBenchOptions model_bench_options;
  etna::cli::add_bench(app, model_bench_options);
  etna::cli::PerplexityOptions perplexity_options;
  etna::cli::add_perplexity(app, perplexity_options);
  etna::cli::ConvertOptions convert_options;
  etna::cli::add_convert(app, convert_options);
  std::string shell;
  app.add_subcommand("completion", "Print what a shell completes etna's words by: source <(etna completion bash)")
      ->add_option("shell", shell, "bash, zsh or fish")
      ->required()
      ->check(CLI::IsMember({"bash", "zsh", "fish"}));
  app.add_subcommand("man", "Print the manual page: etna man | man -l -");
  try {
    app.parse(argc, argv);
  } catch (const CLI::ParseError& error) {
    if (error.get_exit_code() != 0) {
      if (const std::string unknown = etna::cli::unknown_argument(app); !unknown.empty()) {
        etna::cli::print_error(unknown);
        return 2;
      }
    }
    return app.exit(error) == 0 ? 0 : 2;
  }
  try {
    if (app.got_subcommand("devices")) return etna::cli::devices();
    if (app.got_subcommand("tune")) return etna::cli::tune(tuning);
    if (app.got_subcommand("runs")) return etna::cli::runs(*runs, run_options);
    if (app.got_subcommand("data")) return etna::cli::data_command(*data, data_options);
    if (app.got_subcommand("inspect")) return etna::cli::inspect(inspect_options);
    if (app.got_subcommand("quantize")) return etna::cli::quantize(quantize_options);
    if (app.got_subcommand("run")) return etna::cli::run_text(run_text_options);
    if (app.got_subcommand("chat")) return etna::cli::chat(chat_options);
    if (app.got_subcommand("bench")) return etna::cli::bench_model(model_bench_options);
    if (app.got_subcommand("perplexity")) return etna::cli::perplexity(perplexity_options);
    if (app.got_subcommand("convert")) return etna::cli::convert(convert_options);
    if (app.got_subcommand("completion")) return etna::cli::print_all(etna::cli::completion(app, shell)), 0;
    if (app.got_subcommand("man")) return etna::cli::print_all(etna::cli::man_page(app)), 0;
    if (moltenvk) return etna::cli::doctor_moltenvk();
    return benching ? etna::cli::bench(options) : etna::cli::doctor();
  } catch (const etna::io::OutputExists& error) {
    etna::cli::print_error(etna::training::printable(error.what()));
    return 2;
  } catch (const etna::DeviceError& error) {
    etna::cli::print_error(error.what());
    return 3;
  } catch (const etna::models::SuspiciousWeights& error) {
    etna::cli::print_error(etna::training::printable(error.what()));
    return etna::cli::kSuspicious;
  } catch (const etna::OutOfMemory& error) {
    etna::cli::print_error(error.what());
    return 5;
  } catch (const std::bad_alloc&) {
    etna::cli::print_error("the host has no memory left");
    return 5;
  } catch (const std::exception& error) {
    etna::cli::print_error(error.what());
    return 1;
  }
}
