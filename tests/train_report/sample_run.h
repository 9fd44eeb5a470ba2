#pragma once

#include <string>

#include <etna/train/runs.h>

namespace etna::training {

inline RunRecord record(const std::string& id) {
  RunRecord run;
  run.id = id;
  run.time = "2026-11-23T01:30:06Z";
  run.folder = "/runs/" + id;
  run.program = "wikitext train";
  run.device = "cpu";
  run.config = R"({"lr":0.001,"model":{"dim":512}})";
  run.steps = 1000;
  run.numbers = {{"tokens_per_second", 1e6}, {"final_loss", 3.25}};
  run.perplexities = {{"valid", 21.5}, {"test", 20.25}};
  return run;
}

}  // namespace etna::training
