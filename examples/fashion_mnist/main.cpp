#include <cstdio>
#include <memory>

#include <CLI/CLI.hpp>

#include "models.h"
#include "train.h"

using namespace etna;

// Classifies pictures of clothes (Xiao, Rasul & Vollgraf 2017). On Debian the package dataset-fashion-mnist has them.
int main(int argc, char** argv) {
  CLI::App app("Trains a CNN or a small vision transformer on Fashion-MNIST");
  Options options;
  bool drawn = false;
  app.allow_windows_style_options(false);  // a path may begin with a slash
  app.add_option("--data", options.data, "folder with the four IDX files, plain or .gz")
      ->default_val("/usr/share/datasets/fashion-mnist");
  app.add_flag("--drawn", drawn, "train on drawn shapes instead, which need no files");
  app.add_option("--device", options.device, "cpu, vulkan:0, auto");
  app.add_option("--model", options.model)->check(CLI::IsMember({"cnn", "vit"}))->capture_default_str();
  app.add_option("--epochs", options.epochs)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--batch", options.batch)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--lr", options.rate)->check(CLI::PositiveNumber)->capture_default_str();
  app.add_option("--limit", options.limit, "how many training pictures; 0: all")->check(CLI::NonNegativeNumber);
  app.add_option("--precision", options.precision)->check(CLI::IsMember({"f32", "bf16"}))->capture_default_str();
  app.add_option("--seed", options.seed)->capture_default_str();
  app.add_option("--want", options.wanted, "fail below this test accuracy in %");
  CLI11_PARSE(app, argc, argv);
  try {
    const Device device = select_device(options.device);
    manual_seed(options.seed);
    std::unique_ptr<nn::UnaryModule> model;
    if (options.model == "cnn")
      model = std::make_unique<Cnn>();
    else
      model = std::make_unique<VisionTransformer>();
    model->to(device);
    const Pictures training = drawn ? drawn_pictures(2000, 2, device) : load_pictures(options, true, device);
    const Pictures test = drawn ? drawn_pictures(1000, 3, device) : load_pictures(options, false, device);
    std::printf("%s with %lld parameters on %s, %lld pictures\n", options.model.c_str(),
                static_cast<long long>(model->num_parameters()), device.str().c_str(),
                static_cast<long long>(training.x.size(0)));
    const double right = train(*model, training, test, options, device);
    if (right >= options.wanted) return 0;
    std::printf("the accuracy is below %.2f %%\n", options.wanted);
    return 1;
  } catch (const Error& error) {
    std::fprintf(stderr, "fashion_mnist: %s\n", error.what());
    return 3;
  }
}
