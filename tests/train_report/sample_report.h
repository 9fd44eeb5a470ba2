#pragma once

#include <algorithm>
#include <cmath>
#include <cstdint>
#include <string>

#include <etna/train/report.h>

namespace etna::training {

/// Numbers as of a small language model: a loss that falls and trembles.
inline std::vector<RunReport::Curves> sample_curves() {
  Series loss{"loss", {}}, valid{"valid_loss", {}}, rate{"lr", {}}, speed{"tokens_per_second", {}};
  std::uint32_t state = 1;
  const auto tremble = [&state] {
    state = state * 1664525u + 1013904223u;
    return static_cast<double>(state >> 8) / (1 << 24) - 0.5;
  };
  for (int step = 0; step <= 20'000; step += 10) {
    const double falling = 3.02 + 3.2 * std::exp(-step / 1500.0) + 3.9 * std::exp(-step / 150.0);
    loss.points.push_back({static_cast<double>(step), falling + 0.12 * tremble()});
    if (step % 1000 == 0) valid.points.push_back({static_cast<double>(step), falling + 0.1});
    const double warm = std::min(1.0, step / 1000.0);
    rate.points.push_back({static_cast<double>(step), 3e-4 * warm * (0.55 + 0.45 * std::cos(step / 6400.0))});
    speed.points.push_back({static_cast<double>(step), 181'000 + 4000 * tremble() - (step % 5000 == 0 ? 30'000 : 0)});
  }
  return {{{loss, valid}, {.title = "Loss", .x_label = "step"}},
          {{rate}, {.title = "Learning rate", .x_label = "step"}},
          {{speed}, {.title = "Tokens per second", .x_label = "step"}}};
}

/// A report with every part.
inline RunReport sample_report() {
  RunReport report;
  report.title = "WikiText-2, small";
  report.note = "wikitext train --preset small --device vulkan:0; finished on 2026-11-23 after 31 minutes";
  report.summary = {{"Validation perplexity", "21.43"},
                    {"Test perplexity", "20.26"},
                    {"Steps", "20,000"},
                    {"Tokens/s", "181,204"},
                    {"Time", "31:07"},
                    {"Parameters", "12,845,056"},
                    {"Device", "vulkan:0 (NVIDIA H200)"},
                    {"Model", "6 layers, 512 wide"}};
  report.curves = sample_curves();
  report.tables = {{"Evaluations",
                    {"step", "set", "loss", "perplexity"},
                    {{"10,000", "valid", "3.102", "22.24"},
                     {"20,000", "valid", "3.065", "21.43"},
                     {"20,000", "test", "3.009", "20.26"}}}};
  report.config_json = R"({"layers":6,"heads":8,"dim":512,"ffn":2048,"seq":256,"vocab":8192,"dropout":0.1,
    "optimizer":"AdamW","lr":0.0003,"betas":[0.9,0.95],"seed":1})";
  report.environment = {
      {"Etna", "0.1.0"}, {"Compiler", "GCC 12.2"}, {"Driver", "Vulkan 1.4.312"}, {"Host memory", "128 GiB"}};
  report.profile_svg =
      "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 600 60\" width=\"600\" height=\"60\"><rect "
      "width=\"100%\" "
      "height=\"100%\" fill=\"#fff\"/><rect x=\"20\" y=\"20\" width=\"400\" height=\"20\" fill=\"#4e79a7\"/></svg>";
  report.prompt = "The castle was built ";
  report.sample =
      "in the twelfth century on a hill above the river . It was first mentioned in 1183 , when the bishop gave it to "
      "his brother , and it was besieged three times before the end of the war . The northern tower is the oldest part "
      "of the building ; its walls are more than two metres thick .";
  return report;
}

}  // namespace etna::training
