#include <etna/data/tokenizers/chat_template.h>
#include <etna/device/error.h>
#include <etna/train/text_training.h>

namespace etna::training {

FineTuneOptions::FineTuneOptions() {
  batch = 4;
  epochs = 3;
  lr = 0;
  lr_floor = 0;
  warmup = 10;
  weight_decay = 0;
  beta2 = 0.999;
}

void FineTuneOptions::add_to(SettingList& list) {
  list.text("model", model, "the model to begin with: a GGUF file, or a folder of Hugging Face");
  list.text("data", data, "the rows to learn from: a file with one JSON object a line");
  list.text("valid_data", valid_data, "rows to validate on (default: a share of the data)");
  list.real("valid", valid, 0, 0.9, "share of the rows to validate on; 0: none");
  list.choice("method", method, {"lora", "dora", "full"},
              "what is trained: low-rank adapters, those with magnitudes, or all weights");
  list.choice("objective", objective, {"auto", "answers", "dpo", "orpo", "teacher"},
              "what is learned: answers, preferences by DPO or ORPO, or a teacher's probabilities, too");
  list.integer("rank", rank, 1, 1 << 16, "of the adapters");
  list.real("alpha", alpha, -1e6, 1e6, "the adapters' factor times their rank");
  list.real("dropout", dropout, 0, 0.99, "of the adapters' input");
  list.text("targets", targets, "layers that get an adapter: all, attention, experts, or names with commas between");
  list.text("adapter", adapter, "adapters to go on with, instead of fresh ones");
  list.text("chat_format", chat_format, "a chat format's name, or none (default: the model's own template)");
  list.integer("seq", seq, 2, 1 << 24, "tokens of a row at most");
  list.choice("packing", packing, {"on", "off"}, "several short texts share a row, and do not see each other");
  list.choice("order", order, {"shuffled", "file"}, "of the rows in an epoch");
  list.real("beta", beta, 0, 1e3, "DPO: how close to the first model to stay; ORPO: the weight of the odds");
  list.text("teacher", teacher, "a larger model with the same vocabulary, whose probabilities are learned, too");
  list.real("teacher_share", teacher_share, 0, 1, "of the divergence from the teacher in the loss");
  list.real("temperature", temperature, 1e-2, 1e3, "of the probabilities that are compared with the teacher's");
  list.text("merge", merge, "also write a whole model: on, or the format of its matrices, q8_0 for example");
  list.integer("sample_tokens", sample_tokens, 0, 1 << 20, "of the texts before and after; 0: none");
  Recipe::add_to(list);
}

std::vector<std::string> FineTuneOptions::may_change() {
  std::vector<std::string> names = Recipe::may_change();
  names.insert(names.end(), {"merge", "sample_tokens"});
  return names;
}

void FineTuneOptions::check() const {
  FineTuneOptions copy = *this;
  SettingList list;
  copy.add_to(list);
  list.read(list.toml(), "");
  const auto require = [](bool holds, const char* sentence) {
    if (!holds) throw SettingError(sentence);
  };
  require(!model.empty(), "model is not given; wanted a GGUF file or a folder of Hugging Face");
  require(!data.empty(), "data is not given; wanted a file with one JSON object a line");
  require(epochs > 0 || steps > 0, "epochs and steps are both 0; one of them says how long to train");
  require(patience == 0 || valid > 0 || !valid_data.empty(),
          "patience ends a run by its validation loss, and valid is 0; set valid, or give valid_data");
  require(method != "full" || adapter.empty(), "adapter does not go with method = full; merge it into the model first");
  require(objective != "teacher" || !teacher.empty(), "objective is teacher, but no teacher is given");
  require(teacher.empty() || objective == "teacher" || objective == "auto",
          "a teacher goes with the objective teacher alone");
}

}  // namespace etna::training
