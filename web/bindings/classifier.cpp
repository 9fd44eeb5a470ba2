// A classifier of grey images of 28×28 in ten classes, trained in steps that are captured where the device can.
#include <algorithm>
#include <deque>

#include <fmt/format.h>

#include <etna/device/profile/profiler.h>
#include <etna/etna.h>

#include "call.h"
#include "digit_models.h"

namespace etna::web {
namespace {

/// How many losses may wait to be read: a page that reads none must not gather them for ever.
constexpr std::int64_t kLosses = 256;

std::unique_ptr<nn::UnaryModule> model_named(const std::string& name) {
  if (name == "mlp") return std::make_unique<Mlp>();
  if (name == "cnn") return std::make_unique<Cnn>();
  throw Error(fmt::format("classifier: there is no model '{}'; there are mlp and cnn", name));
}

struct Classifier {
  Classifier(const std::string& name, Device device, double lr)
      : device(device),
        model(model_named(name)),
        optimizer((model->to(device), model->parameters()), {.lr = lr}),
        captured([this](const Tensor& x, const Tensor& y) { return train(x, y); },
                 {.device = device, .name = "classifier", .varied_shapes = true}) {}

  Tensor train(const Tensor& x, const Tensor& y) {
    Tensor loss = cross_entropy((*model)(x), y);
    loss.backward();
    optimizer.step();
    optimizer.zero_grad();
    return loss;
  }

  Device device;
  std::unique_ptr<nn::UnaryModule> model;
  optim::AdamW optimizer;
  CapturedFunction<std::function<Tensor(const Tensor&, const Tensor&)>> captured;
  std::int64_t steps = 0;
  std::deque<PendingValue> losses;  ///< of the last steps
};

Kept<Classifier>& classifiers() {
  static Kept<Classifier> all("classifier");
  return all;
}

/// About the mean and the deviation of the pixels of MNIST (0.13 and 0.31) and of Fashion-MNIST (0.29 and 0.35).
constexpr double kMean = 0.2, kDeviation = 0.33;

/// Bytes of images, 0 to 255, then a byte a label. @return [count, 1, 28, 28] on the CPU, about normalized
Tensor images_of(const Json& args, std::int64_t count) {
  const Bytes bytes = bytes_of(args);
  if (count < 1) throw ShapeError("classifier: there are no images");
  if (static_cast<std::int64_t>(bytes.size) < count * kPixels)
    throw ShapeError(fmt::format("classifier: {} bytes are not {} images of 28×28", bytes.size, count));
  return from_bytes(bytes.data, {count, 1, kSide, kSide}, u8).to(f32) / (255.0 * kDeviation) - kMean / kDeviation;
}
Tensor labels_of(const Json& args, std::int64_t count) {
  const Bytes bytes = bytes_of(args);
  if (static_cast<std::int64_t>(bytes.size) != count * (kPixels + 1))
    throw ShapeError(fmt::format("classifier: there must be as many labels as images, {}", count));
  const Tensor labels = from_bytes(bytes.data + count * kPixels, {count}, u8).to(i64);
  if (labels.max().item() >= kClasses) throw IndexError("classifier: labels are 0 to 9");
  return labels;
}

Json make(const Json& args) {
  classifiers().put(args.at("id"), std::make_unique<Classifier>(args.at("model").get<std::string>(), device_of(args),
                                                                number_of(args.at("lr"))));
  return Json::object();
}

Json train_step(const Json& args) {
  Classifier& classifier = classifiers().at(args);
  const std::int64_t count = args.at("count");
  const Tensor images = images_of(args, count), labels = labels_of(args, count);
  if (args.contains("lr")) classifier.optimizer.set_lr(0, number_of(args.at("lr")));
  classifier.losses.push_back(read_later(classifier.captured(images, labels)));
  if (static_cast<std::int64_t>(classifier.losses.size()) > kLosses) classifier.losses.pop_front();
  return {{"step", ++classifier.steps}};
}

Json loss(const Json& args) {
  const Classifier& classifier = classifiers().at(args);
  const auto before_last = classifier.steps - args.at("step").get<std::int64_t>();
  const auto size = static_cast<std::int64_t>(classifier.losses.size());
  if (before_last < 0 || before_last >= size)
    throw Error(fmt::format("classifier: the losses of the last {} steps can be read", kLosses));
  return {{"loss", json_of(classifier.losses[static_cast<std::size_t>(size - 1 - before_last)].get())}};
}

Json evaluate(const Json& args) {
  NoGrad no_grad;
  const Classifier& classifier = classifiers().at(args);
  const std::int64_t count = args.at("count");
  const Tensor images = images_of(args, count), labels = labels_of(args, count);
  double loss = 0, right = 0;
  for (std::int64_t begin = 0; begin < count; begin += 256) {
    const std::int64_t end = std::min(begin + 256, count);
    const Tensor y = labels.slice(0, begin, end).to(classifier.device);
    const Tensor logits = (*classifier.model)(images.slice(0, begin, end).to(classifier.device));
    loss += cross_entropy(logits, y).item() * static_cast<double>(end - begin);
    right += logits.argmax(1).eq(y).to(f32).sum().item();
  }
  const auto number = static_cast<double>(count);
  return {{"loss", json_of(loss / number)}, {"accuracy", right / number}, {"count", count}};
}

/// @return probabilities, [count, 10] f32
Json predict(const Json& args) {
  NoGrad no_grad;
  const Classifier& classifier = classifiers().at(args);
  const std::int64_t count = args.at("count");
  const Tensor logits = (*classifier.model)(images_of(args, count).to(classifier.device));
  const Tensor chances = logits.softmax(1).to(kCPU).contiguous();
  return with_bytes({{"dtype", "f32"}}, chances.raw_data(), static_cast<std::size_t>(chances.numel()) * sizeof(float));
}

Json describe(const Json& args) {
  const Classifier& classifier = classifiers().at(args);
  std::int64_t parameters = 0;
  for (const Tensor& parameter : classifier.model->parameters()) parameters += parameter.numel();
  return {{"device", classifier.device.str()},
          {"parameters", parameters},
          {"steps", classifier.steps},
          {"captured", classifier.captured.captured()},
          {"replays", classifier.captured.replays()}};
}

Json free_classifier(const Json& args) {
  classifiers().free(args.at("id"));
  return Json::object();
}

}  // namespace

void add_classifier_methods(Methods& methods) {
  methods["classifier"] = make;
  methods["train_step"] = train_step;
  methods["loss"] = loss;
  methods["evaluate"] = evaluate;
  methods["predict"] = predict;
  methods["describe_classifier"] = describe;
  methods["free_classifier"] = free_classifier;
}

}  // namespace etna::web
