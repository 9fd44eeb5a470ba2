#pragma once

#include <filesystem>
#include <string>

#include <etna/etna.h>

struct Options {
  std::filesystem::path data;
  std::string device, model = "cnn", precision = "f32";
  int epochs = 6;
  std::int64_t batch = 128, limit = 0;  ///< limit: how many training pictures; 0: all
  double rate = 3e-3, wanted = 0;       ///< accuracy in % that the run must reach
  std::uint64_t seed = 1;
};

/// Pictures [N, 1, 28, 28], scaled to mean 0 and variance 1, and their classes [N].
struct Pictures {
  etna::Tensor x, y;
};

Pictures load_pictures(const Options& options, bool training, etna::Device device);
/// Pictures of three shapes that need no files, for a quick try.
Pictures drawn_pictures(std::int64_t count, std::uint64_t seed, etna::Device device);

/// Trains and prints a line an epoch. @return the accuracy on the test set in %
double train(const etna::nn::UnaryModule& model, const Pictures& training, const Pictures& test, const Options& options,
             etna::Device device);
