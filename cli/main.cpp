#include <cstdio>
#include <new>

#include <CLI/CLI.hpp>

#include <etna/device/error.h>
#include <etna/device/internal/os/process.h>
#include <etna/models/model_file.h>
#include <etna/train/progress.h>

#include "arguments.h"
#include "commands.h"
#include "output.h"
#include "receipt_option.h"

/// Exit codes: 0 success, 1 any other failure, 2 wrong usage, 3 a missing, lost or faulty device, 4 runs or data that
/// are not there or cannot be used, 5 out of memory, 8 suspicious weights, 130 stopped by Ctrl-C.
int main(int argc, char** argv) {
  etna::os::open_standard_streams();
  etna::cli::command_line().assign(argv, argv + argc);
  CLI::App app{"Language models, what Etna can run on, texts to train on, and what was trained."};
  app.require_subcommand(1);
  app.set_version_flag("--version", "etna " ETNA_VERSION);
  app.allow_windows_style_options(false);  // a path may begin with a slash
  const etna::cli::Command commands[] = {
#define ETNA_COMMAND(name) etna::cli::add_##name(app),
#include "commands.def"
#undef ETNA_COMMAND
  };
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
    for (const etna::cli::Command& command : commands) {
      if (command.app->parsed()) return command.run();
    }
    return 2;  // require_subcommand() lets nothing come here
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
